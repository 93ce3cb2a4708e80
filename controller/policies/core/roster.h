/* Nodes, the pairs of them that matter, who waits and what is regulated, and the links of their paths.
 *
 * A core begins with its `struct roster`; what it knows of a pair beside that it keeps in arrays by pair. Nodes are in the order
 * in which they were heard of first (`first_heard`), until they leave.
 */
#pragma once
#include "arrays.h"
#include "found.h"
#include <stdbool.h>

struct member {
	uint32_t id, from, to, before, after, regulated_count; /* from, to: the pairs that are listed (`list_couple`), the latest first */
	uint32_t *regulated;	 /* sorted; a part of `roster.regulated` */
	uint32_t first, skipped; /* the first of these, and the only one missing behind it; NONE: none is; skipped = first: more are */
	int64_t rate, delay; /* -1: not known */
	uint64_t heard;      /* a number that grows with the order; 0: not heard of */
} __attribute__((aligned(LINE)));

struct couple {
	uint32_t node, destination, links; /* node: the index of a member, destination: an id */
	uint32_t from_before, from_after, to_before, to_after; /* while it is listed: its neighbours; `from_after` of a free one: the next */
	bool known, waiting, regulated, placed, unplaced;
	uint64_t mark;
} __attribute__((aligned(LINE)));

enum altered { NOT_TOLD, AS_BEFORE, ALTERED }; /* what was told last of a member's regulated pairs */

struct list { /* the regulated pairs that a member had before */
	uint32_t member, count;
	const uint32_t *destinations;
};

struct roster {
	struct member *members;
	struct couple *couples;
	int64_t *capacities;
	uint32_t *links, links_most, links_room; /* links_most of every pair */
	uint32_t member_count, member_room, couple_count, couple_room, link_count, capacity_room, free_couples;
	struct map member_of, couple_of;
	uint32_t *near, near_room; /* by ids below NEAR: a member and one; `member_of` has the others */
	uint32_t *regulated, first_heard, last_heard, *unplaced, unplaced_count, unplaced_room;
	enum altered *altered; /* by member */
	struct list *lists;
	uint32_t *changed; /* the pairs that were regulated last, or are no more */
	uint32_t altered_room, list_count, list_room, changed_count, changed_room;
	uint64_t marks, heard;
	int64_t now;
	bool network;
};

static inline uint64_t couple_key(uint32_t node, uint32_t destination)
{
	return (uint64_t)node << 32 | destination;
}

static void roster_begin(struct roster *roster)
{
	roster->free_couples = roster->first_heard = roster->last_heard = NONE;
	roster->links_most = 1;
	map_begin(&roster->couple_of);
	PROVIDE(roster->couples, roster->couple_room, MANY);
	PROVIDE(roster->members, roster->member_room, MANY);
	PROVIDE(roster->near, roster->near_room, MANY);
}

static void roster_end(struct roster *roster)
{
	map_free(&roster->member_of);
	map_free(&roster->couple_of);
	void *arrays[] = {roster->members, roster->couples, roster->capacities, roster->links, roster->unplaced, roster->near,
			  roster->altered, roster->lists, roster->changed};
	for (size_t at = 0; at < sizeof(arrays) / sizeof(*arrays); at++)
		array_free(arrays[at]);
	free(roster->regulated);
}

enum { NEAR = 1 << 17 };

/* The index of a member; NONE: it is not known. */
static inline uint32_t member_find(const struct roster *roster, uint32_t id)
{
	if (id < NEAR)
		return id < roster->near_room ? roster->near[id] - 1u : NONE;
	return map_get(&roster->member_of, id);
}

