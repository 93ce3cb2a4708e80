/* The steps policy as a library: the plans of controller/policies/steps/, which is the reference and says why. */
#include "steps_queue.h"

/* -- slots ---------------------------------------------------------------------------------------------------------------- */

static struct step *step_at(struct steps *core, int64_t number)
{
	struct step *step = &core->steps[number % AHEAD];
	return step->number == number ? step : NULL;
}

/* The first step that may be planned and is not over. */
static int64_t first_step(const struct steps *core)
{
	return core->roster.now / core->step_ns;
}

#define EACH_STEP(core, step)                                                                                           \
	for (int64_t number = first_step(core), end = number + AHEAD; number < end; number++)                          \
		for (struct step *step = step_at(core, number); step; step = NULL)

static void provide(struct steps *core, struct step *step)
{
	GROW(step->left, step->left_room, core->roster.link_count);
	GROW(step->held, step->held_room, core->roster.member_count);
}

static void empty(struct steps *core, struct step *step)
{
	provide(core, step);
	if (core->roster.link_count)
		memcpy(step->left, core->room, core->roster.link_count * sizeof(*step->left));
}

static struct held *held_of(struct step *step, uint32_t node, int64_t step_ns)
{
	struct held *held = node < step->held_room ? &step->held[node] : NULL;
	return held && held->number && held->start >= step->number * step_ns ? held : NULL; /* else of a step that is over */
}

static struct slot slot_of(const struct steps *core, const struct step *step, const struct held *held)
{
	const struct flow *flow = &core->flows[held->flow];
	return (struct slot){
		held->number, flow->id, flow->destination, held->start,
		(step->number + 1) * core->step_ns, held->bytes, held->rate, held->reserved,
	};
}

/* The bytes of a slot, or its rate in *rate; the remainder of a credit is carried to the node's next. */
static int64_t amount_of(struct steps *core, uint32_t at, int64_t length, int64_t *rate)
{
	const struct flow *flow = &core->flows[at];
	struct credit *credit = &core->credit;
	uint64_t packet = (uint64_t)(core->packet_bytes * BYTE);
	int64_t sends = flow->slow ? core->sends[at] : flow->need;
	if (credit->need != flow->need || credit->sends != sends || credit->length != length) {
		wide due = (wide)flow->need * length * core->headroom_ppm, burst;
		bool huge = __builtin_mul_overflow(due, (wide)(sends - flow->need), &burst);
		*credit = (struct credit){flow->need, sends, length, (uint64_t)(due / packet), (uint64_t)(due % packet), false};
		credit->rate = due < packet || huge || burst / sends > core->burst_bytes * BYTE;
	}
	*rate = 0;
	if (credit->rate) {
		*rate = (int64_t)((wide)flow->need * core->headroom_ppm / PPM);
		*rate += !*rate;
		return 0;
	}
	uint64_t *carry = &core->carries[flow->node];
	bool more = credit->rest >= packet - *carry;
	*carry = more ? credit->rest - (packet - *carry) : credit->rest + *carry;
	return (int64_t)(credit->packets + more) * core->packet_bytes;
}

static void grant(struct steps *core, struct step *step, uint32_t at)
{
	int64_t start = start_of(core, step, at), rate;
	int64_t bytes = amount_of(core, at, (step->number + 1) * core->step_ns - start, &rate);
	core->last_number++;
	if (core->last_number < (uint64_t)core->roster.now)
		core->last_number = (uint64_t)core->roster.now;
	struct held *held = &step->held[core->flows[at].node];
	*held = (struct held){(int64_t)core->last_number, start, bytes, rate, core->flows[at].need, at};
	GROW(core->grants, core->grant_room, core->grant_count + 1);
	core->grants[core->grant_count++] = slot_of(core, step, held);
}

/* Ends a node's slot now, and has the rest of the step tried for others. */
static void drop(struct steps *core, struct step *step, uint32_t node)
{
	struct roster *roster = &core->roster;
	uint32_t at = step->held[node].flow, tries = TRIES;
	uint32_t to = map_get(&roster->member_of, core->flows[at].destination);
	step->held[node].number = 0;
	take(core, step, at, -1);
	const struct waiting *here = &core->waiting[node];
	for (uint32_t one = here->out_count; one-- && tries--;)
		loosen(core, here->out[one].flow);
	tries = TRIES;
	const struct flows *in = &core->waiting[to].in;
	for (uint32_t one = in->count; one-- && tries--;)
		loosen(core, in->items[one]);
}

static void note_revoked(struct steps *core, const struct step *step, const struct held *held)
{
	GROW(core->revokes, core->revoke_room, core->revoke_count + 1);
	core->revokes[core->revoke_count++] = slot_of(core, step, held);
}

