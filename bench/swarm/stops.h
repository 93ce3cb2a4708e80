/* The longest of some stretches of time in which something stood still. */
#ifndef BATON_SWARM_STOPS_H
#define BATON_SWARM_STOPS_H
#include <stdint.h>

#define MOST_STOPS 64

struct stop { int64_t from_ns, to_ns; };

struct stops {
    uint32_t count;
    struct stop of[MOST_STOPS]; /* in no order */
};

/* Keeps a stop if it is among the longest. */
static void note_stop(struct stops *stops, int64_t from_ns, int64_t to_ns) {
    uint32_t at = stops->count;
    if (at < MOST_STOPS) {
        stops->of[at] = (struct stop){from_ns, to_ns};
        stops->count++;
        return;
    }
    struct stop *shortest = stops->of;
    for (struct stop *one = stops->of; one < stops->of + MOST_STOPS; one++)
        if (one->to_ns - one->from_ns < shortest->to_ns - shortest->from_ns)
            shortest = one;
    if (to_ns - from_ns > shortest->to_ns - shortest->from_ns)
        *shortest = (struct stop){from_ns, to_ns};
}

#endif
