/* The timeslice policy, compiled: what controller/policies/timeslice.py does, which is the reference and says why.
 *
 * Both give the same plans for the same events. Nodes, pairs, resources and bookings are elements of arrays that only grow;
 * lists go through their indexes. Once the arrays are as large as a fabric needs, nothing is allocated. Times are ns.
 */
#include "found.h"
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
	core->nodes[at].resource = new_resource(core, 1, true);
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
	core->links_room = core->positions_room = 0;
	uint32_t *links = NULL, *positions = NULL;
	GROW(links, core->links_room, core->pair_room * wanted + 1);
	GROW(positions, core->positions_room, core->booking_room * (wanted + 1) + 1);
	memset(positions, 0xff, core->positions_room * sizeof(*positions));
	for (uint32_t pair = 0; pair < core->pair_count; pair++)
		for (uint32_t at = 0; at < before; at++)
			links[pair * wanted + at] = core->links[pair * before + at];
	for (uint32_t booking = 0; booking < core->booking_count; booking++)
		for (uint32_t at = 0; at <= before; at++)
			positions[booking * (wanted + 1) + at] = core->positions[booking * (before + 1) + at];
	free(core->links);
	free(core->positions);
	core->links = links;
	core->positions = positions;
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
	core->pairs[at] = (struct pair){
		.node = node, .destination = destination, .stamp = stamp + 1, .booking = NONE, .gone = -1,
		.regulated = regulates(&core->nodes[node], destination),
	};
	LIST_ADD(core->nodes[node].from, core->pairs, at, from_before, from_after);
	LIST_ADD(core->nodes[to].to, core->pairs, at, to_before, to_after);
	map_set(&core->pair_of, key, at);
	return at;
}

static void unloose(struct core *core, struct pair *pair)
{
	if (!pair->loose)
		return;
	pair->loose = false;
	uint32_t last = core->loose[--core->loose_count];
	core->loose[pair->loose_at] = last;
	core->pairs[last].loose_at = pair->loose_at;
}