static void advance(struct steps *core, int64_t now)
{
	settle(core);
	core->roster.now = now;
	for (int at = 0; at < AHEAD; at++) {
		struct step *step = &core->steps[at];
		if (step->number < 0 || (step->number + 1) * core->step_ns > now)
			continue;
		step->number = -1;
	}
}

/* -- planning ------------------------------------------------------------------------------------------------------------- */

static inline void choose(struct steps *core, struct step *step, struct place place)
{
	take(core, step, place.flow, 1);
	core->owners[last_link(core, place.flow)] = place.flow;
	core->senders[place.node].chosen = place.flow;
}

static inline uint32_t owner_of(const struct steps *core, uint32_t at)
{
	return core->owners[last_link(core, at)];
}

/* Gives a flow the destination of another one, if that one's sender can send elsewhere; it is `stuck` if it cannot. */
static void exchange(struct steps *core, struct step *step, struct place place)
{
	uint32_t owner = owner_of(core, place.flow), tries = TRIES;
	if (owner == NONE || core->flows[owner].exchanged)
		return;
	uint32_t node = core->flows[owner].node;
	struct sender *sender = &core->senders[node];
	if (sender->chosen != owner || sender->stuck)
		return;
	take(core, step, owner, -1);
	if (may(core, step, place.flow)) {
		const struct waiting *here = &core->waiting[node];
		take(core, step, place.flow, 1);
		for (uint32_t one = here->out_count; one-- && tries--;) {
			const struct waiter *other = &here->out[one];
			if (!step->left[other->last] || !core->flows[other->flow].awake || !may(core, step, other->flow))
				continue;
			take(core, step, place.flow, -1);
			core->flows[owner].exchanged = true;
			choose(core, step, place);
			choose(core, step, (struct place){.flow = other->flow, .node = node});
			add(&core->picked, place.node);
			return;
		}
		sender->stuck = true;
		take(core, step, place.flow, -1);
	}
	take(core, step, owner, 1);
}

/* Goes through the next places of the queue, of which those before `*kept` stay: has those leave that are wanted no more, and takes
 * those out whose senders are idle and whose gates are not full. Returns how many these are. */
static uint32_t sift(struct steps *core, const int64_t *left, uint32_t from, uint32_t to, uint32_t *kept,
		     struct place *found)
{
	struct place *places = core->queue.items;
	uint32_t count = 0, stay = *kept;
	for (uint32_t one = from; one < to; one++) {
		struct place place = places[one];
		struct sender *sender = &core->senders[place.node];
		if (sender->stale == place.flow) {
			sender->stale = NONE;
			continue;
		}
		if (sender->unwanted && !is_wanted(core, place.flow)) {
			leave(core, place.flow);
			continue;
		}
		places[stay++] = found[count] = place;
		count += (sender->chosen == NONE) & (left[place.gate] > 0); /* no branch: it would be predicted wrong */
	}
	*kept = stay;
	for (uint32_t one = 0; one < count; one++)
		__builtin_prefetch(&core->flows[found[one].flow]);
	return count;
}

/* Chooses flows in the order of the queue, and notes those that have room on the nearer half of their paths alone. */
static void choose_in_order(struct steps *core, struct step *step)
{
	struct place found[BLOCK + 1];
	uint32_t count = core->queue.count, kept = 0;
	GROW(core->idle.items, core->idle.room, count);
	GROW(core->picked.items, core->picked.room, count);
	for (uint32_t from = 0; from < count; from += BLOCK) {
		uint32_t to = from + BLOCK < count ? from + BLOCK : count, idle = sift(core, step->left, from, to, &kept, found);
		for (uint32_t one = 0; one < idle; one++) {
			if (core->senders[found[one].node].chosen != NONE)
				continue;
			uint32_t count = core->flows[found[one].flow].count, with_room = reach(core, step, found[one].flow);
			if (with_room == count && in_time(core, step, found[one].flow)) {
				choose(core, step, found[one]);
				core->picked.items[core->picked.count++] = found[one].node;
			} else if (2 * with_room >= count) {
				core->idle.items[core->idle.count++] = found[one];
			}
		}
	}
	core->queue.count = kept;
}

/* Exchanges where senders are idle still. What is asked of an owner is fetched in time. */
static void exchange_idle(struct steps *core, struct step *step)
{
	struct place *idle = core->idle.items;
	uint32_t count = 0;
	for (uint32_t one = 0; one < core->idle.count; one++) {
		if (core->senders[idle[one].node].chosen != NONE)
			continue;
		idle[count++] = idle[one];
		uint32_t owner = owner_of(core, idle[one].flow);
		if (owner != NONE)
			__builtin_prefetch(&core->flows[owner]);
	}
	for (uint32_t one = 0; one < count; one++) {
		uint32_t owner = one + SOON / 2 < count ? owner_of(core, idle[one + SOON / 2].flow) : NONE;
		if (owner != NONE)
			__builtin_prefetch(core->waiting[core->flows[owner].node].out);
		if (core->senders[idle[one].node].chosen == NONE)
			exchange(core, step, idle[one]);
	}
}

