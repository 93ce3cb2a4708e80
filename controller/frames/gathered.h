/* What the loop has taken of frames and not told Python yet: several batches together, since each record costs Python 50 us to
 * read, and 2,700 batches a second are usual with 4,800 hosts.
 *
 * They are told (told.h) before a frame that only the guard can judge, before a batch in which a member says in another order
 * what waits there (see `ends_batch`), when there is no room for more, and when Python asks. */
#ifndef BATON_GATHERED_H
#define BATON_GATHERED_H
#include "state.h"
#include "told.h"

enum { GATHERED = 4 * MOST, GATHERED_ENTRIES = MOST * MOST_ENTRIES };

struct gathered {
    struct told_batch head;
    int64_t since_ns; /* of the first batch */
    struct returned given_back[GATHERED];
    struct opened opened[GATHERED];
    int64_t yielded_ns[GATHERED], backlog_ns[GATHERED], sizes[GATHERED_ENTRIES];
    uint32_t nodes[GATHERED], offsets[GATHERED + 1], destinations[GATHERED_ENTRIES], delayed[GATHERED];
    uint8_t watched[GATHERED];
};

static inline int gathered_any(const struct gathered *all) {
    const struct told_batch *head = &all->head;
    return head->yields || head->opened || head->backlogs || head->delayed;
}

/* Tells Python what was gathered, if anything, or how many frames were taken of which it has nothing else to know. */
static void gathered_tell(struct gathered *all, struct told *told) {
    struct told_batch *head = &all->head;
    if (!gathered_any(all) && !head->accepted)
        return;
    head->kind = TOLD_BATCH;
    uint8_t *at = told_put(told_end(told), head, sizeof *head);
    at = told_put(at, all->given_back, head->yields * sizeof *all->given_back);
    at = told_put(at, all->opened, head->opened * sizeof *all->opened);
    at = told_put(at, all->sizes, head->entries * sizeof *all->sizes);
    at = told_put(at, all->yielded_ns, head->yields * sizeof *all->yielded_ns);
    at = told_put(at, all->backlog_ns, head->backlogs * sizeof *all->backlog_ns);
    at = told_put(at, all->nodes, head->backlogs * sizeof *all->nodes);
    at = told_put(at, all->offsets, (head->backlogs + 1) * sizeof *all->offsets);
    at = told_put(at, all->destinations, head->entries * sizeof *all->destinations);
    at = told_put(at, all->delayed, head->delayed * sizeof *all->delayed);
    at = told_put(at, all->watched, head->yields);
    told_close(told, at, gathered_any(all) ? all->since_ns : head->now_ns);
    memset(head, 0, sizeof *head);
}

/* Gathers the last batch. What does not fit beside it is told first. */
static void gathered_add(struct gathered *all, struct told *told, const struct frames *f, int64_t now_ns) {
    const struct counts *counts = &f->counts;
    struct told_batch *head = &all->head;
    uint32_t longest = counts->yields > counts->opened ? counts->yields : counts->opened;
    longest = longest > counts->backlogs ? longest : counts->backlogs;
    longest = longest > counts->delayed ? longest : counts->delayed;
    uint32_t most = head->yields > head->opened ? head->yields : head->opened;
    most = most > head->backlogs ? most : head->backlogs;
    most = most > head->delayed ? most : head->delayed;
    if (most + longest > GATHERED || head->entries + counts->entries > GATHERED_ENTRIES)
        gathered_tell(all, told);
    if (longest && !gathered_any(all))
        all->since_ns = now_ns;
    head->now_ns = now_ns;
    head->accepted += counts->accepted;
    memcpy(all->given_back + head->yields, f->yields, counts->yields * sizeof *f->yields);
    memcpy(all->watched + head->yields, f->watched, counts->yields);
    memcpy(all->opened + head->opened, f->opened, counts->opened * sizeof *f->opened);
    memcpy(all->delayed + head->delayed, f->delayed, counts->delayed * sizeof *f->delayed);
    memcpy(all->nodes + head->backlogs, f->nodes, counts->backlogs * sizeof *f->nodes);
    memcpy(all->destinations + head->entries, f->destinations, counts->entries * sizeof *f->destinations);
    memcpy(all->sizes + head->entries, f->sizes, counts->entries * sizeof *f->sizes);
    for (uint32_t one = 0; one < counts->yields; one++)
        all->yielded_ns[head->yields + one] = now_ns;
    for (uint32_t one = 0; one < counts->backlogs; one++) {
        all->backlog_ns[head->backlogs + one] = now_ns;
        all->offsets[head->backlogs + one + 1] = head->entries + f->offsets[one + 1];
    }
    head->yields += counts->yields;
    head->opened += counts->opened;
    head->delayed += counts->delayed;
    head->backlogs += counts->backlogs;
    head->entries += counts->entries;
}

#endif
