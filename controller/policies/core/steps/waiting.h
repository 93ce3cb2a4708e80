/* Who waits, and who of these is wanted. The roster lists the flows that wait, and no others: by node those there, and those for
 * it, the latest first. A part of steps.c. */
#pragma once
#include "grid.h"

static inline void update_wanted(struct steps *core, uint32_t at)
{
	const struct couple *pair = &core->roster.couples[at];
	core->flows[at].wanted = pair->known && pair->waiting && pair->regulated && core->flows[at].need > 0;
}

/* Counts a flow among those that wait, or no longer. */
static inline void count_waiting(struct steps *core, uint32_t at, bool waiting)
{
	struct couple *pair = &core->roster.couples[at];
	if (pair->waiting == waiting)
		return;
	pair->waiting = waiting;
	if (waiting)
		list_couple(&core->roster, at, core->flows[at].to);
	else
		unlist_couple(&core->roster, at, core->flows[at].to);
}

/* Has what is listed beside a flow fetched. */
static inline void prefetch_beside(const struct steps *core, uint32_t at)
{
	const struct couple *couples = core->roster.couples, *pair = &couples[at];
	const uint32_t beside[] = {pair->from_before, pair->from_after, pair->to_before, pair->to_after};
	for (uint32_t one = 0; one < sizeof(beside) / sizeof(*beside); one++)
		if (beside[one] != NONE)
			__builtin_prefetch(&couples[beside[one]], 1);
}