SELDOM uint32_t new_member(struct roster *roster, uint32_t id)
{
	GROW(roster->members, roster->member_room, roster->member_count + 1);
	uint32_t at = roster->member_count++;
	roster->members[at] = (struct member){
		.id = id, .from = NONE, .to = NONE, .before = NONE, .after = NONE, .skipped = NONE, .rate = -1, .delay = -1,
	};
	if (id < NEAR) {
		GROW(roster->near, roster->near_room, id + 1);
		roster->near[id] = at + 1;
	} else {
		map_set(&roster->member_of, id, at);
	}
	return at;
}

static inline uint32_t member_at(struct roster *roster, uint32_t id)
{
	uint32_t at = member_find(roster, id);
	return LIKELY(at != NONE) ? at : new_member(roster, id);
}

static inline void hear_of(struct roster *roster, uint32_t at)
{
	struct member *member = &roster->members[at];
	if (member->heard)
		return;
	member->heard = ++roster->heard;
	member->before = roster->last_heard;
	member->after = NONE;
	*(roster->last_heard != NONE ? &roster->members[roster->last_heard].after : &roster->first_heard) = at;
	roster->last_heard = at;
}

static inline void unhear(struct roster *roster, uint32_t at)
{
	struct member *member = &roster->members[at];
	if (!member->heard)
		return;
	member->heard = 0;
	*(member->before != NONE ? &roster->members[member->before].after : &roster->first_heard) = member->after;
	*(member->after != NONE ? &roster->members[member->after].before : &roster->last_heard) = member->before;
}

/* Takes the regulated pairs of a node, and sees whether these are all, as they are where a node is paired with all but itself. */
static void member_regulate(struct member *member, uint32_t count, uint32_t *destinations)
{
	member->regulated = destinations;
	member->regulated_count = count;
	member->first = count ? destinations[0] : 0;
	member->skipped = NONE;
	uint32_t at = 0;
	while (at < count && destinations[at] == member->first + at)
		at++;
	if (at < count)
		member->skipped = destinations[count - 1] == member->first + count ? member->first + at : member->first;
}

/* Whether a pair is regulated. */
static inline bool regulates(const struct member *member, uint32_t destination)
{
	uint32_t low = 0, high = member->regulated_count;
	if (member->skipped != member->first)
		return destination - member->first < high + (member->skipped != NONE) && destination != member->skipped;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (member->regulated[middle] < destination)
			low = middle + 1;
		else
			high = middle;
	}
	return low < member->regulated_count && member->regulated[low] == destination;
}

static uint32_t couple_find(const struct roster *roster, uint32_t node, uint32_t destination)
{
	return map_get(&roster->couple_of, couple_key(node, destination));
}

/* Lists a pair among those of its node, and among those to its destination, which is member `to`. */
static inline void list_couple(struct roster *roster, uint32_t at, uint32_t to)
{
	struct couple *couples = roster->couples, *pair = &couples[at];
	struct member *member = &roster->members[pair->node], *other = &roster->members[to];
	uint32_t nowhere;
	pair->from_before = pair->to_before = NONE;
	pair->from_after = member->from;
	pair->to_after = other->to;
	*(member->from != NONE ? &couples[member->from].from_before : &nowhere) = at;
	*(other->to != NONE ? &couples[other->to].to_before : &nowhere) = at;
	member->from = other->to = at;
}

static inline void unlist_couple(struct roster *roster, uint32_t at, uint32_t to)
{
	struct couple *couples = roster->couples, *pair = &couples[at];
	uint32_t nowhere;
	*(pair->from_before != NONE ? &couples[pair->from_before].from_after : &roster->members[pair->node].from) = pair->from_after;
	*(pair->to_before != NONE ? &couples[pair->to_before].to_after : &roster->members[to].to) = pair->to_after;
	*(pair->from_after != NONE ? &couples[pair->from_after].from_before : &nowhere) = pair->from_before;
	*(pair->to_after != NONE ? &couples[pair->to_after].to_before : &nowhere) = pair->to_before;
}

