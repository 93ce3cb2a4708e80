/* This file takes a network and its changes: it numbers the links, gives pairs their places, and keeps the slots that still
 * have room. A part of schedule.c. */
#pragma once
#include "../found.h"
#include "slots.h"

/* No booking holds anything, and no pair waits in a line, until `core_settle`; all pairs that were ever wanted are without
 * place. */
static void displace(struct core *core)
{
	core->line_count = core->attempts.count = 0;
	core->free_lines = NONE;
	forget_freed(core);
	end_round(core);
	for (uint32_t at = core->first_slot; at != NONE; at = core->bookings[at].after)
		core->bookings[at].stamp += core->bookings[at].stamp & 1;
	core->unplaced_count = 0;
	for (uint32_t node = 0; node < core->node_count; node++)
		for (uint32_t at = core->nodes[node].from; at != NONE; at = core->pairs[at].from_after) {
			struct pair *pair = &core->pairs[at];
			pair->entered = pair->placed = false;
			if (!pair->number)
				continue;
			GROW(core->unplaced, core->unplaced_room, core->unplaced_count + 1);
			core->unplaced[core->unplaced_count++] = at;
		}
}

/* A new network begins: all pairs are without place, and all resources are new. Links and places follow, then `core_settle`; until
 * then plans grant nothing, so that who holds the lock may let others have it in between. */
void core_rewire(struct core *core, int64_t now)
{
	advance(core, now);
	core->network = core->rewiring = true;
	core->resource_count = 0;
	new_resource(core, INT64_MAX); /* NEW */
	for (uint32_t node = 0; node < core->node_count; node++) {
		core->nodes[node].resource = new_resource(core, 1);
		for (uint32_t at = core->nodes[node].from; at != NONE; at = core->pairs[at].from_after)
			core->pairs[at].links = core->pairs[at].rate = 0;
	}
	displace(core);
}

/* A directed link of the network; returns its number. */
uint32_t core_link(struct core *core, int64_t capacity)
{
	return new_resource(core, capacity);
}

/* How many pairs have no place. */
uint32_t core_unplaced(const struct core *core)
{
	return core->unplaced_count;
}

/* Takes the last of the pairs without place away; NONE: there is none. */
uint32_t core_take_unplaced(struct core *core, uint32_t *node, uint32_t *destination)
{
	if (!core->unplaced_count)
		return NONE;
	uint32_t at = core->unplaced[--core->unplaced_count];
	*node = core->nodes[core->pairs[at].node].id;
	*destination = core->pairs[at].destination;
	return at;
}

/* Finds what follows of a pair's place: the rate of its node and the links of its path. */
static void find_need(struct core *core, uint32_t at)
{
	struct pair *pair = &core->pairs[at];
	const uint32_t *links = core->links + (size_t)at * core->links_most;
	pair->full = pair->rate;
	for (uint32_t one = 0; one < pair->links; one++)
		pair->full = least(pair->full, core->resources[links[one]].capacity);
	pair->placed = pair->full > 0;
	pair->need = most(1, (int64_t)((wide)most(0, pair->full) * core->minimum_ppm / PPM));
	pair->burst = pair->links ? least(pair->rate, core->resources[links[0]].capacity) : pair->rate;
	pair->amount_length = 0;
	measure(core, pair);
}

/* Gives a pair its place: the rate of its node and the links of its path. */
void core_place(struct core *core, uint32_t at, int64_t rate, uint32_t count, const uint32_t *links)
{
	provide_links(core, count);
	struct pair *pair = &core->pairs[at];
	pair->links = count;
	pair->rate = rate;
	for (uint32_t one = 0; one < count; one++)
		core->links[(size_t)at * core->links_most + one] = links[one];
	find_need(core, at);
	loosen(core, at);
}

/* Lists the pairs that were ever wanted, `room` at most; returns how many there are. */
uint32_t core_pairs(const struct core *core, uint32_t room, uint32_t *nodes, uint32_t *destinations)
{
	uint32_t count = 0;
	for (uint32_t node = 0; node < core->node_count; node++)
		for (uint32_t at = core->nodes[node].from; at != NONE; at = core->pairs[at].from_after) {
			if (!core->pairs[at].number)
				continue;
			if (count < room) {
				nodes[count] = core->nodes[node].id;
				destinations[count] = core->pairs[at].destination;
			}
			count++;
		}
	return count;
}

/* Takes the links that were found, and gives the pairs without place those that were found; the others go on waiting. Returns the
 * number of the first link. Pairs may be put some at a time. */
