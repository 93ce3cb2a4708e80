/* The order in which pairs that wait for a resource are served; see controller/policies/order.py. */
#pragma once
#include "terms.h"

static inline struct entry entry_of(const struct core *core, uint32_t number)
{
	const struct pair *pair = &core->pairs[number];
	return (struct entry){pair->last, core->nodes[pair->node].last, pair->number, number, pair->stamp};
}

/* Whether a pair is tried before those without a deadline: for HURRIED_TURNS at most between two slots in the order. */
static inline bool urgent(const struct pair *pair)
{
	return pair->deadline && pair->hurried < HURRIED_TURNS * pair->turn;
}

/* Has those which wait for a resource tried. `early`: there is room before its time, so slots may begin earlier. */
static void note_freed(struct core *core, uint32_t number, bool early)
{
	struct resource *resource = &core->resources[number];
	resource->early |= early;
	if (resource->freed)
		return;
	resource->freed = true;
	GROW(core->freed, core->freed_room, core->freed_count + 1);
	core->freed[core->freed_count++] = number;
}

static uint32_t line_of(struct core *core, uint32_t number, int64_t need, uint32_t of)
{
	struct resource *resource = &core->resources[number];
	for (uint32_t line = resource->lines; line != NONE; line = core->lines[line].next)
		if (core->lines[line].need == need && core->lines[line].of == of)
			return line;
	uint32_t at = core->free_lines;
	if (at != NONE) {
		core->free_lines = core->lines[at].next;
	} else {
		at = core->line_count++;
		GROW(core->lines, core->line_room, core->line_count);
	}
	struct line *line = &core->lines[at];
	line->heap.count = 0;
	line->first = NONE;
	line->need = need;
	line->of = of;
	line->resource = number;
	line->next = resource->lines;
	return resource->lines = at;
}

/* Forgets a line in which nobody is, `link` leads to it: capacities change again and again, and what pairs need with them. */
static void forget_line(struct core *core, uint32_t *link)
{
	uint32_t at = *link;
	*link = core->lines[at].next;
	core->lines[at].next = core->free_lines;
	core->free_lines = at;
}

static void stand(struct core *core, uint32_t number, uint32_t of)
{
	const struct pair *pair = &core->pairs[number];
	int64_t need = pair->line == NEW || pair->line == core->nodes[pair->node].resource ? 1 : pair->need;
	uint32_t line = line_of(core, pair->line, need, of);
	struct entry entry = {pair->entry_last, pair->entry_host_last, pair->number, number, pair->stamp};
	entries_push(&core->lines[line].heap, entry);
}

static void hasten(struct core *core, uint32_t number)
{
	struct pair *pair = &core->pairs[number];
	if (urgent(pair) && pair->entered && !pair->hastened) {
		pair->hastened = true;
		stand(core, number, URGENT);
	}
}

static void park(struct core *core, uint32_t number, uint32_t resource)
{
	struct pair *pair = &core->pairs[number];
	pair->stamp++;
	pair->entered = true;
	pair->hastened = false;
	pair->line = resource;
	pair->entry_last = pair->last;
	pair->entry_host_last = core->nodes[pair->node].last;
	stand(core, number, ORDINARY);
	hasten(core, number);
}

/* The first entry of a line that is still valid there; NULL when there is none. */
static const struct entry *head(struct core *core, struct line *line)
{
	while (line->heap.count) {
		const struct entry *entry = &line->heap.items[0];
		struct pair *pair = &core->pairs[entry->pair];
		if (pair->entered && pair->stamp == entry->stamp) {
			if (!pair->wanted)
				pair->entered = false;
			else if (line->of == ORDINARY || urgent(pair))
				return entry;
			else
				pair->hastened = false;
		}
		entries_pop(&line->heap);
	}
	return NULL;
}
