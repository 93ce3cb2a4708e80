/* What `auto` knows of pairs and contended links, compiled: see controller/policies/auto.py, which is the reference and says why.
 *
 * It follows every backlog, slot and yield, finds the groups of links that share senders, and deals the pairs out to turns and
 * rates. What each group chooses Python decides (choice.py). Times are ns.
 */
#include "roster.h"
#include "slots.h"

enum { LEAST_SLOTS = 50, SLOTS_PER_SENDER = 10 };
static const int64_t RECENT = 1000000000;

struct activity { /* of a pair */
	bool sends;
	int64_t last;    /* its last backlog */
	uint64_t stamp;  /* of its entry in `order` */
	uint32_t owned;  /* entries of `owners` */
};

struct entry {
	uint64_t stamp;
	uint32_t pair;
};

struct owner { /* of a turn that may still be given back */
	uint64_t slot; /* 0: it is no more */
	int64_t bytes;
	uint32_t pair;
};

struct use { /* of a link: turns, bytes granted in them and given back, since the last choice */
	bool counted, contended;
	uint32_t choice, senders, group;
	int64_t turns, granted, unspent;
};

struct group { /* `Group` in library.py */
	uint32_t first, count, senders, one_link;
	int64_t delay, turns, granted, unspent;
};

struct dealt { /* pairs, as `regulate` takes them */
	uint32_t *nodes, *offsets, *destinations, count, total, node_room, offset_room, room;
};

struct choices {
	struct roster roster;
	struct activity *activities;
	struct entry *order;
	struct owner *owners;
	struct map owner_of;
	struct use *uses;
	struct group *groups;
	struct dealt turns, rates;
	bool *in_turns, dirty;
	uint32_t activity_room, order_count, order_room, owner_count, owner_room, use_room, group_count, group_room, in_turns_room;
	uint32_t contended, *parents, parent_room, *group_of, group_of_room, *members, member_room, *crossed, crossed_room;
	uint64_t stamps;
};

/* -- links ---------------------------------------------------------------------------------------------------------------- */

/* Provides for all links that have a number. */
static void provide_uses(struct choices *choices)
{
	uint32_t before = choices->use_room;
	GROW(choices->uses, choices->use_room, choices->roster.link_count);
	for (uint32_t at = before; at < choices->use_room; at++)
		choices->uses[at].choice = NONE;
}

/* The contended links of a pair's path; all of its links while none is known to be contended. Valid until the next call. */
static uint32_t cross(struct choices *choices, uint32_t at, const uint32_t **found)
{
	const struct couple *pair = &choices->roster.couples[at];
	const uint32_t *links = links_of(&choices->roster, at);
	uint32_t count = 0;
	provide_uses(choices);
	GROW(choices->crossed, choices->crossed_room, pair->links);
	for (uint32_t one = 0; one < pair->links; one++)
		if (!choices->contended || choices->uses[links[one]].contended)
			choices->crossed[count++] = links[one];
	*found = choices->crossed;
	return count;
}

/* -- events --------------------------------------------------------------------------------------------------------------- */

static uint32_t pair_at(struct choices *choices, uint32_t node, uint32_t destination)
{
	uint32_t before = couple_find(&choices->roster, choices->roster.members[node].id, destination);
	uint32_t at = couple_at(&choices->roster, node, destination);
	GROW(choices->activities, choices->activity_room, choices->roster.couple_room);
	if (before == NONE)
		choices->activities[at] = (struct activity){.last = 0};
	want_place(&choices->roster, at);
	return at;
}

static void sends(struct choices *choices, uint32_t at)
{
	struct activity *activity = &choices->activities[at];
	if (!activity->sends) {
		choices->dirty = activity->sends = true;
		activity->stamp = ++choices->stamps;
		GROW(choices->order, choices->order_room, choices->order_count + 1);
		choices->order[choices->order_count++] = (struct entry){activity->stamp, at};
	}
	activity->last = choices->roster.now;
}

