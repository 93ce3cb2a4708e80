/* This file writes the slots that a plan granted. A part of schedule.c. */
#pragma once
#include "slots.h"

static bool granted_before(const struct slot *a, const struct slot *b)
{
	return a->start != b->start ? a->start < b->start : a->slot < b->slot;
}

/* Writes the slots that were granted in the order of their starts and numbers, which they mostly have already: by merging
 * runs. */
static void write_grants(struct core *core)
{
	uint32_t count = core->granted_count;
	GROW(core->grants, core->grant_room, count);
	GROW(core->sorted, core->sorted_room, count);
	for (uint32_t at = 0; at < count; at++)
		core->grants[at] = slot_of(core, core->granted[at]);
	for (bool merged = true; merged;) {
		merged = false;
		uint32_t from = 0, to = 0;
		while (from < count) {
			uint32_t middle = from + 1;
			while (middle < count && !granted_before(&core->grants[middle], &core->grants[middle - 1]))
				middle++;
			uint32_t end = middle < count ? middle + 1 : middle;
			while (end < count && !granted_before(&core->grants[end], &core->grants[end - 1]))
				end++;
			if (!from && middle == count)
				return;
			for (uint32_t one = from, other = middle; one < middle || other < end;) {
				bool first = other == end || (one < middle && granted_before(&core->grants[one], &core->grants[other]));
				core->sorted[to++] = core->grants[first ? one++ : other++];
			}
			merged = true;
			from = end;
		}
		struct slot *grants = core->grants;
		uint32_t room = core->grant_room;
		core->grants = core->sorted;
		core->grant_room = core->sorted_room;
		core->sorted = grants;
		core->sorted_room = room;
	}
}
