/* What `auto` knows of pairs and contended links, compiled: see controller/policies/auto.py, which is the reference and says
 * why.
 *
 * It follows every backlog, slot and yield, finds the groups of links that share senders, and deals the pairs out to turns and
 * rates. What each group chooses Python decides (choice.py). Times are ns.
 */
#define _GNU_SOURCE
#include "groups.h"

/* -- choices in force, and who takes turns by them ------------------------------------------------------------------------ */

static bool takes_turns(const struct choices *choices, uint32_t choice)
{
	return choice != NONE && choices->in_turns[choice];
}

/* The choice in force for a group: one for rates before one for turns; NONE: there is none. */
static uint32_t chosen_for(const struct choices *choices, uint32_t number)
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

/* The choices in force for the groups from one on. */
void choices_chosen(struct choices *choices, uint32_t from, uint32_t *found)
{
	for (uint32_t number = from; number < choices->group_count; number++) {
		found[number] = chosen_for(choices, number);
		did(&choices->pauses, choices->groups[number].count);
	}
}

/* Says whether a choice is for turns. */
void choices_mode(struct choices *choices, uint32_t choice, uint32_t turns)
{
	GROW(choices->in_turns, choices->in_turns_room, choice + 1);
	choices->in_turns[choice] = turns;
}

/* Puts a choice in force for a group; `fresh`: what was used is counted anew. Returns whether a link has another mode now. */
static bool assign(struct choices *choices, uint32_t number, uint32_t choice, bool fresh)
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

/* Puts the choices of the groups from one to before another in force; `fresh` as above. Returns whether a link has another mode. */
uint32_t choices_assign(struct choices *choices, uint32_t from, uint32_t to, const uint32_t *chosen, uint32_t fresh)
{
	bool changed = false;
	for (uint32_t number = from; number < to; number++) {
		changed |= assign(choices, number, chosen[number], fresh);
		did(&choices->pauses, choices->groups[number].count);
	}
	return changed;
}

/* The choices of links; NONE: there is none. */
void choices_of_links(const struct choices *choices, uint32_t count, const uint32_t *links, uint32_t *found)
{
	for (uint32_t one = 0; one < count; one++)
		found[one] = links[one] < choices->use_room ? choices->uses[links[one]].choice : NONE;
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

/* Deals the regulated pairs that wait or send out to turns and rates, by the choices of their links. Others may tell events in its
 * pauses: a pair that begins to send then has the next review. */
void choices_deal(struct choices *choices)
{
	struct roster *roster = &choices->roster;
	begin_dealing(&choices->turns);
	begin_dealing(&choices->rates);
	for (uint32_t node = 0; node < roster->member_count; node++) {
		uint32_t looked = 0;
		for (uint32_t at = roster->members[node].from; at != NONE; at = roster->couples[at].from_after) {
			const struct couple *pair = &roster->couples[at];
			const uint32_t *links;
			looked++;
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
		did(&choices->pauses, looked + 1);
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
	PROVIDE(choices->activities, choices->activity_room, MANY);
	return choices;
}

/* Lends the core's lock in pauses from now on, by this function. */
void choices_lend(struct choices *choices, void (*lend)(void *lock), void *lock)
{
	choices->pauses = (struct pauses){lend, lock, 0};
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
		array_free(arrays[at]);
	free(choices);
}
