/* The slots that were granted and what became of them: controller/slots/slot_events.py (Tallies) and permitted.py say what
 * each of these does, and are compared with it. */
#ifndef BATON_BOOK_H
#define BATON_BOOK_H
#include "map.h"

#define KEPT_NS 500000000LL /* how long after its end a slot may still be yielded */
#define BYTE_NS 8000000000LL

enum { CHUNK_SLOTS = 1 << 12, CHUNKS = 1 << 12 };
enum { USED = 1, AWAITED = 2, OPEN = 4, WATCHED = 8 };

/* A row of the policy's plan. */
struct row {
    int64_t slot, node, destination, start_ns, end_ns, bytes, rate_bps, reserved_bps;
};

struct slot {
    struct row row;   /* as it was granted last: while AWAITED */
    int64_t sent_ns;  /* when its directive left */
    int64_t start_ns, end_ns, bytes, rate_bps, counted_ns; /* as it counts for what is permitted: while OPEN */
    uint32_t flags, next; /* `next` of the free ones */
    uint32_t place;       /* where it is itself */
};

struct pair {
    int64_t credits, rates;
    uint64_t rate_slot; /* the slot of its last rate */
    uint32_t key, touched;
};

/* Known to ctypes as `Permission`. */
struct permission {
    int64_t node, destination, credits, rates;
};

/* Known to ctypes as `Tally`. */
struct tally {
    int64_t slots, acks, late, lost, yields;
};

struct book {
    struct tally tally;
    struct map by_number, by_pair;
    struct slot *chunks[CHUNKS]; /* so that more slots take no copying of those that are there */
    struct pair *pairs;
    uint32_t slots_top, slots_free, pairs_room, pairs_top, cursor;
};

static int book_make(struct book *book) {
    memset(book, 0, sizeof *book);
    book->pairs_room = 1 << 12;
    book->slots_free = NOWHERE;
    book->pairs = malloc(book->pairs_room * sizeof *book->pairs);
    return map_make(&book->by_number, 1 << 18) & map_make(&book->by_pair, 1 << 13) && book->pairs;
}

static void book_free(struct book *book) {
    for (uint32_t at = 0; at < CHUNKS; at++)
        free(book->chunks[at]);
    free(book->pairs);
    map_free(&book->by_number);
    map_free(&book->by_pair);
}

static inline struct slot *slot_at(struct book *book, uint32_t place) {
    return &book->chunks[place / CHUNK_SLOTS][place % CHUNK_SLOTS];
}

static inline struct slot *book_find(struct book *book, uint64_t number) {
    uint32_t place = map_get(&book->by_number, number);
    return place == NOWHERE ? NULL : slot_at(book, place);
}

/* The slot of this number, if it is of this sender and destination: hosts can guess the numbers of others' slots. */
static inline struct slot *book_find_of(struct book *book, uint64_t number, uint32_t node, uint32_t destination) {
    struct slot *slot = book_find(book, number);
    return slot && slot->row.node == node && slot->row.destination == destination ? slot : NULL;
}

/* A record for a slot that has none; NULL: no memory. */
static struct slot *book_add(struct book *book, uint64_t number) {
    uint32_t place = book->slots_free;
    if (place == NOWHERE) {
        uint32_t chunk = book->slots_top / CHUNK_SLOTS;
        if (chunk == CHUNKS)
            return NULL;
        if (!book->chunks[chunk] && !(book->chunks[chunk] = malloc(CHUNK_SLOTS * sizeof **book->chunks)))
            return NULL;
        place = book->slots_top++;
    } else
        book->slots_free = slot_at(book, place)->next;
    struct slot *slot = slot_at(book, place);
    memset(slot, 0, sizeof *slot);
    slot->next = NOWHERE;
    slot->place = place;
    if (!map_put(&book->by_number, number, place)) {
        slot->next = book->slots_free;
        book->slots_free = place;
        return NULL;
    }
    slot->flags = USED;
    slot->row.slot = (int64_t)number;
    return slot;
}

/* Drops the record if nothing is to be known of it any more. */
static inline void book_settle(struct book *book, struct slot *slot) {
    if (slot->flags & (AWAITED | OPEN))
        return;
    map_drop(&book->by_number, (uint64_t)slot->row.slot);
    slot->flags = 0;
    slot->next = book->slots_free;
    book->slots_free = slot->place;
}

