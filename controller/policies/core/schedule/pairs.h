/* This file finds, begins and forgets the nodes and the pairs of the schedule, and keeps their lists. A part of schedule.c. */
#pragma once
#include "lines.h"

#define LIST_ADD(head, elements, at, BEFORE, AFTER)                                                                     \
	do {                                                                                                            \
		(elements)[at].BEFORE = NONE;                                                                           \
		(elements)[at].AFTER = (head);                                                                          \
		if ((head) != NONE)                                                                                     \
			(elements)[head].BEFORE = (at);                                                                 \
		(head) = (at);                                                                                          \
	} while (0)

#define LIST_REMOVE(head, elements, at, BEFORE, AFTER)                                                                  \
	do {                                                                                                            \
		if ((elements)[at].BEFORE != NONE)                                                                      \
			(elements)[(elements)[at].BEFORE].AFTER = (elements)[at].AFTER;                                 \
		else                                                                                                    \
			(head) = (elements)[at].AFTER;                                                                  \
		if ((elements)[at].AFTER != NONE)                                                                       \
			(elements)[(elements)[at].AFTER].BEFORE = (elements)[at].BEFORE;                                \
	} while (0)

/* -- nodes and pairs ------------------------------------------------------------------------------------------------------ */

static uint32_t node_at(struct core *core, uint32_t id)
{
	uint32_t at = map_get(&core->node_of, id);
	if (at != NONE)
		return at;
	GROW(core->nodes, core->node_room, core->node_count + 1);
	at = core->node_count++;
	core->nodes[at] = (struct node){.id = id, .waiting = NONE, .from = NONE, .to = NONE, .before = NONE, .after = NONE};
	core->nodes[at].resource = new_resource(core, 1);
	map_set(&core->node_of, id, at);
	return at;
}

static bool regulates(const struct node *node, uint32_t destination)
{
	uint32_t low = 0, high = node->regulated_count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (node->regulated[middle] < destination)
			low = middle + 1;
		else
			high = middle;
	}
	return low < node->regulated_count && node->regulated[low] == destination;
}

static uint64_t key_of(uint32_t node, uint32_t destination)
{
	return (uint64_t)node << 32 | destination;
}

static void provide_links(struct core *core, uint32_t wanted)
{
	uint32_t before = core->links_most;
	if (wanted <= before)
		return;
	core->links_most = wanted;
	core->links_room = 0;
	uint32_t *links = NULL;
	GROW(links, core->links_room, core->pair_room * wanted + 1);
	for (uint32_t pair = 0; pair < core->pair_count; pair++)
		for (uint32_t at = 0; at < before; at++)
			links[pair * wanted + at] = core->links[pair * before + at];
	array_free(core->links);
	core->links = links;
}

static uint32_t pair_at(struct core *core, uint32_t node, uint32_t destination)
{
	uint64_t key = key_of(core->nodes[node].id, destination);
	uint32_t at = map_get(&core->pair_of, key);
	if (at != NONE)
		return at;
	uint32_t to = node_at(core, destination), stamp = 0;
	if (core->free_pairs != NONE) {
		at = core->free_pairs;
		core->free_pairs = core->pairs[at].from_after;
		stamp = core->pairs[at].stamp;
	} else {
		at = core->pair_count++;
		GROW(core->pairs, core->pair_room, core->pair_count);
		GROW(core->links, core->links_room, core->pair_room * core->links_most + 1);
	}
	uint64_t of_node = core->nodes[node].left_at, of_destination = core->nodes[to].left_at;
	uint64_t last = of_node > of_destination ? of_node : of_destination;
	core->pairs[at] = (struct pair){
		.node = node, .destination = destination, .stamp = stamp + 1, .booking = NONE, .gone = -1, .last = last,
		.hurried = last ? HURRIED_ENOUGH : 0, /* its first slot is one in the order */
		.regulated = regulates(&core->nodes[node], destination),
	};
	LIST_ADD(core->nodes[node].from, core->pairs, at, from_before, from_after);
	LIST_ADD(core->nodes[to].to, core->pairs, at, to_before, to_after);
	map_set(&core->pair_of, key, at);
	return at;
}

static void forget_pair(struct core *core, uint32_t at)
{
	struct pair *pair = &core->pairs[at];
	struct node *node = &core->nodes[pair->node];
	if (pair->waiting)
		LIST_REMOVE(node->waiting, core->pairs, at, waiting_before, waiting_after);
	LIST_REMOVE(node->from, core->pairs, at, from_before, from_after);
	uint32_t to = map_get(&core->node_of, pair->destination);
	LIST_REMOVE(core->nodes[to].to, core->pairs, at, to_before, to_after);
	map_remove(&core->pair_of, key_of(node->id, pair->destination));
	for (uint32_t one = 0; one < core->unplaced_count; one++)
		if (core->unplaced[one] == at)
			core->unplaced[one--] = core->unplaced[--core->unplaced_count];
	pair->entered = pair->wanted = pair->waiting = pair->placed = false;
	pair->number = 0;
	pair->from_after = core->free_pairs;
	core->free_pairs = at;
}