/* A pair that is not known yet, nor listed. `to`: the member that is its destination. */
static inline uint32_t new_couple(struct roster *roster, uint32_t node, uint32_t to)
{
	uint32_t at = roster->free_couples, destination = roster->members[to].id;
	if (at != NONE) {
		roster->free_couples = roster->couples[at].from_after;
		if (roster->free_couples != NONE)
			__builtin_prefetch(&roster->couples[roster->free_couples], 1); /* for the next one */
	} else {
		at = roster->couple_count++;
		GROW(roster->couples, roster->couple_room, roster->couple_count);
		GROW(roster->links, roster->links_room, roster->couple_room * roster->links_most);
	}
	const struct member *member = &roster->members[node];
	roster->couples[at] = (struct couple){
		.node = node, .destination = destination, .known = true, .regulated = regulates(member, destination),
	};
	map_set(&roster->couple_of, couple_key(member->id, destination), at);
	return at;
}

/* A pair, which is listed as long as it is known. */
static inline uint32_t couple_at(struct roster *roster, uint32_t node, uint32_t destination)
{
	uint32_t at = couple_find(roster, roster->members[node].id, destination);
	if (at == NONE) {
		uint32_t to = member_at(roster, destination);
		at = new_couple(roster, node, to);
		list_couple(roster, at, to);
	}
	return at;
}

/* A pair that is not listed is not known any more. */
static inline void free_couple(struct roster *roster, uint32_t at)
{
	struct couple *pair = &roster->couples[at];
	map_remove(&roster->couple_of, couple_key(roster->members[pair->node].id, pair->destination));
	pair->known = pair->waiting = pair->placed = pair->unplaced = false;
	pair->from_after = roster->free_couples;
	roster->free_couples = at;
}

static inline void forget_couple(struct roster *roster, uint32_t at)
{
	unlist_couple(roster, at, member_find(roster, roster->couples[at].destination));
	free_couple(roster, at);
}

/* -- what is regulated ---------------------------------------------------------------------------------------------------- */

/* Takes other regulated pairs of a member. */
static void alter(struct roster *roster, uint32_t at, uint32_t count, uint32_t *destinations)
{
	struct member *member = &roster->members[at];
	GROW(roster->lists, roster->list_room, roster->list_count + 1);
	roster->lists[roster->list_count++] = (struct list){at, member->regulated_count, member->regulated};
	roster->altered[at] = ALTERED;
	member_regulate(member, count, destinations);
}

/* Sees whether a pair is regulated now. */
static inline void see_regulated(struct roster *roster, uint32_t at)
{
	struct couple *pair = &roster->couples[at];
	if (pair->regulated == regulates(&roster->members[pair->node], pair->destination))
		return;
	pair->regulated = !pair->regulated;
	GROW(roster->changed, roster->changed_room, roster->changed_count + 1);
	roster->changed[roster->changed_count++] = at;
}

static void see_listed(struct roster *roster, uint32_t member, uint32_t count, const uint32_t *destinations)
{
	for (uint32_t one = 0; one < count; one++) {
		uint32_t at = couple_find(roster, roster->members[member].id, destinations[one]);
		if (at != NONE)
			see_regulated(roster, at);
	}
}

/* Takes the regulated pairs in full: those of nodes[i] are destinations[offsets[i]] and on, sorted. Looks at the pairs of those
 * members alone that have others now, and notes which pairs these are (`changed`). */