static struct pair *book_pair(struct book *book, const struct slot *slot) {
    uint32_t key = (uint32_t)slot->row.node << 16 | (uint32_t)slot->row.destination;
    uint32_t place = map_get(&book->by_pair, key);
    if (place != NOWHERE)
        return &book->pairs[place];
    if (book->pairs_top == book->pairs_room) {
        struct pair *more = realloc(book->pairs, 2UL * book->pairs_room * sizeof *more);
        if (!more)
            return NULL;
        book->pairs = more;
        book->pairs_room *= 2;
    }
    if (!map_put(&book->by_pair, key, book->pairs_top))
        return NULL;
    struct pair *pair = &book->pairs[book->pairs_top++];
    memset(pair, 0, sizeof *pair);
    pair->key = key;
    return pair;
}

static void book_credit(struct book *book, const struct slot *slot, int64_t bytes) {
    struct pair *pair = book_pair(book, slot);
    if (!pair)
        return;
    pair->credits += bytes;
    pair->touched = 1;
}

static void book_count(struct book *book, struct slot *slot, int64_t now_ns) {
    if (!slot->rate_bps) {
        if (slot->counted_ns == slot->start_ns && slot->start_ns <= now_ns) {
            book_credit(book, slot, slot->bytes);
            slot->counted_ns = slot->start_ns + 1;
        }
        return;
    }
    int64_t until_ns = now_ns < slot->end_ns ? now_ns : slot->end_ns;
    if (until_ns <= slot->counted_ns)
        return;
    struct pair *pair = book_pair(book, slot);
    if (pair) {
        pair->rates += (int64_t)((__int128)slot->rate_bps * (until_ns - slot->counted_ns) / BYTE_NS);
        pair->touched = 1;
    }
    slot->counted_ns = until_ns;
}

/* Ends the rate of the pair that was in force before when this one begins. */
static void book_take_over(struct book *book, const struct row *row, int64_t now_ns) {
    struct slot key = {.row = *row};
    struct pair *pair = book_pair(book, &key);
    if (!pair)
        return;
    uint64_t last = pair->rate_slot;
    pair->rate_slot = (uint64_t)row->slot;
    struct slot *held = last && last != (uint64_t)row->slot ? book_find(book, last) : NULL;
    if (!held || !(held->flags & OPEN))
        return;
    int64_t until_ns = row->start_ns > held->counted_ns ? row->start_ns : held->counted_ns;
    if (until_ns < held->end_ns)
        held->end_ns = until_ns;
    book_count(book, held, now_ns);
}

static void book_granted(struct book *book, const struct row *row, int64_t now_ns, int watched) {
    struct slot *slot = book_find(book, (uint64_t)row->slot);
    if (!slot && !(slot = book_add(book, (uint64_t)row->slot)))
        return;
    uint32_t before = slot->flags;
    if (before & OPEN)
        book_count(book, slot, now_ns);
    book->tally.slots += !(before & AWAITED);
    slot->row = *row;
    slot->sent_ns = now_ns;
    slot->flags |= AWAITED;
    if (watched)
        slot->flags |= WATCHED;
    if (before & OPEN && !row->rate_bps && slot->start_ns <= now_ns)
        return; /* it has begun, and its credit is counted */
    if (row->rate_bps)
        book_take_over(book, row, now_ns);
    int64_t counted_ns = slot->counted_ns;
    slot->start_ns = slot->counted_ns = row->start_ns;
    slot->end_ns = row->end_ns;
    slot->bytes = row->bytes;
    slot->rate_bps = row->rate_bps;
    if (before & OPEN && row->rate_bps && counted_ns > slot->counted_ns)
        slot->counted_ns = counted_ns;
    slot->flags |= OPEN;
}

/* Returns whether the slot is watched, or not known (any more) as one of this sender and destination. */
static int book_yielded(struct book *book, uint64_t number, uint32_t node, uint32_t destination, int64_t unspent_bytes,
                        int64_t now_ns) {
    struct slot *slot = book_find_of(book, number, node, destination);
    int watched = !slot || slot->flags & WATCHED;
    book->tally.yields++;
    if (!slot || !(slot->flags & OPEN))
        return watched;
    if (slot->rate_bps)
        book_count(book, slot, now_ns);
    else {
        if (unspent_bytes > slot->bytes)
            unspent_bytes = slot->bytes;
        if (now_ns > slot->end_ns + KEPT_NS)
            unspent_bytes = 0;
        book_credit(book, slot, slot->counted_ns > slot->start_ns ? -unspent_bytes : slot->bytes - unspent_bytes);
    }
    slot->flags &= ~(uint32_t)OPEN;
    book_settle(book, slot);
    return watched;
}