void choices_backlogs(struct choices *choices, int64_t now, uint32_t count, const uint32_t *nodes, const uint32_t *offsets,
		      const uint32_t *destinations, const int64_t *deadlines)
{
	(void)deadlines;
	struct roster *roster = &choices->roster;
	roster->now = now;
	for (uint32_t one = 0; one < count; one++) {
		uint32_t node = member_at(roster, nodes[one]);
		uint64_t mark = ++roster->marks;
		for (uint32_t at = offsets[one]; at < offsets[one + 1]; at++) {
			uint32_t pair = pair_at(choices, node, destinations[at]); /* which may move all pairs */
			roster->couples[pair].mark = mark;
			roster->couples[pair].waiting = true;
			sends(choices, pair);
		}
		for (uint32_t at = roster->members[node].from; at != NONE; at = roster->couples[at].from_after)
			roster->couples[at].waiting &= roster->couples[at].mark == mark;
	}
}

static void disown(struct choices *choices, uint32_t at)
{
	struct owner *owner = &choices->owners[at];
	choices->activities[owner->pair].owned--;
	map_remove(&choices->owner_of, owner->slot);
	owner->slot = 0;
}

void choices_yields(struct choices *choices, int64_t now, uint32_t count, const struct returned *all)
{
	struct roster *roster = &choices->roster;
	roster->now = now;
	for (uint32_t one = 0; one < count; one++) {
		const struct returned *returned = &all[one];
		uint32_t owner = map_get(&choices->owner_of, (uint64_t)returned->slot);
		if (owner != NONE) {
			const uint32_t *links;
			uint32_t crossed = cross(choices, choices->owners[owner].pair, &links);
			int64_t most = choices->owners[owner].bytes;
			for (uint32_t at = 0; at < crossed; at++)
				if (choices->uses[links[at]].counted)
					choices->uses[links[at]].unspent += returned->unspent_bytes < most ? returned->unspent_bytes : most;
			disown(choices, owner);
		}
		uint32_t node = member_at(roster, (uint32_t)returned->node), destination = (uint32_t)returned->destination;
		if (returned->backlog_bytes > 0) {
			uint32_t at = pair_at(choices, node, destination);
			roster->couples[at].waiting = true;
			sends(choices, at);
		} else {
			uint32_t at = couple_find(roster, roster->members[node].id, destination);
			if (at != NONE)
				roster->couples[at].waiting = false;
		}
	}
}

void choices_sent(struct choices *choices, int64_t now, uint32_t node, uint32_t count, const uint32_t *destinations,
		  const int64_t *rates)
{
	for (uint32_t one = 0; one < count; one++) {
		uint32_t at = couple_find(&choices->roster, node, destinations[one]);
		if (at != NONE && rates[one] && choices->activities[at].sends)
			choices->activities[at].last = now;
	}
}

void choices_delay(struct choices *choices, uint32_t node, int64_t delay)
{
	uint32_t at = member_at(&choices->roster, node); /* which may move all members */
	choices->roster.members[at].delay = delay;
}

void choices_regulate(struct choices *choices, int64_t now, uint32_t count, const uint32_t *nodes, const uint32_t *offsets,
		      const uint32_t *destinations)
{
	choices->roster.now = now;
	roster_regulate(&choices->roster, count, nodes, offsets, destinations);
	choices->dirty = true;
}

void choices_left(struct choices *choices, int64_t now, uint32_t id)
{
	struct roster *roster = &choices->roster;
	uint32_t node = map_get(&roster->member_of, id);
	roster->now = now;
	if (node == NONE)
		return;
	roster->members[node].delay = -1;
	for (uint32_t one = 0; one < choices->owner_count; one++) {
		const struct owner *owner = &choices->owners[one];
		if (owner->slot && (roster->couples[owner->pair].node == node || roster->couples[owner->pair].destination == id))
			disown(choices, one);
	}
	while (roster->members[node].from != NONE) {
		choices->activities[roster->members[node].from].sends = false;
		forget_couple(roster, roster->members[node].from);
	}
	while (roster->members[node].to != NONE) {
		choices->activities[roster->members[node].to].sends = false;
		forget_couple(roster, roster->members[node].to);
	}
}

