/* The steps policy as a library: the plans of controller/policies/steps/, which is the reference and says why. */
#include "grid.h"

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
	for (uint32_t other = core->waiting[node].out; other != NONE && tries--; other = core->waits[other].out_after)
		loosen(core, other);
	tries = TRIES;
	for (uint32_t other = core->waiting[to].in; other != NONE && tries--; other = core->waits[other].in_after)
		loosen(core, other);
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

/* Gives a flow the destination of another one, if that one's sender can send elsewhere. */
static void exchange(struct steps *core, struct step *step, uint32_t at)
{
	const uint32_t *links = path_of(core, at);
	uint32_t last = links[core->flows[at].count - 1], owner = core->owners[last];
	if (owner == NONE || core->flows[owner].exchanged)
		return;
	uint32_t source = path_of(core, owner)[0], tries = TRIES;
	if (core->chosen[source] != owner)
		return;
	take(core, step, owner, -1);
	if (may(core, step, at)) {
		take(core, step, at, 1);
		uint32_t other = core->waiting[core->flows[owner].node].out;
		for (; other != NONE && tries--; other = core->waits[other].out_after) {
			if (!core->flows[other].awake || !may(core, step, other))
				continue;
			take(core, step, other, 1);
			core->flows[owner].exchanged = true;
			core->chosen[links[0]] = core->owners[last] = at;
			core->chosen[source] = core->owners[path_of(core, other)[core->flows[other].count - 1]] = other;
			return;
		}
		take(core, step, at, -1);
	}
	take(core, step, owner, 1);
}

static void match(struct steps *core, int64_t number)
{
	struct step *step = &core->steps[number % AHEAD];
	struct places *queue = &core->queue;
	step->number = number;
	empty(core, step);
	wake(core);
	uint32_t links = core->roster.link_count, kept = 0;
	GROW(core->chosen, core->chosen_room, links);
	GROW(core->owners, core->owner_room, links);
	if (links) {
		memset(core->chosen, 0xff, links * sizeof(*core->chosen));
		memset(core->owners, 0xff, links * sizeof(*core->owners));
	}
	for (uint32_t one = 0; one < queue->count; one++) {
		struct place place = queue->items[one];
		if (one + SOON < queue->count && step->left[queue->items[one + SOON].source])
			__builtin_prefetch(&core->flows[queue->items[one + SOON].flow]);
		if (!step->left[place.source] || !may(core, step, place.flow))
			continue;
		take(core, step, place.flow, 1);
		core->chosen[place.source] = place.flow;
		core->owners[path_of(core, place.flow)[core->flows[place.flow].count - 1]] = place.flow;
	}
	for (uint32_t one = 0; one < queue->count; one++)
		if (step->left[queue->items[one].source] && is_wanted(core, queue->items[one].flow))
			exchange(core, step, queue->items[one].flow);
	core->served.count = 0;
	for (uint32_t one = 0; one < queue->count; one++) {
		struct place place = queue->items[one], soon = queue->items[one + SOON < queue->count ? one + SOON : one];
		if (core->chosen[soon.source] == soon.flow)
			__builtin_prefetch(&core->flows[soon.flow]);
		struct flow *flow = &core->flows[place.flow];
		if (!is_wanted(core, place.flow)) {
			leave(core, place.flow);
			continue;
		}
		if (core->chosen[place.source] == place.flow) {
			flow->exchanged = false;
			flow->credit -= 1;
			grant(core, step, place.flow);
			if (flow->credit < 1) {
				GROW(core->served.items, core->served.room, core->served.count + 1);
				core->served.items[core->served.count++] = place;
				continue;
			}
		}
		queue->items[kept++] = place;
	}
	queue->count = kept;
	for (uint32_t one = 0; one < core->served.count; one++)
		again(core, core->served.items[one]);
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
	if (!core->queue.count && !core->crowded.count)
		return -1;
	int64_t start = core->next * core->step_ns, soonest = (core->next - AHEAD + 1) * core->step_ns + core->lead;
	return start > soonest ? start : soonest;
}

#include "steps_events.h"
