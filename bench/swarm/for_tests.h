/* Functions for tests alone: frames as this library packs, seals and reads them. */
#ifndef BATON_SWARM_FOR_TESTS_H
#define BATON_SWARM_FOR_TESTS_H
#include "agent.h"

/* For tests: a body of this kind from numbers in the order of the document; its length. */
uint32_t frame_pack(uint32_t kind, const uint64_t *n, uint32_t count, const char *name, uint8_t *into) {
    struct flow_entry entry[PAGE_ENTRIES];
    uint32_t fixed = kind == REPORT ? 4 : 3, entries = count > fixed ? (count - fixed) / 3 : 0;
    for (uint32_t at = 0; at < entries && at < PAGE_ENTRIES; at++)
        entry[at] = (struct flow_entry){(uint32_t)n[fixed + 3 * at], n[fixed + 3 * at + 1], n[fixed + 3 * at + 2]};
    uint8_t *end = into;
    switch (kind) {
    case REGISTER: end = pack_register(into, n[0], n[1], name, "swarm", (uint32_t)n[2]); break;
    case BACKLOG: end = pack_backlog(into, n[0], (uint32_t)n[1], (uint32_t)n[2], entry, entries); break;
    case REPORT: end = pack_report(into, n[0], n[1], (uint32_t)n[2], (uint32_t)n[3], entry, entries); break;
    case YIELD: end = pack_yield(into, (uint32_t)n[0], n[1], (uint32_t)n[2], n[3]); break;
    case ACK: end = pack_ack(into, n[0], (uint32_t)n[1], n[2], n[3]); break;
    case HOST_STATE: end = pack_host_state(into, n[0], n[1], n[2], n[3]); break;
    case HOST_LINK: end = pack_host_link(into, n[0], n[1], n[2]); break;
    default:
        for (uint32_t at = 0; at < count; at++)
            end = put(end, n[at], 8);
    }
    return (uint32_t)(end - into);
}

/* For tests: seals a frame whose body is in place; its length. */
uint32_t frame_seal(uint8_t *frame, uint32_t kind, uint32_t body_bytes, const uint8_t *to, const uint8_t *from, uint32_t sender,
                    uint32_t epoch, uint64_t sequence, const uint8_t *enrolment, const uint8_t *key) {
    uint32_t keyed[8];
    blake2s_keyed(keyed, key, (const uint8_t *)"baton v1");
    return seal(frame, (enum kind)kind, body_bytes, to, from, sender, epoch, sequence, enrolment, keyed);
}

/* For tests: the grants of a DIRECTIVE to the host of this key; -1: no whole frame, or the tag does not fit. */
int32_t frame_grants(const uint8_t *frame, uint32_t length, const uint8_t *key, struct grant *into) {
    uint32_t keyed[8];
    blake2s_keyed(keyed, key, (const uint8_t *)"baton v1");
    if (!opens(frame, length, keyed) || frame[AT_TYPE] != DIRECTIVE)
        return -1;
    return read_directive(frame + AT_BODY, (uint32_t)get(frame + AT_LENGTH, 2), into, MOST_BODY / 40);
}

#endif