/* Takes the contended links, in full, and forgets what was chosen for others. */
void choices_contend(struct choices *choices, uint32_t count, const uint32_t *links)
{
	provide_uses(choices);
	for (uint32_t at = 0; at < choices->use_room; at++)
		choices->uses[at].contended = false;
	for (uint32_t one = 0; one < count; one++)
		choices->uses[links[one]].contended = true;
	for (uint32_t at = 0; at < choices->use_room; at++)
		if (!choices->uses[at].contended)
			choices->uses[at].choice = NONE;
	choices->contended = count;
	choices->dirty = true;
}

/* A new network begins. Links keep their numbers, for they keep their names. */
void choices_rewire(struct choices *choices, int64_t now)
{
	choices->roster.now = now;
	roster_rewire(&choices->roster);
	choices->dirty = true;
}

/* Other capacities of links, where rates and paths are as before. */
void choices_recharge(struct choices *choices, int64_t now)
{
	choices->roster.now = now;
	choices->dirty = true;
}

EXPORT_PLACES(choices, (void)0)

/* Counts turns that were granted. */
void choices_count(struct choices *choices, uint32_t count, const struct slot *slots)
{
	for (uint32_t one = 0; one < count; one++) {
		const struct slot *slot = &slots[one];
		uint32_t at = couple_find(&choices->roster, (uint32_t)slot->node, (uint32_t)slot->destination);
		if (!slot->bytes || at == NONE || map_get(&choices->owner_of, (uint64_t)slot->slot) != NONE)
			continue;
		const uint32_t *links;
		GROW(choices->owners, choices->owner_room, choices->owner_count + 1);
		map_set(&choices->owner_of, (uint64_t)slot->slot, choices->owner_count);
		choices->owners[choices->owner_count++] = (struct owner){(uint64_t)slot->slot, slot->bytes, at};
		choices->activities[at].owned++;
		uint32_t crossed = cross(choices, at, &links);
		for (uint32_t link = 0; link < crossed; link++) {
			struct use *use = &choices->uses[links[link]];
			if (!use->counted) {
				use->counted = true;
				use->turns = use->granted = use->unspent = 0;
			}
			use->turns++;
			use->granted += slot->bytes;
		}
	}
}

/* -- the review ----------------------------------------------------------------------------------------------------------- */

bool choices_dirty(const struct choices *choices)
{
	return choices->dirty;
}

static void forget_old(struct choices *choices, int64_t now)
{
	struct roster *roster = &choices->roster;
	uint32_t kept = 0, live = 0;
	for (uint32_t one = 0; one < choices->order_count; one++) {
		struct entry entry = choices->order[one];
		struct activity *activity = &choices->activities[entry.pair];
		if (!activity->sends || activity->stamp != entry.stamp)
			continue;
		activity->sends = now - activity->last < RECENT;
		if (activity->sends)
			choices->order[kept++] = entry;
	}
	choices->order_count = kept;
	uint64_t most = (uint64_t)SLOTS_PER_SENDER * kept + LEAST_SLOTS;
	for (uint32_t one = 0; one < choices->owner_count; one++)
		live += choices->owners[one].slot != 0;
	for (uint32_t one = 0; live > most; one++)
		if (choices->owners[one].slot) {
			disown(choices, one);
			live--;
		}
	kept = 0;
	for (uint32_t one = 0; one < choices->owner_count; one++) {
		if (!choices->owners[one].slot)
			continue;
		choices->owners[kept] = choices->owners[one];
		map_set(&choices->owner_of, choices->owners[kept].slot, kept);
		kept++;
	}
	choices->owner_count = kept;
	for (uint32_t at = 0; at < roster->couple_count; at++) {
		const struct couple *pair = &roster->couples[at];
		if (pair->known && !pair->waiting && !choices->activities[at].sends && !choices->activities[at].owned)
			forget_couple(roster, at);
	}
}