static inline void prefetch_grant(const struct steps *core, const struct step *step, uint32_t node)
{
	__builtin_prefetch(&core->flows[core->senders[node].chosen]);
	__builtin_prefetch(&step->held[node], 1);
}

static void match(struct steps *core, int64_t number)
{
	struct step *step = &core->steps[number % AHEAD];
	step->number = number;
	empty(core, step);
	wake(core);
	GROW(core->owners, core->owner_room, core->roster.link_count);
	if (core->roster.link_count)
		memset(core->owners, 0xff, core->roster.link_count * sizeof(*core->owners));
	core->picked.count = core->idle.count = 0;
	choose_in_order(core, step);
	exchange_idle(core, step);
	const uint32_t *picked = core->picked.items;
	for (uint32_t one = 0; one < core->picked.count; one++) {
		struct sender *sender = &core->senders[picked[one]];
		if (one + SOON < core->picked.count)
			prefetch_grant(core, step, picked[one + SOON]);
		struct flow *flow = &core->flows[sender->chosen];
		flow->exchanged = false;
		flow->credit -= 1;
		grant(core, step, sender->chosen);
		if (flow->credit < 1)
			served(core, sender->chosen);
		sender->chosen = NONE;
		sender->stuck = false;
	}
}

void steps_plan(struct steps *core, int64_t now, int64_t horizon, struct counts *counts)
{
	core->last_number = counts->last_number;
	core->lead = horizon - now;
	core->grant_count = 0;
	advance(core, now);
	for (uint32_t one = 0; one < core->loose.count; one++) {
		uint32_t at = core->loose.items[one];
		core->flows[at].loose = false;
		EACH_STEP(core, step)
			if (may(core, step, at)) {
				take(core, step, at, 1);
				grant(core, step, at);
			}
	}
	core->loose.count = 0;
	int64_t running = first_step(core), last = horizon / core->step_ns;
	if (last > running + AHEAD - 1)
		last = running + AHEAD - 1;
	for (int64_t number = core->next > running ? core->next : running; number <= last; number++)
		match(core, number);
	if (core->next <= last)
		core->next = last + 1;
	counts->last_number = core->last_number;
	counts->grants = core->grant_count;
	counts->revokes = core->revoke_count;
	core->revoke_count = 0;
}

const struct slot *steps_grants(const struct steps *core)
{
	return core->grants;
}

const struct slot *steps_revokes(const struct steps *core)
{
	return core->revokes;
}

/* The start of the first step that is not planned, while anything waits; later, if it may not be planned so far ahead.
 * -1: nothing waits. */
int64_t steps_next_event(struct steps *core)
{
	settle(core);
	if (!core->awake_count && !core->crowded.count)
		return -1;
	int64_t start = core->next * core->step_ns, soonest = (core->next - AHEAD + 1) * core->step_ns + core->lead;
	return start > soonest ? start : soonest;
}

#include "steps_fabric.h"

/* -- from the beginning to the end ---------------------------------------------------------------------------------------- */

struct steps *steps_new(int64_t step_ns, int64_t headroom_ppm, int64_t burst_bytes, int64_t packet_bytes)
{
	struct steps *core = calloc(1, sizeof(*core));
	if (!core)
		abort();
	roster_begin(&core->roster);
	core->step_ns = step_ns;
	core->headroom_ppm = headroom_ppm;
	core->burst_bytes = burst_bytes;
	core->packet_bytes = packet_bytes;
	core->least_weight = 1;
	for (int at = 0; at < AHEAD; at++)
		core->steps[at].number = -1;
	return core;
}

void steps_free(struct steps *core)
{
	roster_end(&core->roster);
	weights_free(&core->weights);
	map_free(&core->route_of);
	free_waiting(core);
	for (uint32_t link = 0; link < core->park_room; link++)
		free(core->parks[link].flows);
	for (int at = 0; at < AHEAD; at++) {
		free(core->steps[at].left);
		free(core->steps[at].held);
	}
	void *arrays[] = {
		core->flows, core->sends, core->wanted, core->room, core->crowds, core->parks, core->carries,
		core->queue.items, core->crowded.items,
		core->loose.items, core->fresh.items, core->senders, core->owners, core->picked.items, core->idle.items, core->grants,
		core->revokes, core->spots, core->routes, core->path,
	};
	for (size_t at = 0; at < sizeof(arrays) / sizeof(*arrays); at++)
		free(arrays[at]);
	free(core);
}
