/* Long work of a core gives its lock up in between, for who waits for it. */
#pragma once
#include <stdint.h>

enum { WORK_AT_ONCE = 256 }; /* pairs, or what takes as long: 25 to 100 us from cold caches */

struct pauses {
	void (*lend)(void *lock); /* NULL: nobody else calls the core */
	void *lock;
	uint32_t done; /* since the last pause */
};

/* Counts what was done. Others may have called the core meanwhile, so its arrays may have moved. */
static inline void did(struct pauses *pauses, uint32_t count)
{
	pauses->done += count;
	if (pauses->done < WORK_AT_ONCE)
		return;
	pauses->done = 0;
	if (pauses->lend)
		pauses->lend(pauses->lock);
}