static void forget_pair(struct core *core, uint32_t at)
{
	struct pair *pair = &core->pairs[at];
	struct node *node = &core->nodes[pair->node];
	unloose(core, pair);
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

/* -- slots ---------------------------------------------------------------------------------------------------------------- */

static void note_freed(struct core *core, uint32_t resource)
{
	if (core->resources[resource].freed)
		return;
	core->resources[resource].freed = true;
	GROW(core->freed, core->freed_room, core->freed_count + 1);
	core->freed[core->freed_count++] = resource;
}

static void loosen(struct core *core, uint32_t at)
{
	struct pair *pair = &core->pairs[at];
	if (!pair->wanted || !pair->placed || pair->booking != NONE || pair->entered || pair->loose)
		return;
	pair->loose = true;
	pair->loose_at = core->loose_count;
	GROW(core->loose, core->loose_room, core->loose_count + 1);
	core->loose[core->loose_count++] = at;
}

static void free_resources(struct core *core, const struct booking *booking)
{
	struct pair *pair = &core->pairs[booking->pair];
	struct node *node = &core->nodes[pair->node];
	for (uint32_t take = 0; take < pair->links; take++)
		note_freed(core, core->links[(size_t)booking->pair * core->links_most + take]);
	note_freed(core, node->resource);
	if (pair->last != pair->granted) {
		pair->before_last = pair->last;
		pair->before_host = node->last;
		pair->last = node->last = pair->granted;
	}
	loosen(core, booking->pair);
}

static struct slot slot_of(const struct core *core, uint32_t at)
{
	const struct booking *booking = &core->bookings[at];
	const struct pair *pair = &core->pairs[booking->pair];
	return (struct slot){
		(int64_t)booking->number, core->nodes[pair->node].id, pair->destination, booking->start, booking->end,
		booking->bytes, booking->rate, booking->amount,
	};
}

static uint32_t new_booking(struct core *core)
{
	uint32_t at = core->free_bookings;
	if (at != NONE) {
		core->free_bookings = core->bookings[at].after;
		return at;
	}
	at = core->booking_count++;
	GROW(core->bookings, core->booking_room, core->booking_count);
	GROW(core->positions, core->positions_room, core->booking_room * (core->links_most + 1));
	return at;
}

static void forget_booking(struct core *core, uint32_t at)
{
	struct booking *booking = &core->bookings[at];
	if (booking->before != NONE)
		core->bookings[booking->before].after = booking->after;
	else
		core->first_slot = booking->after;
	if (booking->after != NONE)
		core->bookings[booking->after].before = booking->before;
	else
		core->last_slot = booking->before;
	booking->number = 0;
	booking->after = core->free_bookings;
	core->free_bookings = at;
}

static void drop(struct core *core, uint32_t at)
{
	struct booking *booking = &core->bookings[at];
	struct pair *pair = &core->pairs[booking->pair];
	unbook(core, at);
	if (pair->booking == at)
		pair->booking = NONE;
	free_resources(core, booking);
	forget_booking(core, at);
}

static void revoke(struct core *core, uint32_t at)
{
	GROW(core->revokes, core->revoke_room, core->revoke_count + 1);
	core->revokes[core->revoke_count++] = slot_of(core, at);
	drop(core, at);
}

int64_t core_next_event(struct core *core)
{
	struct dues *ends = &core->ends;
	while (ends->count) {
		const struct due *first = &ends->items[0];
		const struct booking *booking = &core->bookings[first->booking];
		if (booking->number == first->number && !booking->released && booking->end == first->at)
			return first->at;
		dues_pop(ends);
	}
	return -1;
}

static void foresee(struct core *core, int64_t instant)
{
	for (int64_t end; (end = core_next_event(core)) >= 0 && end <= instant;) {
		struct due due = dues_pop(&core->ends);
		struct booking *booking = &core->bookings[due.booking];
		release(core, due.booking);
		core->pairs[booking->pair].booking = NONE;
		dues_push(&core->running, due);
		free_resources(core, booking);
	}
}

static void advance(struct core *core, int64_t now)
{
	core->now = now;
	foresee(core, now);
	while (core->running.count && core->running.items[0].at <= now) {
		struct due due = dues_pop(&core->running);
		if (core->bookings[due.booking].number == due.number) {
			unbook(core, due.booking);
			forget_booking(core, due.booking);
		}
	}
}

/* -- planning ------------------------------------------------------------------------------------------------------------- */

static void grant(struct core *core, uint32_t number, int64_t start)
{
	uint32_t at = new_booking(core);
	struct pair *pair = &core->pairs[number];
	struct booking *booking = &core->bookings[at];
	int64_t end = start + pair->length, reserved = pair->full;
	if (pair->need < reserved)
		for (uint32_t take = 0; take < pair->links; take++) {
			struct resource *link = resource_at(core, pair, take);
			reserved = least(reserved, link->capacity - peak(core, link, start, end));
		}
	pair->granted = ++core->turns;
	pair->passed_over = 0;
	pair->entered = false;
	core->last_number = (uint64_t)most((int64_t)core->last_number + 1, core->now);
	*booking = (struct booking){
		.number = core->last_number, .start = start, .end = end, .amount = reserved, .pair = number,
		.before = core->last_slot, .after = NONE,
	};
	booking->bytes = amount_of(core, pair, reserved, &booking->rate);
	if (pair->deadline) {
		int64_t passing = booking->bytes ? booking->bytes : (int64_t)((wide)booking->rate * pair->length / (8ll * SECOND_NS));
		pair->deadline = most(0, pair->deadline - passing);
	}
	if (pair->newest)
		pair->used = 0;
	pair->newest = booking->number;
	pair->newest_bytes = booking->bytes;
	pair->newest_length = pair->length;
	pair->length = least(pair->turn, pair->length * 3 / 2);
	if (core->last_slot != NONE)
		core->bookings[core->last_slot].after = at;
	else
		core->first_slot = at;
	core->last_slot = at;
	book(core, at);
	pair->booking = at;
	dues_push(&core->ends, (struct due){end, booking->number, at});
	GROW(core->granted, core->granted_room, core->granted_count + 1);
	core->granted[core->granted_count++] = at;
}

/* A resource that has no room for a pair from a start on; NONE: there is room. */
static uint32_t blocker(struct core *core, const struct pair *pair, int64_t start)
{
	const uint32_t *links = &core->links[(size_t)(pair - core->pairs) * core->links_most];
	int64_t end = start + pair->length;
	for (uint32_t take = 0; take < pair->links; take++)
		if (!has_room_ahead(&core->resources[links[take]], start, end, pair->need))
			return links[take];
	uint32_t host = core->nodes[pair->node].resource;
	return has_room_ahead(&core->resources[host], start, end, 1) ? NONE : host;
}

static void attempt(struct core *core, uint32_t number, int64_t instant)
{
	struct pair *pair = &core->pairs[number];
	pair->entered = false;
	instant = most(instant, core->now + core->nodes[pair->node].delay);
	uint32_t full = blocker(core, pair, instant);
	if (full == NONE) {
		grant(core, number, instant);
		return;
	}
	bool running = core->resources[full].settled > instant;
	while (running && (instant = next_release(core, pair, instant)) != INT64_MAX) {
		full = blocker(core, pair, instant);
		if (full == NONE) {
			grant(core, number, instant);
			return;
		}
	}
	park(core, number, full);
}

static void book_ahead(struct core *core, uint32_t number, int64_t instant)
{
	struct pair *pair = &core->pairs[number];
	int64_t start = most(instant, core->now + core->nodes[pair->node].delay);
	grant(core, number, earliest(core, pair, start, pair->length, pair->need, INT64_MAX));
}

static void push_head(struct core *core, uint32_t line)
{
	const struct entry *first = head(core, &core->lines[line]);
	if (first && core->pairs[first->pair].tried != core->selection)
		attempts_push(&core->attempts, (struct attempt){*first, core->lines[line].of, line});
}

static bool line_has_room(const struct core *core, const struct line *line)
{
	const struct resource *resource = &core->resources[line->resource];
	return resource->reserved + line->need <= resource->capacity;
}

/* Tries the pairs that wait for what was freed, and the new ones, in their order. */
static void select_pairs(struct core *core, int64_t instant)
{
	uint32_t oldest = 0;
	core->selection++;
	core->attempts.count = 0;
	for (uint32_t one = 0; one < core->freed_count; one++) {
		struct resource *resource = &core->resources[core->freed[one]];
		struct entry eldest = {.pair = NONE};
		resource->freed = false;
		for (uint32_t line = resource->lines; line != NONE; line = core->lines[line].next) {
			const struct entry *first = head(core, &core->lines[line]);
			if (!first)
				continue;
			if (core->lines[line].of == ORDINARY && (eldest.pair == NONE || entry_before(first, &eldest)))
				eldest = *first;
			if (line_has_room(core, &core->lines[line]))
				attempts_push(&core->attempts, (struct attempt){*first, core->lines[line].of, line});
		}
		if (eldest.pair != NONE && core->pairs[eldest.pair].eldest != core->selection) {
			core->pairs[eldest.pair].eldest = core->selection;
			GROW(core->oldest, core->oldest_room, oldest + 1);
			core->oldest[oldest++] = eldest.pair;
		}
	}
	core->freed_count = 0;
	for (uint32_t one = 0; one < core->loose_count; one++) {
		struct pair *pair = &core->pairs[core->loose[one]];
		pair->loose = false;
		struct attempt attempt = {entry_of(core, core->loose[one]), pair->deadline ? URGENT : ORDINARY, NONE};
		attempts_push(&core->attempts, attempt);
	}
	core->loose_count = 0;
	struct entry served = {.pair = NONE};
	while (core->attempts.count) {
		struct attempt next = attempts_pop(&core->attempts);
		struct pair *pair = &core->pairs[next.entry.pair];
		if (next.line == NONE) {
			attempt(core, next.entry.pair, instant);
			if (next.of == ORDINARY && pair->booking != NONE && (served.pair == NONE || entry_before(&next.entry, &served)))
				served = next.entry;
		} else if (line_has_room(core, &core->lines[next.line])) {
			if (pair->entered && pair->stamp == next.entry.stamp && pair->tried != core->selection) {
				attempt(core, next.entry.pair, instant);
				pair->tried = core->selection;
			}
			push_head(core, next.line);
		}
	}
	for (uint32_t one = 0; one < oldest; one++) {
		struct pair *pair = &core->pairs[core->oldest[one]];
		struct entry entry = entry_of(core, core->oldest[one]);
		if (pair->booking == NONE && (served.pair == NONE || entry_before(&entry, &served)))
			if (++pair->passed_over >= core->patience)
				book_ahead(core, core->oldest[one], instant);
	}
}

static void collect_ahead(struct core *core, uint32_t number)
{
	const struct resource *resource = &core->resources[number];
	for (uint32_t at = 0; at < resource->count; at++) {
		struct booking *booking = &core->bookings[resource->spans[at].booking];
		if (booking->start > core->now && booking->seen != core->forwarding) {
			booking->seen = core->forwarding;
			dues_push(&core->ahead, (struct due){booking->start, booking->number, resource->spans[at].booking});
		}
	}
}

/* Lets slots that have not begun begin earlier where room was freed, the earliest slot first. */
static void bring_forward(struct core *core)
{
	core->forwarding++;
	for (uint32_t one = 0; one < core->freed_count; one++)
		collect_ahead(core, core->freed[one]);
	while (core->ahead.count) {
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
}

static bool granted_before(const struct slot *a, const struct slot *b)
{
	return a->start != b->start ? a->start < b->start : a->slot < b->slot;
}

/* Writes the slots that were granted in the order of their starts and numbers, which they mostly have already: by merging runs. */
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
			while (middle < count && granted_before(&core->grants[middle - 1], &core->grants[middle]))
				middle++;
			uint32_t end = middle < count ? middle + 1 : middle;
			while (end < count && granted_before(&core->grants[end - 1], &core->grants[end]))
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

/* Plans; what came of it is there until the next call to any function. `counts` has the last slot number, before and after. */
void core_plan(struct core *core, int64_t now, int64_t horizon, struct counts *counts)
{
	core->last_number = counts->last_number;
	core->granted_count = 0;
	advance(core, now);
	bring_forward(core);
	for (int64_t instant = now;;) {
		foresee(core, instant);
		select_pairs(core, instant);
		instant = core_next_event(core);
		if (instant < 0 || instant > horizon)
			break;
	}
	write_grants(core);
	*counts = (struct counts){core->last_number, core->granted_count, core->revoke_count};
	core->revoke_count = 0;
}

const struct slot *core_grants(const struct core *core)
{
	return core->grants;
}

const struct slot *core_revokes(const struct core *core)
{
	return core->revokes;
}

/* -- who wants to send ---------------------------------------------------------------------------------------------------- */

static void begin_turn(struct pair *pair)
{
	pair->length = most(shortest(pair), pair->turn / 2);
	pair->used = 0;
}

static void want_no_more(struct core *core, struct pair *pair)
{
	pair->wanted = false;
	pair->deadline = 0;
	unloose(core, pair);
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
		if (pair->turn && pair->gone >= 0 && core->now - pair->gone > FORGOTTEN_TURNS * pair->turn)
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

/* Takes a backlog that changed: `added` pairs wait now, and `removed` ones no more; both lists are by `changed`. */
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
		const struct resource *resource = &core->resources[its->resource];
		for (uint32_t at = 0; at < resource->count;) {
			uint32_t booking = resource->spans[at].booking;
			bool void_ = core->bookings[booking].start > core->now && !core->pairs[core->bookings[booking].pair].waiting;
			if (void_)
				revoke(core, booking);
			else
				at++;
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

/* -- events --------------------------------------------------------------------------------------------------------------- */

/* Backlogs of some nodes, in full: nodes[i] waits for destinations[offsets[i]] and on, with so many bytes of deadlines each. */
void core_backlogs(struct core *core, int64_t now, uint32_t count, const uint32_t *nodes, const uint32_t *offsets,
		   const uint32_t *destinations, const int64_t *deadlines)
{
	advance(core, now);
	for (uint32_t one = 0; one < count; one++) {
		uint32_t node = node_at(core, nodes[one]);
		uint64_t mark = ++core->marks;
		bool added = false;
		core->gone_count = 0;
		for (uint32_t at = offsets[one]; at < offsets[one + 1]; at++) {
			uint32_t pair = pair_at(core, node, destinations[at]);
			core->pairs[pair].mark = mark;
			if (!core->pairs[pair].waiting) {
				begin_to_wait(core, pair);
				added = true;
			}
		}
		for (uint32_t at = core->nodes[node].waiting, after; at != NONE; at = after) {
			after = core->pairs[at].waiting_after;
			if (core->pairs[at].mark != mark)
				note_gone(core, at);
		}
		if (added || core->gone_count)
			change_backlog(core, node, core->gone_count);
		for (uint32_t at = core->nodes[node].waiting; at != NONE; at = core->pairs[at].waiting_after)
			core->pairs[at].deadline = 0;
		for (uint32_t at = offsets[one]; deadlines && at < offsets[one + 1]; at++) {
			uint32_t pair = pair_at(core, node, destinations[at]);
			core->pairs[pair].deadline = core->pairs[pair].wanted ? deadlines[at] : 0;
			hasten(core, pair);
		}
	}
}

static void learn_use(struct pair *pair, struct node *node, const struct returned *returned)
{
	if (!pair->newest || pair->newest != (uint64_t)returned->slot)
		return;
	pair->newest = 0;
	if (!pair->newest_bytes || !returned->unspent_bytes) {
		pair->used = 0;
		return;
	}
	int64_t spent = most(0, pair->newest_bytes - returned->unspent_bytes), margin = MARGIN_PACKETS * pair->packet_ns;
	int64_t used = (int64_t)((wide)pair->newest_length * spent / pair->newest_bytes);
	pair->length = least(pair->turn, most(shortest(pair), used + most(used / 8, margin)));
	pair->used += used;
	if (used < pair->turn / VISITS || pair->turn - pair->used < shortest(pair)) {
		pair->used = 0;
		return;
	}
	if (node->last == pair->last)
		node->last = pair->before_host;
	pair->last = pair->before_last;
}

void core_yields(struct core *core, int64_t now, uint32_t count, const struct returned *all)
{
	advance(core, now);
	for (uint32_t one = 0; one < count; one++) {
		const struct returned *returned = &all[one];
		uint32_t node = node_at(core, (uint32_t)returned->node), destination = (uint32_t)returned->destination;
		uint32_t at = map_get(&core->pair_of, key_of(core->nodes[node].id, destination));
		const struct resource *resource = &core->resources[core->nodes[node].resource];
		for (uint32_t span = 0; at != NONE && span < resource->count; span++) {
			const struct booking *booking = &core->bookings[resource->spans[span].booking];
			if (booking->number == (uint64_t)returned->slot && booking->pair == at) {
				drop(core, resource->spans[span].booking);
				break;
			}
		}
		if (at != NONE)
			learn_use(&core->pairs[at], &core->nodes[node], returned);
		bool waits = at != NONE && core->pairs[at].waiting;
		core->gone_count = 0;
		if (returned->backlog_bytes > 0 && !waits) {
			begin_to_wait(core, pair_at(core, node, destination));
			change_backlog(core, node, false);
		} else if (returned->backlog_bytes <= 0 && waits) {
			note_gone(core, at);
			change_backlog(core, node, true);
		}
	}
}

/* Takes the regulated pairs in full; the destinations of a node are sorted. */
void core_regulate(struct core *core, int64_t now, uint32_t count, const uint32_t *nodes, const uint32_t *offsets,
		   const uint32_t *destinations)
{
	advance(core, now);
	uint32_t all = count ? offsets[count] : 0;
	free(core->regulated);
	core->regulated = malloc((size_t)all * sizeof(*destinations) + 1);
	if (!core->regulated)
		abort();
	if (all)
		memcpy(core->regulated, destinations, all * sizeof(*destinations));
	for (uint32_t at = 0; at < core->node_count; at++)
		core->nodes[at].regulated_count = 0;
	for (uint32_t one = 0; one < count; one++) {
		uint32_t at = node_at(core, nodes[one]); /* which may move all nodes */
		struct node *node = &core->nodes[at];
		node->regulated = core->regulated + offsets[one];
		node->regulated_count = offsets[one + 1] - offsets[one];
	}
	for (uint32_t node = 0; node < core->node_count; node++)
		for (uint32_t at = core->nodes[node].from; at != NONE; at = core->pairs[at].from_after)
			core->pairs[at].regulated = regulates(&core->nodes[node], core->pairs[at].destination);
	for (uint32_t at = core->first_slot, after; at != NONE; at = after) {
		after = core->bookings[at].after;
		if (!core->pairs[core->bookings[at].pair].regulated)
			revoke(core, at);
	}
	for (uint32_t node = core->first_heard; node != NONE; node = core->nodes[node].after)
		want(core, node);
}

void core_left(struct core *core, int64_t now, uint32_t id)
{
	advance(core, now);
	uint32_t gone = map_get(&core->node_of, id);
	if (gone == NONE)
		return;
	for (uint32_t at = core->first_slot, after; at != NONE; at = after) {
		const struct pair *pair = &core->pairs[core->bookings[at].pair];
		after = core->bookings[at].after;
		if (pair->node == gone || pair->destination == id)
			revoke(core, at);
	}
	struct node *node = &core->nodes[gone];
	while (node->from != NONE)
		forget_pair(core, node->from);
	while (node->to != NONE)
		forget_pair(core, node->to);
	if (node->heard) {
		node->heard = false;
		if (node->before != NONE)
			core->nodes[node->before].after = node->after;
		else
			core->first_heard = node->after;
		if (node->after != NONE)
			core->nodes[node->after].before = node->before;
		else
			core->last_heard = node->before;
	}
	struct resource *resource = &core->resources[node->resource];
	resource->settled = 0;
	for (uint32_t line = resource->lines; line != NONE; line = core->lines[line].next)
		core->lines[line].heap.count = 0;
	node->last = node->carry = 0;
	node->delay = 0;
}

void core_delay(struct core *core, uint32_t node, int64_t delay)
{
	uint32_t at = node_at(core, node); /* which may move all nodes */
	core->nodes[at].delay = delay;
}

/* The weight of a pair; NONE stands for any node. */
void core_weight(struct core *core, uint32_t node, uint32_t destination, double weight)
{
	weigh(&core->weights, node, destination, weight);
	for (uint32_t pair = 0; pair < core->pair_count; pair++)
		if (core->pairs[pair].number)
			measure(core, &core->pairs[pair]);
}

/* -- the fabric ----------------------------------------------------------------------------------------------------------- */

/* No booking holds anything, and no pair waits in a line, until `core_settle`; all pairs that were ever wanted are without place. */
static void displace(struct core *core)
{
	core->freed_count = core->line_count = 0;
	for (uint32_t at = core->first_slot; at != NONE; at = core->bookings[at].after)
		memset(positions_of(core, at), 0xff, (core->links_most + 1) * sizeof(*core->positions));
	for (uint32_t one = 0; one < core->loose_count; one++)
		core->pairs[core->loose[one]].loose = false;
	core->loose_count = core->unplaced_count = 0;
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

/* A new network begins: all pairs are without place, and all resources are new. Links and places follow, then `core_settle`. */
void core_rewire(struct core *core, int64_t now)
{
	advance(core, now);
	core->network = true;
	core->resource_count = 0;
	for (uint32_t node = 0; node < core->node_count; node++) {
		core->nodes[node].resource = new_resource(core, 1, true);
		for (uint32_t at = core->nodes[node].from; at != NONE; at = core->pairs[at].from_after)
			core->pairs[at].links = core->pairs[at].rate = 0;
	}
	displace(core);
}

/* A directed link of the network; returns its number. */
uint32_t core_link(struct core *core, int64_t capacity)
{
	return new_resource(core, capacity, false);
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
static void take_place(struct core *core, uint32_t at)
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
	loosen(core, at);
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
	take_place(core, at);
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

/* Takes the links that were found, and gives the pairs without place those that were found, in the order in which they are taken; the
 * others go on waiting. Returns the number of the first link. */
uint32_t core_put(struct core *core, struct found *found)
{
	uint32_t *rows = malloc((size_t)core->pair_count * sizeof(*rows) + 1), kept = 0, first = 0;
	if (!rows)
		abort();
	for (uint32_t one = 0; one < found->link_count; one++) {
		uint32_t link = core_link(core, found->capacities[one]);
		first = one ? first : link;
	}
	number_links(found, first);
	memset(rows, 0xff, (size_t)core->pair_count * sizeof(*rows));
	for (uint32_t row = 0; row < found->count; row++) {
		uint32_t at = map_get(&core->pair_of, key_of(found->nodes[row], found->destinations[row]));
		if (at != NONE)
			rows[at] = row;
	}
	for (uint32_t one = core->unplaced_count; one > 0; one--) {
		uint32_t at = core->unplaced[one - 1], row = rows[at];
		if (row != NONE)
			core_place(core, at, found->rates[row], found->offsets[row + 1] - found->offsets[row],
				   found->links + found->offsets[row]);
	}
	for (uint32_t one = 0; one < core->unplaced_count; one++)
		if (rows[core->unplaced[one]] == NONE)
			core->unplaced[kept++] = core->unplaced[one];
	core->unplaced_count = kept;
	free(rows);
	return first;
}

/* Other capacities of links, where rates and paths are as before. `core_settle` follows. */
void core_recharge(struct core *core, int64_t now, uint32_t count, const uint32_t *links, const int64_t *capacities)
{
	advance(core, now);
	for (uint32_t one = 0; one < count; one++)
		core->resources[links[one]].capacity = capacities[one];
	for (uint32_t at = 0; at < core->resource_count; at++) {
		struct resource *resource = &core->resources[at];
		*resource = (struct resource){.capacity = resource->capacity, .lines = NONE, .ordered = resource->ordered,
			.spans = resource->spans, .room = resource->room};
	}
	displace(core);
	for (uint32_t one = core->unplaced_count; one > 0; one--)
		if (core->pairs[core->unplaced[one - 1]].rate > 0)
			take_place(core, core->unplaced[one - 1]);
	core->unplaced_count = 0;
}

static int by_start(const void *a, const void *b)
{
	const struct due *one = a, *other = b;
	return DUE_BEFORE(*other, *one) - DUE_BEFORE(*one, *other);
}

/* All pairs have their places: slots stay where there is room, and those that start last are revoked. */
void core_settle(struct core *core)
{
	struct dues *held = &core->ahead;
	for (uint32_t at = core->first_slot; at != NONE; at = core->bookings[at].after)
		dues_push(held, (struct due){core->bookings[at].start, core->bookings[at].number, at});
	if (held->count)
		qsort(held->items, held->count, sizeof(*held->items), by_start);
	for (uint32_t one = 0; one < held->count; one++) {
		uint32_t at = held->items[one].booking;
		const struct booking *booking = &core->bookings[at];
		const struct pair *pair = &core->pairs[booking->pair];
		if (pair->placed && fits(core, pair, booking->start, booking->end, booking->amount))
			book(core, at);
		else
			revoke(core, at);
	}
	held->count = 0;
}

/* -- from the beginning to the end ---------------------------------------------------------------------------------------- */

struct terms {
	int64_t slice, minimum_active, headroom_ppm, minimum_ppm, burst_bytes, packet_bytes;
	uint32_t patience;
};

struct core *core_new(const struct terms *terms)
{
	struct core *core = calloc(1, sizeof(*core));
	if (!core)
		abort();
	core->slice = terms->slice;
	core->minimum_active = terms->minimum_active;
	core->headroom_ppm = terms->headroom_ppm;
	core->minimum_ppm = terms->minimum_ppm;
	core->burst_bytes = terms->burst_bytes;
	core->packet_bytes = terms->packet_bytes;
	core->patience = terms->patience;
	core->free_pairs = core->free_bookings = core->first_slot = core->last_slot = NONE;
	core->first_heard = core->last_heard = NONE;
	return core;
}

void core_free(struct core *core)
{
	for (uint32_t at = 0; at < core->resource_room; at++)
		free(core->resources[at].spans);
	for (uint32_t at = 0; at < core->line_room; at++)
		free(core->lines[at].heap.items);
	map_free(&core->node_of);
	map_free(&core->pair_of);
	weights_free(&core->weights);
	void *arrays[] = {
		core->nodes, core->pairs, core->resources, core->lines, core->links, core->regulated, core->unplaced,
		core->bookings, core->positions, core->ends.items, core->running.items, core->freed, core->loose, core->oldest,
		core->attempts.items, core->ahead.items, core->changes, core->granted, core->grants, core->revokes,
		core->sorted, core->fresh, core->gone,
	};
	for (size_t at = 0; at < sizeof(arrays) / sizeof(*arrays); at++)
		free(arrays[at]);
	free(core);
}