uint32_t core_put(struct core *core, struct found *found)
{
	uint32_t first = found->first;
	for (uint32_t one = 0; one < found->link_count; one++) {
		uint32_t link = core_link(core, found->capacities[one]);
		first = one ? first : link;
	}
	number_links(found, first);
	for (uint32_t row = 0; row < found->count; row++) {
		uint32_t soon = row + ROWS_AHEAD < found->count ? row + ROWS_AHEAD : row;
		map_prefetch(&core->pair_of, key_of(found->nodes[soon], found->destinations[soon]));
		uint32_t at = map_get(&core->pair_of, key_of(found->nodes[row], found->destinations[row]));
		if (at != NONE && core->pairs[at].number && !core->pairs[at].rate)
			core_place(core, at, found->rates[row], found->offsets[row + 1] - found->offsets[row],
				   found->links + found->offsets[row]);
	}
	return first;
}

static int by_start(const void *a, const void *b)
{
	const struct due *one = a, *other = b;
	return DUE_BEFORE(*other, *one) - DUE_BEFORE(*one, *other);
}

/* Books bookings again that hold nothing now, the earliest first, where there is room, and revokes the others. */
static void book_again(struct core *core, struct dues *held)
{
	if (held->count)
		qsort(held->items, held->count, sizeof(*held->items), by_start);
	for (uint32_t one = 0; one < held->count; one++) {
		uint32_t at = held->items[one].booking;
		const struct booking *booking = &core->bookings[at];
		const struct pair *pair = &core->pairs[booking->pair];
		int64_t start = most(core->now, booking->start); /* what was booked before may be over */
		if (pair->placed && fits(core, pair, start, booking->end, booking->amount))
			book(core, at);
		else
			revoke(core, at);
	}
	held->count = 0;
}

/* All pairs have their places: slots stay where there is room, and those that start last are revoked. */
void core_settle(struct core *core)
{
	uint32_t kept = 0;
	core->rewiring = false;
	for (uint32_t one = 0; one < core->unplaced_count; one++)
		if (!core->pairs[core->unplaced[one]].rate)
			core->unplaced[kept++] = core->unplaced[one];
	core->unplaced_count = kept;
	for (uint32_t at = core->first_slot; at != NONE; at = core->bookings[at].after)
		dues_push(&core->ahead, (struct due){core->bookings[at].start, core->bookings[at].number, at});
	book_again(core, &core->ahead);
}

/* Notes the bookings of a link, each once among those of one `forwarding`. */
static void hold_bookings(struct core *core, struct resource *link)
{
	sweep(core, link);
	for (uint32_t one = 0; one < link->count; one++) {
		struct booking *booking = &core->bookings[link->spans[one].booking];
		if (booking->seen != core->forwarding)
			dues_push(&core->ahead, (struct due){booking->start, booking->number, link->spans[one].booking});
		booking->seen = core->forwarding;
	}
}

static bool crosses_recharged(const struct core *core, uint32_t at)
{
	const uint32_t *links = core->links + (size_t)at * core->links_most;
	for (uint32_t one = 0; one < core->pairs[at].links; one++)
		if (core->resources[links[one]].recharged)
			return true;
	return false;
}

/* Some links carry more or less, where rates and paths are as before. Whoever waits goes on waiting where it does, unless it
 * needs more or less now. */
void core_recharge(struct core *core, int64_t now, uint32_t count, const uint32_t *links, const int64_t *capacities)
{
	struct dues *held = &core->ahead;
	advance(core, now);
	core->forwarding++;
	for (uint32_t one = 0; one < count; one++) {
		struct resource *link = &core->resources[links[one]];
		link->recharged = true;
		if (capacities[one] < link->capacity)
			hold_bookings(core, link);
		link->capacity = capacities[one];
	}
	for (uint32_t at = 0; at < core->pair_count; at++) {
		struct pair *pair = &core->pairs[at];
		if (!pair->number || pair->rate <= 0 || !crosses_recharged(core, at))
			continue;
		int64_t need = pair->need;
		bool placed = pair->placed;
		find_need(core, at);
		if (pair->need == need && pair->placed == placed)
			continue;
		pair->entered = false;
		loosen(core, at);
	}
	for (uint32_t one = 0; one < held->count; one++)
		unbook(core, held->items[one].booking);
	book_again(core, held);
	for (uint32_t one = 0; one < count; one++) {
		core->resources[links[one]].recharged = false;
		note_freed(core, links[one], true);
	}
}
