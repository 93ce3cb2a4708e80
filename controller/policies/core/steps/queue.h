/* The order in which flows are granted steps; see controller/policies/steps/queue.py. A part of steps.c. */
#pragma once
#include "place.h"

static inline bool crowded(const struct steps *core, uint32_t link, int64_t need)
{
	return core->crowds[link].awake >= ROUNDS * core->room[link].all + SPARE * need;
}

static inline void count_awake(struct steps *core, uint32_t at, int sign)
{
	const uint32_t *links = path_of(core, at);
	uint32_t count = core->flows[at].count;
	core->crowds[links[0]].awake += sign;
	for (uint32_t one = 1; one < count; one++)
		core->crowds[links[one]].awake += sign * core->flows[at].need;
	core->awake_count += (uint32_t)sign;
}

static inline void stand(struct steps *core, const struct place *place)
{
	GROW(core->queue.items, core->queue.room, core->queue.count + 1);
	core->queue.items[core->queue.count++] = *place;
}

static inline struct place place_of(const struct steps *core, uint32_t at)
{
	const uint32_t *links = path_of(core, at);
	uint32_t last = core->flows[at].count - 1u;
	return (struct place){at, links[0], links[last ? 1 : 0], links[last > 1 ? 2 : last], links[last]};
}

static inline void awake(struct steps *core, uint32_t at)
{
	struct place place = place_of(core, at);
	core->flows[at].awake = true;
	stand(core, &place);
	count_awake(core, at, 1);
}

static inline void leave(struct steps *core, uint32_t at)
{
	core->flows[at].queued = core->flows[at].awake = false;
	count_awake(core, at, -1);
}

/* A flow that is wanted no more is not queued any longer. */
static inline void retire(struct steps *core, uint32_t at)
{
	core->flows[at].queued = false;
	core->flows[at].credit = 0;
	add(&core->idle, at);
}

static inline void park_at(struct steps *core, uint32_t at, uint32_t link)
{
	struct park *park = &core->parks[link];
	uint32_t count = core->crowds[link].parked++;
	if (!count) {
		park->first = 0;
		add(&core->crowded, link);
	} else if (park->first + count == park->room && park->first > park->room / 2) {
		memmove(park->flows, park->flows + park->first, count * sizeof(*park->flows));
		park->first = 0;
	}
	GROW(park->flows, park->room, park->first + count + 1);
	park->flows[park->first + count] = at;
}

static inline void renew(struct steps *core, uint32_t at)
{
	struct flow *flow = &core->flows[at];
	double weight = 1;
	if (core->weights.of.count)
		weight = weight_of(&core->weights, core->ids[flow->node], core->ids[flow->to]) / core->least_weight;
	flow->credit = (flow->credit < 1 ? flow->credit : 1) + core->turn * weight;
}

/* Queues a flow that has its turn, or what is left of it. */
static inline void enter_again(struct steps *core, uint32_t at)
{
	const uint32_t *links = path_of(core, at);
	const struct flow *flow = &core->flows[at];
	core->flows[at].queued = true;
	for (uint32_t one = 0; one < flow->count; one++)
		if (core->crowds[links[one]].parked || crowded(core, links[one], one ? flow->need : 1)) {
			park_at(core, at, links[one]);
			return;
		}
	awake(core, at);
}

static inline void enter(struct steps *core, uint32_t at)
{
	renew(core, at);
	enter_again(core, at);
}

/* A link of a flow's path where others are parked; NONE: there is none. */
static inline uint32_t parked_link(const struct steps *core, uint32_t at)
{
	if (!core->crowded.count)
		return NONE;
	const uint32_t *links = path_of(core, at);
	for (uint32_t one = 0; one < core->flows[at].count; one++)
		if (core->crowds[links[one]].parked)
			return links[one];
	return NONE;
}

static inline void prefetch_parked(const struct steps *core, uint32_t link)
{
	const struct park *park = &core->parks[link];
	for (uint32_t one = 0; one < SOON && one < core->crowds[link].parked; one++)
		__builtin_prefetch(&core->flows[park->flows[park->first + one]]);
}