static uint32_t root(uint32_t *parents, uint32_t of)
{
	while (parents[of] != of)
		of = parents[of] = parents[parents[of]];
	return of;
}

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Finds the groups of links that share senders, in the order of their first senders; *sending is how many pairs send. */
uint32_t choices_review(struct choices *choices, int64_t now, uint32_t *sending)
{
	struct roster *roster = &choices->roster;
	const uint32_t *links;
	choices->dirty = false;
	choices->roster.now = now;
	forget_old(choices, now);
	*sending = choices->order_count;
	provide_uses(choices);
	uint32_t link_count = roster->link_count, all = link_count + roster->member_count, placed = 0;
	GROW(choices->parents, choices->parent_room, all);
	GROW(choices->group_of, choices->group_of_room, all);
	GROW(choices->members, choices->member_room, link_count);
	for (uint32_t at = 0; at < all; at++) {
		choices->parents[at] = at;
		choices->group_of[at] = NONE;
	}
	for (uint32_t at = 0; at < link_count; at++) {
		choices->uses[at].group = NONE;
		choices->uses[at].senders = 0;
	}
	choices->group_count = 0;
	for (uint32_t one = 0; one < choices->order_count; one++) {
		uint32_t pair = choices->order[one].pair, node = link_count + roster->couples[pair].node;
		uint32_t crossed = roster->couples[pair].regulated ? cross(choices, pair, &links) : 0;
		for (uint32_t at = 0; at < crossed; at++)
			choices->parents[root(choices->parents, links[at])] = root(choices->parents, node);
	}
	for (uint32_t one = 0; one < choices->order_count; one++) {
		uint32_t pair = choices->order[one].pair;
		uint32_t crossed = roster->couples[pair].regulated ? cross(choices, pair, &links) : 0;
		if (!crossed)
			continue;
		uint32_t *number = &choices->group_of[root(choices->parents, links[0])];
		if (*number == NONE) {
			GROW(choices->groups, choices->group_room, choices->group_count + 1);
			choices->groups[choices->group_count] = (struct group){.one_link = 1, .delay = -1};
			*number = choices->group_count++;
		}
		struct group *group = &choices->groups[*number];
		group->one_link &= crossed == 1 || !choices->contended;
		group->delay = most(group->delay, roster->members[roster->couples[pair].node].delay);
		for (uint32_t at = 0; at < crossed; at++) {
			struct use *use = &choices->uses[links[at]];
			group->senders = (uint32_t)most(group->senders, ++use->senders);
			if (use->group != NONE)
				continue;
			use->group = *number;
			group->count++;
			choices->members[placed++] = links[at];
			if (use->counted) {
				group->turns += use->turns;
				group->granted += use->granted;
				group->unspent += use->unspent;
			}
		}
	}
	/* The links of each group together, in the order in which they were found. */
	uint32_t first = 0;
	for (uint32_t one = 0; one < choices->group_count; one++) {
		choices->groups[one].first = first;
		first += choices->groups[one].count;
		choices->groups[one].count = 0;
	}
	for (uint32_t one = 0; one < placed; one++) {
		struct group *group = &choices->groups[choices->uses[choices->members[one]].group];
		choices->parents[group->first + group->count++] = choices->members[one];
	}
	if (placed)
		memcpy(choices->members, choices->parents, placed * sizeof(*choices->members));
	return choices->group_count;
}

const struct group *choices_groups(const struct choices *choices)
{
	return choices->groups;
}

static bool takes_turns(const struct choices *choices, uint32_t choice)
{
	return choice != NONE && choices->in_turns[choice];
}

/* The choice in force for a group: one for rates before one for turns; NONE: there is none. */
uint32_t choices_chosen(const struct choices *choices, uint32_t number)
{
	const struct group *group = &choices->groups[number];
	uint32_t found = NONE;
	for (uint32_t one = 0; one < group->count; one++) {
		uint32_t choice = choices->uses[choices->members[group->first + one]].choice;
		if (choice == NONE)
			continue;
		if (!takes_turns(choices, choice))
			return choice;
		if (found == NONE)
			found = choice;
	}
	return found;
}

/* Says whether a choice is for turns. */
void choices_mode(struct choices *choices, uint32_t choice, uint32_t turns)
{
	GROW(choices->in_turns, choices->in_turns_room, choice + 1);
	choices->in_turns[choice] = turns;
}

