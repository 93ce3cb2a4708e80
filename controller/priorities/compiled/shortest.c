/* Shortest paths over a grid of states, all numbers of steps at once: see controller/priorities/threshold_solver.py.
 *
 * A state is row * columns + column; a step leads from s to any t that is not below it in either coordinate, t = s included.
 * Its length is the scalar product of what depends on s and what depends on t, of TERMS terms each.
 *
 * States are taken in order, so that all that lead to one are final before it; then a length serves every number of steps.
 */

#include <stdint.h>

#define TERMS 10
#define STEPS 8 /* numbers of steps that are computed together */
#define CHUNK 64

#define INLINE static inline __attribute__((always_inline))

/* Lowers best, by number of steps, to the least length over `count` sources and one more step. */
INLINE void from_chunk(double *best, const double *reach, const double *source, int64_t states, const double *target,
		       int64_t count)
{
	double length[CHUNK];

	for (int64_t at = 0; at < count; at++) {
		double sum = source[at] * target[0];

		for (int term = 1; term < TERMS; term++)
			sum += source[term * states + at] * target[term];
		length[at] = sum;
	}
	for (int64_t at = 0; at < count; at++)
		for (int step = 0; step < STEPS; step++) {
			double found = reach[at * STEPS + step] + length[at];

			best[step] = found < best[step] ? found : best[step];
		}
}

INLINE void paths(int64_t rows, int64_t columns, const double *source, const double *target, double *reach)
{
	int64_t states = rows * columns;

	for (int64_t to = 0; to < states; to++) {
		const double *terms = target + to * TERMS;
		double *mine = reach + to * STEPS, best[STEPS], self = 0;
		int64_t row = to / columns, column = to % columns;

		for (int step = 0; step < STEPS; step++)
			best[step] = __builtin_inf();
		for (int64_t from = 0; from <= row; from++) {
			int64_t end = from * columns + column + (from < row);

			for (int64_t at = from * columns; at < end; at += CHUNK)
				from_chunk(best, reach + at * STEPS, source + at, states, terms, end - at < CHUNK ? end - at : CHUNK);
		}
		for (int term = 0; term < TERMS; term++)
			self += source[term * states + to] * terms[term];
		for (int step = 1; step < STEPS; step++) {
			double stay = mine[step - 1] + self;

			mine[step] = stay < best[step - 1] ? stay : best[step - 1];
		}
	}
}

#ifdef __x86_64__
__attribute__((target("avx2,fma"))) static void wide(int64_t rows, int64_t columns, const double *source, const double *target,
						     double *reach)
{
	paths(rows, columns, source, target, reach);
}
#endif

/* source: TERMS rows of `states`; target: by state TERMS terms; reach: by state STEPS lengths, of which only the first (of one
 * step) is set for every state at the beginning; the one at n is then the length of the shortest path of n + 1 steps. */
void shortest_paths(int64_t rows, int64_t columns, const double *source, const double *target, double *reach)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
		wide(rows, columns, source, target, reach);
		return;
	}
#endif
	paths(rows, columns, source, target, reach);
}
