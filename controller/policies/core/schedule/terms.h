/* How long a slot is and what it holds; see Terms in controller/policies/pairs.py. */
#pragma once
#include "ledger.h"

#define PPM 1000000
#define SECOND_NS 1000000000
#define BYTE ((wide)8 * SECOND_NS * PPM) /* one byte in the unit of a carry: bit/s x ns x millionths */
#define MOST_CREDIT ((wide)1 << 31)
#define HURRIED_ENOUGH (1ll << 62)

enum { VISITS = 8, FORGOTTEN_TURNS = 10, HURRIED_TURNS = 2, SHORTEST_PART = 32, SHORTEST_PACKETS = 4, MARGIN_PACKETS = 2, PACKET_SLICES = 8 };
enum { ATTEMPTS_AT_ONCE = 256, FORWARD_AT_ONCE = 64, PAIRS_AT_ONCE = 64 };

static int64_t shortest(const struct pair *pair)
{
	return least(pair->turn, most(pair->turn / SHORTEST_PART, SHORTEST_PACKETS * pair->packet_ns));
}

static void measure(const struct core *core, struct pair *pair)
{
	if (!pair->placed)
		return;
	wide packet = core->packet_bytes * BYTE, rate = (wide)pair->need * core->headroom_ppm;
	pair->packet_ns = (int64_t)(packet / rate);
	double weight = weight_of(&core->weights, core->nodes[pair->node].id, pair->destination);
	double turn = (double)core->slice * weight;
	int64_t longest = (int64_t)1 << 48; /* three days; then nothing below overflows */
	pair->turn = turn < (double)longest ? (int64_t)turn : longest;
	int64_t one_packet = least(PACKET_SLICES * core->slice, (int64_t)((packet + rate - 1) / rate));
	pair->turn = most(most(pair->turn, core->minimum_active), one_packet);
	pair->length = most(shortest(pair), least(pair->length ? pair->length : pair->turn, pair->turn));
}

/* The bytes of a slot, or its rate in *rate; the remainder of a credit is carried to the node's next. */
static int64_t amount_of(struct core *core, struct pair *pair, int64_t reserved, int64_t *rate)
{
	uint64_t packet = (uint64_t)(core->packet_bytes * BYTE);
	if (pair->amount_length != pair->length || pair->amount_reserved != reserved) {
		wide due = (wide)reserved * pair->length * core->headroom_ppm, burst;
		pair->amount_length = pair->length;
		pair->amount_reserved = reserved;
		pair->amount_rate = due < packet || due > MOST_CREDIT * BYTE;
		if (pair->burst > reserved) {
			bool huge = __builtin_mul_overflow(due, (wide)(pair->burst - reserved), &burst);
			pair->amount_rate |= huge || burst / pair->burst > core->burst_bytes * BYTE;
		}
		pair->amount_packets = (int64_t)(due / packet);
		pair->amount_rest = (uint64_t)(due % packet);
	}
	*rate = 0;
	if (pair->amount_rate) {
		*rate = most(1, (int64_t)((wide)reserved * core->headroom_ppm / PPM));
		return 0;
	}
	uint64_t *carry = &core->nodes[pair->node].carry;
	bool more = pair->amount_rest >= packet - *carry;
	*carry = more ? pair->amount_rest - (packet - *carry) : pair->amount_rest + *carry;
	return (pair->amount_packets + more) * core->packet_bytes;
}