/* Rouses flows that are parked at a link if there is room again. */
static inline void wake(struct steps *core, uint32_t link)
{
	struct park *park = &core->parks[link];
	struct crowd *crowd = &core->crowds[link];
	for (; crowd->parked; crowd->parked--, park->first++) {
		uint32_t at = park->flows[park->first];
		if (!is_wanted(core, at)) {
			retire(core, at);
			continue;
		}
		if (crowded(core, link, path_of(core, at)[0] == link ? 1 : core->flows[at].need))
			break;
		awake(core, at);
	}
}

/* Forgets links where no flows are parked any more. */
static void tidy_crowded(struct steps *core)
{
	uint32_t kept = 0;
	for (uint32_t one = 0; one < core->crowded.count; one++)
		if (core->crowds[core->crowded.items[one]].parked)
			core->crowded.items[kept++] = core->crowded.items[one];
	core->crowded.count = kept;
}

static void wake_all(struct steps *core)
{
	for (uint32_t one = 0; one < core->crowded.count; one++) {
		if (one + 1 < core->crowded.count)
			prefetch_parked(core, core->crowded.items[one + 1]);
		wake(core, core->crowded.items[one]);
	}
	tidy_crowded(core);
}

/* A flow's turn is over. */
static inline void served(struct steps *core, const struct place *place)
{
	uint32_t at = place->flow, link = parked_link(core, at);
	renew(core, at);
	if (link == NONE) {
		stand(core, place);
		return;
	}
	leave(core, at);
	core->flows[at].queued = true;
	park_at(core, at, link);
	wake(core, link);
	if (!core->crowds[link].parked)
		tidy_crowded(core);
}

/* Has a flow tried in the steps that are planned. No step is before the next plan that is not now. */
static inline void loosen(struct steps *core, uint32_t at)
{
	if (!core->planned || core->flows[at].loose)
		return;
	core->flows[at].loose = true;
	add(&core->loose, at);
}

/* Queues the flows that may be wanted now. */
static void settle(struct steps *core)
{
	if (core->rewiring)
		return;
	for (uint32_t one = 0; one < core->fresh.count; one++) {
		uint32_t at = core->fresh.items[one];
		if (one + SOON < core->fresh.count)
			__builtin_prefetch(&core->flows[core->fresh.items[one + SOON]], 1);
		if (is_wanted(core, at) && !core->flows[at].queued) {
			enter(core, at);
			loosen(core, at);
		}
	}
	core->fresh.count = 0;
}

static void purge(const struct steps *core, struct flows *flows)
{
	uint32_t kept = 0;
	for (uint32_t one = 0; one < flows->count; one++)
		if (core->roster.couples[flows->items[one]].known)
			flows->items[kept++] = flows->items[one];
	flows->count = kept;
}

static const struct place LEFT = {NONE, NOWHERE, NOWHERE, NOWHERE, NOWHERE};

/* Takes the places out that were left. */
static void close_ranks(struct steps *core)
{
	struct place *places = core->queue.items;
	uint32_t kept = 0;
	for (uint32_t one = 0; one < core->queue.count; one++) {
		places[kept] = places[one];
		kept += places[one].flow != NONE;
	}
	core->queue.count = kept;
	core->gone = 0;
}

/* Takes the flows that are not known any more, and left it already, out of the queue. */
static void purge_queue(struct steps *core)
{
	struct places *queue = &core->queue;
	for (uint32_t one = 0; one < queue->count; one++)
		if (queue->items[one].flow != NONE && !core->roster.couples[queue->items[one].flow].known)
			queue->items[one] = LEFT;
	close_ranks(core);
	uint32_t kept = 0;
	for (uint32_t one = 0; one < core->crowded.count; one++) {
		uint32_t link = core->crowded.items[one], stay = 0;
		uint32_t *flows = core->parks[link].flows + core->parks[link].first;
		for (uint32_t other = 0; other < core->crowds[link].parked; other++)
			if (core->roster.couples[flows[other]].known)
				flows[stay++] = flows[other];
		core->crowds[link].parked = stay;
		if (stay)
			core->crowded.items[kept++] = link;
	}
	core->crowded.count = kept;
}
