/* A flow mark, as a socket carries it (SO_MARK): the flow's size in KB in the low bits and its deadline in ms above, or
 * MARK_COFLOW in the deadline's place and the coflow's id in the low bits. protocol/flowmark.py has the same layout. */
#ifndef BATON_FLOWMARK_H
#define BATON_FLOWMARK_H

#define MARK_SIZE_BITS 20
#define MARK_KB_BITS 10
#define MARK_COFLOW 0xfff
#define MARK_MAX_DEADLINE_MS 4094

/* The size in KB, or the coflow's id. */
static __always_inline __u32 mark_low(__u32 mark)
{
	return mark & ((1U << MARK_SIZE_BITS) - 1);
}

static __always_inline __u64 mark_size(__u32 mark)
{
	return (__u64)mark_low(mark) << MARK_KB_BITS;
}

/* The deadline in ms, 0 for none, or MARK_COFLOW. */
static __always_inline __u32 mark_high(__u32 mark)
{
	return mark >> MARK_SIZE_BITS;
}

static __always_inline int mark_has_deadline(__u32 mark)
{
	__u32 high = mark_high(mark);

	return high && high != MARK_COFLOW;
}

#endif
