/* The timeslice policy, compiled: what controller/policies/timeslice.py does, which is the reference and says why.
 *
 * Both give the same plans for the same events. Nodes, pairs, resources and bookings are elements of arrays that only grow;
 * lists go through their indexes. Once the arrays are as large as a fabric needs, nothing is allocated. Times are ns.
 */
#define _GNU_SOURCE
#include "events.h"
#include "fabric.h"
#include "forwarding.h"
#include "selection.h"
#include "writing.h"

/* Plans; what came of it is there until the next call to any function. `counts` has the last slot number, before and after. */
void core_plan(struct core *core, int64_t now, int64_t horizon, struct counts *counts)
{
	core->last_number = counts->last_number;
	core->granted_count = 0;
	core->tries = ATTEMPTS_AT_ONCE;
	core->left = core->at_once;
	advance(core, now);
	if (!core->rewiring) {
		int64_t instant = now;
		bring_forward(core);
		if (!core->freed_count && (core->attempts.count || core->oldest_done < core->oldest_count))
			instant = most(now, core->instant);
		do {
			foresee(core, instant);
			select_pairs(core, instant);
			instant = next_end(core);
		} while (!stopped(core) && instant >= 0 && instant <= horizon);
	}
	write_grants(core);
	*counts = (struct counts){core->last_number, core->granted_count, core->revoke_count};
	core->revoke_count = 0;
}

/* What the last plan has left is due at once. */
int64_t core_next_event(struct core *core)
{
	return (core->resources[NEW].freed || stopped(core)) && !core->rewiring ? core->now : next_end(core);
}

const struct slot *core_grants(const struct core *core)
{
	return core->grants;
}

const struct slot *core_revokes(const struct core *core)
{
	return core->revokes;
}

/* -- from the beginning to the end ---------------------------------------------------------------------------------------- */

struct terms {
	int64_t slice, minimum_active, headroom_ppm, minimum_ppm, burst_bytes, packet_bytes;
	uint32_t patience, at_once;
};

struct core *core_new(const struct terms *terms)
{
	struct core *core = calloc(1, sizeof(*core));
	if (!core)
		abort();
	map_begin(&core->node_of);
	map_begin(&core->pair_of);
	core->slice = terms->slice;
	core->minimum_active = terms->minimum_active;
	core->headroom_ppm = terms->headroom_ppm;
	core->minimum_ppm = terms->minimum_ppm;
	core->burst_bytes = terms->burst_bytes;
	core->packet_bytes = terms->packet_bytes;
	core->patience = terms->patience;
	core->left = core->at_once = terms->at_once;
	core->round = 1;
	core->tries = ATTEMPTS_AT_ONCE;
	core->served.pair = NONE;
	core->free_pairs = core->free_lines = core->free_bookings = core->first_slot = core->last_slot = NONE;
	core->first_heard = core->last_heard = NONE;
	new_resource(core, INT64_MAX); /* NEW */
	PROVIDE(core->nodes, core->node_room, MANY);
	PROVIDE(core->pairs, core->pair_room, MANY);
	PROVIDE(core->grants, core->grant_room, MANY);
	return core;
}

void core_free(struct core *core)
{
	for (uint32_t at = 0; at < core->resource_room; at++) {
		array_free(core->resources[at].spans);
		array_free(core->resources[at].points);
	}
	for (uint32_t at = 0; at < core->line_room; at++)
		array_free(core->lines[at].heap.items);
	map_free(&core->node_of);
	map_free(&core->pair_of);
	weights_free(&core->weights);
	void *arrays[] = {
		core->nodes, core->pairs, core->resources, core->lines, core->links, core->unplaced,
		core->bookings, core->ends.items, core->running.items, core->due, core->freed, core->oldest,
		core->attempts.items, core->ahead.items, core->granted, core->grants, core->revokes,
		core->sorted, core->fresh, core->gone,
	};
	for (size_t at = 0; at < sizeof(arrays) / sizeof(*arrays); at++)
		array_free(arrays[at]);
	free(core->regulated);
	free(core);
}
