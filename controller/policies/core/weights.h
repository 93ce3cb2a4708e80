/* Weights by (node, destination); see Weights in controller/policies/base.py. */
#pragma once
#include "arrays.h"

struct weights {
	struct map of;
	double *values;
	uint32_t count, room;
};

/* The weight of a pair, or of all pairs of a node (NONE stands for any). */
static void weigh(struct weights *weights, uint32_t node, uint32_t destination, double weight)
{
	uint64_t key = (uint64_t)node << 32 | destination;
	uint32_t at = map_get(&weights->of, key);
	if (at == NONE) {
		at = weights->count++;
		GROW(weights->values, weights->room, weights->count);
		map_set(&weights->of, key, at);
	}
	weights->values[at] = weight;
}

static double weight_of(const struct weights *weights, uint32_t node, uint32_t destination)
{
	if (!weights->of.count)
		return 1;
	const uint64_t keys[] = {
		(uint64_t)node << 32 | destination, (uint64_t)node << 32 | NONE, (uint64_t)NONE << 32 | destination, UINT64_MAX,
	};
	for (int at = 0; at < 4; at++) {
		uint32_t found = map_get(&weights->of, keys[at]);
		if (found != NONE)
			return weights->values[found];
	}
	return 1;
}

/* The least weight that a pair may have, which is 1 where none is less. */
static inline double least_weight(const struct weights *weights)
{
	double least = 1;
	for (uint32_t at = 0; at < weights->count; at++)
		if (weights->values[at] < least)
			least = weights->values[at];
	return least;
}

static void weights_free(struct weights *weights)
{
	map_free(&weights->of);
	array_free(weights->values);
}