static void book_revoked(struct book *book, uint64_t number, int64_t now_ns) {
    struct slot *slot = book_find(book, number);
    if (!slot)
        return;
    if (slot->flags & AWAITED)
        book->tally.slots--;
    if (slot->flags & OPEN)
        book_count(book, slot, now_ns);
    slot->flags &= ~(uint32_t)(AWAITED | OPEN);
    book_settle(book, slot);
}

/* Looks at the next `most` records: forgets what was over long before `then_ns`, and finds the slots that began before that and are
 * not acknowledged yet. Returns how many. */
static uint32_t book_sweep(struct book *book, int64_t then_ns, uint32_t most, uint64_t *found) {
    uint32_t count = 0;
    for (; most && book->slots_top; most--) {
        if (book->cursor >= book->slots_top)
            book->cursor = 0;
        struct slot *slot = slot_at(book, book->cursor++);
        if (slot->flags & AWAITED && slot->row.start_ns < then_ns)
            found[count++] = (uint64_t)slot->row.slot;
        if (slot->flags & OPEN && slot->end_ns + KEPT_NS < then_ns) {
            book_count(book, slot, then_ns);
            slot->flags &= ~(uint32_t)OPEN;
            book_settle(book, slot);
        }
    }
    return count;
}

static void book_lost(struct book *book, uint64_t number) {
    struct slot *slot = book_find(book, number);
    if (!slot || !(slot->flags & AWAITED))
        return;
    book->tally.lost++;
    slot->flags &= ~(uint32_t)AWAITED;
    book_settle(book, slot);
}

/* Forgets what was permitted to a node that left, among `most` records of slots, and of pairs, from a place on. */
static void book_left(struct book *book, int64_t node, uint32_t from, uint32_t most) {
    for (uint32_t at = from; at < book->slots_top && at - from < most; at++) {
        struct slot *slot = slot_at(book, at);
        if (slot->flags & OPEN && slot->row.node == node) {
            slot->flags &= ~(uint32_t)OPEN;
            book_settle(book, slot);
        }
    }
    for (uint32_t at = from; at < book->pairs_top && at - from < most; at++)
        if (book->pairs[at].key >> 16 == (uint32_t)node)
            book->pairs[at] = (struct pair){.key = book->pairs[at].key};
}

/* Counts until now what the slots among `most` records from a place on permit, and forgets what is over. */
static void book_count_some(struct book *book, uint32_t from, uint32_t most, int64_t now_ns) {
    for (uint32_t at = from; at < book->slots_top && most--; at++) {
        struct slot *slot = slot_at(book, at);
        if (!(slot->flags & OPEN))
            continue;
        book_count(book, slot, now_ns);
        if (slot->end_ns + KEPT_NS < now_ns) {
            slot->flags &= ~(uint32_t)OPEN;
            book_settle(book, slot);
        }
    }
}

static int book_has_rate(struct book *book, const struct pair *pair) {
    struct slot *held = pair->rate_slot ? book_find(book, pair->rate_slot) : NULL;
    return held && held->flags & OPEN;
}

/* What was permitted since the last time to `most` pairs before place *before, the last first: returns how many rows that is.
 * Pairs to which nothing was permitted, and that have no rate, are forgotten: the last pair takes such a one's place. */
static uint32_t book_take_some(struct book *book, uint32_t *before, uint32_t most, struct permission *taken) {
    uint32_t count = 0, at = *before < book->pairs_top ? *before : book->pairs_top;
    while (at && most--) {
        struct pair *pair = &book->pairs[--at];
        if (pair->touched) {
            taken[count++] = (struct permission){pair->key >> 16, pair->key & 0xffff, pair->credits, pair->rates};
            *pair = (struct pair){.rate_slot = pair->rate_slot, .key = pair->key};
        } else if (!book_has_rate(book, pair)) {
            map_drop(&book->by_pair, pair->key);
            struct pair *last = &book->pairs[--book->pairs_top];
            if (last != pair) {
                *pair = *last;
                map_move(&book->by_pair, pair->key, at);
            }
        }
    }
    *before = at;
    return count;
}

#endif
