/* This file lets slots begin earlier where others ended before their time. A part of schedule.c. */
#pragma once
#include "slots.h"

static void collect_ahead(struct core *core, uint32_t number)
{
	struct resource *resource = &core->resources[number];
	sweep(core, resource);
	for (uint32_t at = 0; at < resource->count; at++) {
		struct booking *booking = &core->bookings[resource->spans[at].booking];
		if (booking->start > core->now && booking->seen != core->forwarding) {
			booking->seen = core->forwarding;
			dues_push(&core->ahead, (struct due){booking->start, booking->number, resource->spans[at].booking});
		}
	}
}

/* Lets slots that have not begun begin earlier where there is room before its time, the earliest slot first; FORWARD_AT_ONCE are
 * tried at most. */
static void bring_forward(struct core *core)
{
	core->forwarding++;
	for (uint32_t one = 0; one < core->freed_count; one++)
		if (core->resources[core->freed[one]].early)
			collect_ahead(core, core->freed[one]);
	for (uint32_t tries = FORWARD_AT_ONCE; core->ahead.count && tries; tries--) {
		struct due due = dues_pop(&core->ahead);
		struct booking *booking = &core->bookings[due.booking];
		const struct pair *pair = &core->pairs[booking->pair];
		int64_t length = booking->end - booking->start, start = core->now + core->nodes[pair->node].delay;
		unbook(core, due.booking);
		start = earliest(core, pair, start, length, booking->amount, due.at);
		booking->start = start;
		booking->end = start + length;
		book(core, due.booking);
		if (start == due.at)
			continue;
		GROW(core->granted, core->granted_room, core->granted_count + 1);
		core->granted[core->granted_count++] = due.booking;
		dues_push(booking->released ? &core->running : &core->ends, (struct due){booking->end, booking->number, due.booking});
		for (uint32_t take = 0; take < pair->links; take++)
			collect_ahead(core, core->links[(size_t)booking->pair * core->links_most + take]);
		collect_ahead(core, core->nodes[pair->node].resource);
	}
	core->ahead.count = 0;
}
