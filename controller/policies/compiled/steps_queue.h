/* The order in which flows are granted steps; see controller/policies/steps/queue.py. A part of steps.c. */
#pragma once
#include "steps_waiting.h"

static inline bool crowded(const struct steps *core, uint32_t link, int64_t need)
{
	return core->crowds[link].awake >= ROUNDS * core->room[link] + SPARE * need;
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

static inline void stand(struct steps *core, uint32_t at)
{
	GROW(core->queue.items, core->queue.room, core->queue.count + 1);
	const uint32_t *links = path_of(core, at);
	core->queue.items[core->queue.count++] = (struct place){at, core->flows[at].node, links[core->flows[at].count > 2]};
}

static inline void awake(struct steps *core, uint32_t at)
{
	core->flows[at].awake = true;
	stand(core, at);
	count_awake(core, at, 1);
}

static inline void leave(struct steps *core, uint32_t at)
{
	core->flows[at].queued = core->flows[at].awake = false;
	core->senders[core->flows[at].node].unwanted -= !is_wanted(core, at);
	count_awake(core, at, -1);
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
	double turns = core->weights.of.count ? weight_of(&core->weights, flow->id, flow->destination) / core->least_weight : 1;
	flow->credit = (flow->credit < 1 ? flow->credit : 1) + turns;
}

static inline void enter(struct steps *core, uint32_t at)
{
	const uint32_t *links = path_of(core, at);
	const struct flow *flow = &core->flows[at];
	core->flows[at].queued = true;
	renew(core, at);
	for (uint32_t one = 0; one < flow->count; one++)
		if (core->crowds[links[one]].parked || crowded(core, links[one], one ? flow->need : 1)) {
			park_at(core, at, links[one]);
			return;
		}
	awake(core, at);
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

/* A flow's turn is over. Its place before stays, stale. */
static inline void served(struct steps *core, uint32_t at)
{
	uint32_t link = parked_link(core, at);
	renew(core, at);
	core->senders[core->flows[at].node].stale = at;
	if (link == NONE) {
		stand(core, at);
		return;
	}
	leave(core, at);
	core->flows[at].queued = true;
	park_at(core, at, link);
}

static inline void prefetch_parked(const struct steps *core, uint32_t link)
{
	const struct park *park = &core->parks[link];
	for (uint32_t one = 0; one < SOON && one < core->crowds[link].parked; one++)
		__builtin_prefetch(&core->flows[park->flows[park->first + one]]);
}

static void wake(struct steps *core)
{
	uint32_t kept = 0;
	for (uint32_t one = 0; one < core->crowded.count; one++) {
		uint32_t link = core->crowded.items[one];
		struct park *park = &core->parks[link];
		struct crowd *crowd = &core->crowds[link];
		if (one + 1 < core->crowded.count)
			prefetch_parked(core, core->crowded.items[one + 1]);
		for (; crowd->parked; crowd->parked--, park->first++) {
			uint32_t at = park->flows[park->first];
			if (!is_wanted(core, at)) {
				core->flows[at].queued = false;
				continue;
			}
			if (crowded(core, link, path_of(core, at)[0] == link ? 1 : core->flows[at].need))
				break;
			awake(core, at);
		}
		if (crowd->parked)
			core->crowded.items[kept++] = link;
	}
	core->crowded.count = kept;
}

static inline void loosen(struct steps *core, uint32_t at)
{
	if (core->flows[at].loose)
		return;
	core->flows[at].loose = true;
	add(&core->loose, at);
}

/* Queues the flows that may be wanted now. */
static void settle(struct steps *core)
{
	for (uint32_t one = 0; one < core->fresh.count; one++) {
		uint32_t at = core->fresh.items[one];
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

/* Takes the flows that are not known any more, and left it already, out of the queue. */
static void purge_queue(struct steps *core)
{
	struct places *queue = &core->queue;
	uint32_t kept = 0;
	for (uint32_t one = 0; one < queue->count; one++) {
		struct place place = queue->items[one];
		struct sender *sender = &core->senders[place.node];
		if (sender->stale == place.flow)
			sender->stale = NONE;
		else if (core->roster.couples[place.flow].known)
			queue->items[kept++] = place;
	}
	queue->count = kept;
	kept = 0;
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