static void roster_regulate(struct roster *roster, uint32_t count, const uint32_t *nodes, const uint32_t *offsets,
			    const uint32_t *destinations)
{
	uint32_t all = count ? offsets[count] : 0, *before = roster->regulated;
	uint64_t looks = 0;
	roster->regulated = malloc((size_t)all * sizeof(*destinations) + 1);
	if (!roster->regulated)
		abort();
	if (all)
		memcpy(roster->regulated, destinations, all * sizeof(*destinations));
	for (uint32_t one = 0; one < count; one++)
		member_at(roster, nodes[one]); /* which may move all members */
	GROW(roster->altered, roster->altered_room, roster->member_count);
	for (uint32_t at = 0; at < roster->member_count; at++)
		roster->altered[at] = NOT_TOLD;
	roster->list_count = roster->changed_count = 0;
	for (uint32_t one = 0; one < count; one++) {
		uint32_t at = member_at(roster, nodes[one]), its = offsets[one + 1] - offsets[one];
		uint32_t *list = roster->regulated + offsets[one];
		struct member *member = &roster->members[at];
		if (its == member->regulated_count && (!its || !memcmp(list, member->regulated, its * sizeof(*list)))) {
			member->regulated = list;
			roster->altered[at] = AS_BEFORE;
			continue;
		}
		looks += its + member->regulated_count;
		alter(roster, at, its, list);
	}
	for (uint32_t at = 0; at < roster->member_count; at++) {
		if (roster->altered[at] != NOT_TOLD || !roster->members[at].regulated_count)
			continue;
		looks += roster->members[at].regulated_count;
		alter(roster, at, 0, NULL);
	}
	for (uint32_t one = 0; one < roster->list_count && looks <= roster->couple_count; one++) {
		const struct list *list = &roster->lists[one];
		const struct member *member = &roster->members[list->member];
		see_listed(roster, list->member, list->count, list->destinations);
		see_listed(roster, list->member, member->regulated_count, member->regulated);
	}
	for (uint32_t at = 0; at < roster->couple_count && looks > roster->couple_count; at++)
		if (roster->couples[at].known && roster->altered[roster->couples[at].node] == ALTERED)
			see_regulated(roster, at);
	free(before);
}

/* -- places in the network ------------------------------------------------------------------------------------------------ */

/* Notes that a pair needs a place, unless it has one. */
static inline void want_place(struct roster *roster, uint32_t at)
{
	struct couple *pair = &roster->couples[at];
	if (pair->placed || pair->unplaced || !roster->network)
		return;
	pair->unplaced = true;
	GROW(roster->unplaced, roster->unplaced_room, roster->unplaced_count + 1);
	roster->unplaced[roster->unplaced_count++] = at;
}

static uint32_t roster_take_unplaced(struct roster *roster, uint32_t *node, uint32_t *destination)
{
	while (roster->unplaced_count) {
		uint32_t at = roster->unplaced[--roster->unplaced_count];
		struct couple *pair = &roster->couples[at];
		if (!pair->unplaced)
			continue;
		pair->unplaced = false;
		*node = roster->members[pair->node].id;
		*destination = pair->destination;
		return at;
	}
	return NONE;
}

/* A new network begins: no pair has a place, and every one needs one. */
static void roster_rewire(struct roster *roster)
{
	roster->network = true;
	roster->unplaced_count = 0;
	for (uint32_t at = 0; at < roster->member_count; at++)
		roster->members[at].rate = -1;
	for (uint32_t at = 0; at < roster->couple_count; at++) {
		struct couple *pair = &roster->couples[at];
		pair->placed = pair->unplaced = false;
		pair->links = 0;
		if (pair->known)
			want_place(roster, at);
	}
}

static uint32_t roster_link(struct roster *roster, int64_t capacity)
{
	GROW(roster->capacities, roster->capacity_room, roster->link_count + 1);
	roster->capacities[roster->link_count] = capacity;
	return roster->link_count++;
}

static inline const uint32_t *links_of(const struct roster *roster, uint32_t at)
{
	return &roster->links[(size_t)at * roster->links_most];
}

