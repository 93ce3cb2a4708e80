/* How much time has passed, where several processors send the packets of one flow. */
#ifndef BATON_ELAPSED_H
#define BATON_ELAPSED_H

/* From `then` to `now`; 0 where another processor has written a `then` that is later than this one's reading of the clock. */
static __always_inline __u64 elapsed(__u64 now, __u64 then)
{
	__s64 passed = now - then;

	return passed > 0 ? passed : 0;
}

#endif