/* Puts a choice in force for a group; `fresh`: what was used is counted anew. Returns whether a link has another mode now. */
uint32_t choices_assign(struct choices *choices, uint32_t number, uint32_t choice, uint32_t fresh)
{
	const struct group *group = &choices->groups[number];
	bool changed = false;
	for (uint32_t one = 0; one < group->count; one++) {
		struct use *use = &choices->uses[choices->members[group->first + one]];
		use->counted &= !fresh;
		changed |= takes_turns(choices, use->choice) != takes_turns(choices, choice);
		use->choice = choice;
	}
	return changed;
}

/* The choice of a link; NONE: there is none. */
uint32_t choices_of_link(const struct choices *choices, uint32_t link)
{
	return link < choices->use_room ? choices->uses[link].choice : NONE;
}

static int by_number(const void *a, const void *b)
{
	const uint32_t *one = a, *other = b;
	return (*one > *other) - (*one < *other);
}

static void deal(struct dealt *dealt, uint32_t destination)
{
	GROW(dealt->destinations, dealt->room, dealt->total + 1);
	dealt->destinations[dealt->total++] = destination;
}

static void close_node(struct dealt *dealt, uint32_t node)
{
	uint32_t first = dealt->count ? dealt->offsets[dealt->count] : 0;
	if (dealt->total == first)
		return;
	qsort(&dealt->destinations[first], dealt->total - first, sizeof(*dealt->destinations), by_number);
	GROW(dealt->nodes, dealt->node_room, dealt->count + 1);
	GROW(dealt->offsets, dealt->offset_room, dealt->count + 2);
	dealt->nodes[dealt->count++] = node;
	dealt->offsets[dealt->count] = dealt->total;
}

static void begin_dealing(struct dealt *dealt)
{
	dealt->count = dealt->total = 0;
	GROW(dealt->nodes, dealt->node_room, 1);
	GROW(dealt->offsets, dealt->offset_room, 1);
	GROW(dealt->destinations, dealt->room, 1);
	dealt->offsets[0] = 0;
}

/* Deals the regulated pairs that wait or send out to turns and rates, by the choices of their links. */
void choices_deal(struct choices *choices)
{
	struct roster *roster = &choices->roster;
	begin_dealing(&choices->turns);
	begin_dealing(&choices->rates);
	for (uint32_t node = 0; node < roster->member_count; node++) {
		for (uint32_t at = roster->members[node].from; at != NONE; at = roster->couples[at].from_after) {
			const struct couple *pair = &roster->couples[at];
			const uint32_t *links;
			if (!pair->regulated || !(pair->waiting || choices->activities[at].sends))
				continue;
			uint32_t crossed = cross(choices, at, &links);
			bool turns = crossed;
			for (uint32_t one = 0; one < crossed; one++)
				turns &= takes_turns(choices, choices->uses[links[one]].choice);
			deal(turns ? &choices->turns : &choices->rates, pair->destination);
		}
		close_node(&choices->turns, roster->members[node].id);
		close_node(&choices->rates, roster->members[node].id);
	}
}

const struct dealt *choices_dealt(const struct choices *choices, uint32_t turns)
{
	return turns ? &choices->turns : &choices->rates;
}

/* -- from the beginning to the end ---------------------------------------------------------------------------------------- */

struct choices *choices_new(void)
{
	struct choices *choices = calloc(1, sizeof(*choices));
	if (!choices)
		abort();
	roster_begin(&choices->roster);
	choices->dirty = true;
	return choices;
}

void choices_free(struct choices *choices)
{
	roster_end(&choices->roster);
	map_free(&choices->owner_of);
	void *arrays[] = {
		choices->activities, choices->order, choices->owners, choices->uses, choices->groups, choices->turns.nodes,
		choices->turns.offsets, choices->turns.destinations, choices->rates.nodes, choices->rates.offsets,
		choices->rates.destinations, choices->in_turns, choices->parents, choices->group_of, choices->members,
		choices->crossed,
	};
	for (size_t at = 0; at < sizeof(arrays) / sizeof(*arrays); at++)
		free(arrays[at]);
	free(choices);
}
