/* What a swarm keeps of each host, and a heap that knows which host is due next. */
#ifndef BATON_SWARM_HOSTS_H
#define BATON_SWARM_HOSTS_H
#include "frames.h"
#include "links.h"
#include "replay_window.h"

#define NEVER INT64_MAX
#define MS 1000000LL
#define SECOND 1000000000LL

enum { NAME = 16, PENDING = 16, PIECES = 32, PAGES = 256, BATCH = 64, OUT = 256 };
enum state { OFF, LISTENING, REGISTERING, MEMBER, FAIL_OPEN };

struct slot { /* times by the leader's clock; when its directive came */
    uint64_t number, rate_bps;
    int64_t start_ns, end_ns, received_ns;
    uint32_t bytes;
};

struct piece { /* bytes that leave evenly, by the machine's clock; by_rate: as many as wait, up to the rate */
    int64_t from_ns, until_ns;
    double rate;
    uint8_t by_rate;
};

/* One destination of a host. What each step of the links' model looks at comes first, in one line of the caches, and the slots
 * that wait are elsewhere: with 19,200 destinations most of a step went into fetching them. */
struct target {
    uint32_t host, flow;
    uint8_t regulated, named, is_open, was_empty, pending_count, piece_count;
    double backlog, unreported;
    struct piece piece[PIECES];
    double unspent;
    uint64_t newest;
    int64_t check_ns;
    struct slot open, *pending; /* PENDING of them */
} __attribute__((aligned(64)));

struct paged { /* a state that comes in pages */
    uint64_t version, coming;
    uint32_t pages, got;
    uint8_t has[PAGES / 8];
};

struct host {
    uint8_t mac[6], enrolment[ENROLMENT], leader_mac[6];
    uint32_t to_leader[8], from_leader[8], address, node, epoch, target_count, pings;
    char name[NAME];
    enum state state;
    struct replay_window window; /* of the leader's frames */
    uint64_t sequence, nonce, report_number, backlog_number, best_delay_ns, random, rate_bps;
    int64_t begin_ns, skew_ns, error_ns, best_ns;
    int64_t hysteresis_ns, fail_open_ns, report_ns;
    int64_t retry_ns, register_ns, ping_ns, report_due_ns, told_due_ns, look_ns, slot_due_ns, arrival_ns, ask_ns, ask_after_ns;
    int64_t heard_ns, answered_ns, asked_ns, free_ns, reported_ns, told_ns, busy_until_ns;
    uint8_t synchronised, enforcing, regulates, served;
    double rate; /* bytes a ns */
    struct paged directory, regulation, groups; /* `groups` counts versions from 1: 0 for none */
    int64_t ask_groups_ns, told_groups_ns;
    uint32_t group_tries;
    struct target *target;
};

/* The heap: hosts by when they are due. */
struct heap {
    uint32_t count, *host, *place;
    int64_t *due;
};

static void heap_make(struct heap *h, uint32_t count) {
    h->count = count;
    h->host = calloc(count, sizeof(uint32_t)), h->place = calloc(count, sizeof(uint32_t));
    h->due = calloc(count, sizeof(int64_t));
    for (uint32_t at = 0; at < count; at++)
        h->host[at] = h->place[at] = at, h->due[at] = NEVER;
}

static inline void heap_set(struct heap *h, uint32_t at, uint32_t host) { h->host[at] = host, h->place[host] = at; }

static void heap_move(struct heap *h, uint32_t host, int64_t due) {
    uint32_t at = h->place[host];
    h->due[host] = due;
    for (uint32_t up; at && due < h->due[h->host[up = (at - 1) / 2]]; at = up)
        heap_set(h, at, h->host[up]);
    for (uint32_t down; (down = 2 * at + 1) < h->count; at = down) {
        if (down + 1 < h->count && h->due[h->host[down + 1]] < h->due[h->host[down]])
            down++;
        if (h->due[h->host[down]] >= due)
            break;
        heap_set(h, at, h->host[down]);
    }
    heap_set(h, at, host);
}

static inline int64_t earlier(int64_t one, int64_t other) { return one < other ? one : other; }
static inline int64_t later(int64_t one, int64_t other) { return one > other ? one : other; }

/* xorshift64* (Vigna 2016). */
static inline uint64_t chance(uint64_t *state) {
    *state ^= *state >> 12, *state ^= *state << 25, *state ^= *state >> 27;
    return *state * 0x2545F4914F6CDD1DULL;
}

/* From 0 to 1. */
static inline double share(uint64_t *state) { return (double)(chance(state) >> 11) / 9007199254740992.0; }

#endif
