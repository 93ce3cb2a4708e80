/* The steps policy as a library: the plans of controller/policies/steps/, which is the reference and says why. */
#define _GNU_SOURCE
#include "events.h"

/* Matches the steps that a plan is to reach and no plan has reached, as many as it may. */
static void match_next(struct steps *core, int64_t horizon)
{
	int64_t running = first_step(core), first = core->next > running ? core->next : running, last = horizon / core->step_ns;
	if (last > running + AHEAD - 1)
		last = running + AHEAD - 1;
	if (first <= last) {
		uint32_t count = (uint32_t)(last + 1 - first), likely = core->filled < core->awake_count ? core->filled : core->awake_count;
		uint32_t few = core->at_once / (likely ? likely : 1);
		if (count > few)
			count = few ? few : 1;
		match(core, first, count);
		core->next = first + count;
	}
}

void steps_plan(struct steps *core, int64_t now, int64_t horizon, struct counts *counts)
{
	core->last_number = counts->last_number;
	core->lead = horizon - now;
	core->grant_count = core->chosen_count = core->picked.count = 0;
	advance(core, now);
	if (!core->rewiring) {
		forget_idle(core);
		refill(core);
		match_next(core, horizon);
	}
	grant_chosen(core);
	count_spent(core);
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

#include "fabric.h"

/* -- from the beginning to the end ---------------------------------------------------------------------------------------- */

struct steps *steps_new(int64_t step_ns, int64_t headroom_ppm, int64_t burst_bytes, int64_t packet_bytes, uint32_t at_once,
			bool counted)
{
	struct steps *core = calloc(1, sizeof(*core));
	if (!core)
		abort();
	roster_begin(&core->roster);
	core->step_ns = step_ns;
	core->headroom_ppm = headroom_ppm;
	core->burst_bytes = burst_bytes;
	core->packet_bytes = packet_bytes;
	core->at_once = core->filled = at_once;
	core->counted = counted;
	core->turn = counted ? TURN : 1;
	core->least_weight = 1;
	for (int at = 0; at < AHEAD; at++)
		core->numbers[at] = -1;
	return core;
}

void steps_free(struct steps *core)
{
	roster_end(&core->roster);
	weights_free(&core->weights);
	map_free(&core->route_of);
	for (uint32_t link = 0; link < core->park_room; link++)
		array_free(core->parks[link].flows);
	void *arrays[] = {
		core->flows, core->sends, core->needed, core->spots, core->routes, core->path, core->open, core->touched, core->single,
		core->room, core->rows, core->held,
		core->left, core->crowds, core->parks, core->carries, core->ids, core->busy, core->queue.items, core->crowded.items,
		core->loose.items, core->fresh.items, core->turns.items, core->idle.items, core->spent.items, core->picked.items,
		core->grants, core->revokes,
	};
	for (size_t at = 0; at < sizeof(arrays) / sizeof(*arrays); at++)
		array_free(arrays[at]);
	free(core);
}