static void roster_place(struct roster *roster, uint32_t at, int64_t rate, uint32_t count, const uint32_t *links)
{
	if (count > roster->links_most) {
		uint32_t *wider = NULL, room = 0;
		GROW(wider, room, roster->couple_room * count);
		for (uint32_t pair = 0; pair < roster->couple_count; pair++)
			memcpy(&wider[(size_t)pair * count], links_of(roster, pair), roster->links_most * sizeof(*wider));
		array_free(roster->links);
		roster->links = wider;
		roster->links_room = room;
		roster->links_most = count;
	}
	struct couple *pair = &roster->couples[at];
	pair->placed = true;
	pair->links = count;
	roster->members[pair->node].rate = rate;
	if (count)
		memcpy(&roster->links[(size_t)at * roster->links_most], links, count * sizeof(*links));
}

/* Lists the pairs that are known, `room` at most; returns how many there are. */
static uint32_t roster_pairs(const struct roster *roster, uint32_t room, uint32_t *nodes, uint32_t *destinations)
{
	uint32_t count = 0;
	for (uint32_t at = 0; at < roster->couple_count; at++) {
		const struct couple *pair = &roster->couples[at];
		if (!pair->known)
			continue;
		if (count < room) {
			nodes[count] = roster->members[pair->node].id;
			destinations[count] = pair->destination;
		}
		count++;
	}
	return count;
}

/* Takes the links that were found, and gives the pairs without place those that were found; the others go on waiting. Returns the
 * number of the first link. Pairs may be put some at a time. */
#define EXPORT_PUT(NAME)                                                                                                \
	uint32_t NAME##_put(struct NAME *core, struct found *found)                                                     \
	{                                                                                                               \
		struct roster *roster = &core->roster;                                                                  \
		uint32_t first = found->first;                                                                          \
		for (uint32_t one = 0; one < found->link_count; one++) {                                                \
			uint32_t link = NAME##_link(core, found->capacities[one]);                                      \
			first = one ? first : link;                                                                     \
		}                                                                                                       \
		number_links(found, first);                                                                             \
		for (uint32_t row = 0; row < found->count; row++) {                                                     \
			uint32_t soon = row + ROWS_AHEAD < found->count ? row + ROWS_AHEAD : row;                       \
			map_prefetch(&roster->couple_of, couple_key(found->nodes[soon], found->destinations[soon]));    \
			uint32_t at = couple_find(roster, found->nodes[row], found->destinations[row]);                 \
			if (at == NONE || !roster->couples[at].unplaced)                                                \
				continue;                                                                               \
			roster->couples[at].unplaced = false;                                                           \
			NAME##_place(core, at, found->rates[row], found->offsets[row + 1] - found->offsets[row],        \
				     found->links + found->offsets[row]);                                               \
		}                                                                                                       \
		return first;                                                                                           \
	}

/* The functions that `Places` (places.py) calls, by the core's name; what follows of a place is PLACED. */
#define EXPORT_PLACES(NAME, PLACED)                                                                                     \
	uint32_t NAME##_link(struct NAME *core, int64_t capacity)                                                       \
	{                                                                                                               \
		return roster_link(&core->roster, capacity);                                                            \
	}                                                                                                               \
	uint32_t NAME##_take_unplaced(struct NAME *core, uint32_t *node, uint32_t *destination)                         \
	{                                                                                                               \
		return roster_take_unplaced(&core->roster, node, destination);                                          \
	}                                                                                                               \
	uint32_t NAME##_unplaced(const struct NAME *core)                                                               \
	{                                                                                                               \
		return core->roster.unplaced_count;                                                                     \
	}                                                                                                               \
	void NAME##_place(struct NAME *core, uint32_t pair, int64_t rate, uint32_t count, const uint32_t *links)        \
	{                                                                                                               \
		roster_place(&core->roster, pair, rate, count, links);                                                  \
		PLACED;                                                                                                 \
	}                                                                                                               \
	uint32_t NAME##_pairs(const struct NAME *core, uint32_t room, uint32_t *nodes, uint32_t *destinations)          \
	{                                                                                                               \
		return roster_pairs(&core->roster, room, nodes, destinations);                                          \
	}                                                                                                               \
	EXPORT_PUT(NAME)
