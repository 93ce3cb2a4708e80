/* This file says which pairs want to send: those that wait and are regulated. A part of schedule.c. */
#pragma once
#include "slots.h"

static void begin_turn(struct pair *pair)
{
	pair->length = most(shortest(pair), pair->turn / 2);
	pair->used = pair->hurried = 0;
}

static void want_no_more(struct core *core, struct pair *pair)
{
	pair->wanted = false;
	pair->deadline = 0;
	pair->gone = core->now;
}

static int by_destination(const void *a, const void *b)
{
	return (*(const uint64_t *)a > *(const uint64_t *)b) - (*(const uint64_t *)a < *(const uint64_t *)b);
}

/* Brings a node's pairs in line with its backlog and with what is regulated. New pairs are numbered by destination. */
static void want(struct core *core, uint32_t node)
{
	uint32_t count = 0;
	for (uint32_t at = core->nodes[node].waiting; at != NONE; at = core->pairs[at].waiting_after) {
		struct pair *pair = &core->pairs[at];
		if (pair->wanted && !pair->regulated)
			want_no_more(core, pair);
		if (pair->wanted || !pair->regulated)
			continue;
		GROW(core->fresh, core->fresh_room, count + 1);
		core->fresh[count++] = (uint64_t)pair->destination << 32 | at;
	}
	if (count > 1)
		qsort(core->fresh, count, sizeof(*core->fresh), by_destination);
	for (uint32_t one = 0; one < count; one++) {
		uint32_t at = (uint32_t)core->fresh[one];
		struct pair *pair = &core->pairs[at];
		pair->wanted = true;
		if (!pair->number) {
			pair->number = ++core->numbers;
			if (core->network) {
				GROW(core->unplaced, core->unplaced_room, core->unplaced_count + 1);
				core->unplaced[core->unplaced_count++] = at;
			}
		}
		if (pair->placed && pair->gone >= 0 && core->now - pair->gone > FORGOTTEN_TURNS * pair->turn)
			begin_turn(pair);
		loosen(core, at);
	}
}

static void wait_no_more(struct core *core, uint32_t at)
{
	struct pair *pair = &core->pairs[at];
	pair->waiting = false;
	LIST_REMOVE(core->nodes[pair->node].waiting, core->pairs, at, waiting_before, waiting_after);
}

/* Takes a backlog that changed: pairs wait now that did not, and those of `gone` no more, if any were `removed`. */
static void change_backlog(struct core *core, uint32_t node, bool removed)
{
	struct node *its = &core->nodes[node];
	if (!its->heard) {
		its->heard = true;
		its->before = core->last_heard;
		its->after = NONE;
		if (core->last_heard != NONE)
			core->nodes[core->last_heard].after = node;
		else
			core->first_heard = node;
		core->last_heard = node;
	}
	if (removed) {
		struct resource *resource = &core->resources[its->resource];
		sweep(core, resource);
		for (uint32_t at = 0; at < resource->count; at++) {
			uint32_t booking = resource->spans[at].booking;
			if (core->bookings[booking].start > core->now && !core->pairs[core->bookings[booking].pair].waiting)
				revoke(core, booking);
		}
		for (uint32_t one = 0; one < core->gone_count; one++) {
			struct pair *pair = &core->pairs[core->gone[one]];
			if (pair->wanted)
				want_no_more(core, pair);
		}
		for (uint32_t one = 0; one < core->gone_count; one++)
			if (!core->pairs[core->gone[one]].number)
				forget_pair(core, core->gone[one]);
	}
	want(core, node);
}

static void note_gone(struct core *core, uint32_t at)
{
	wait_no_more(core, at);
	GROW(core->gone, core->gone_room, core->gone_count + 1);
	core->gone[core->gone_count++] = at;
}

static void begin_to_wait(struct core *core, uint32_t at)
{
	struct pair *pair = &core->pairs[at];
	pair->waiting = true;
	LIST_ADD(core->nodes[pair->node].waiting, core->pairs, at, waiting_before, waiting_after);
}
