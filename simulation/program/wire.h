/* The few fields of a packet that switches and taggers look at, read without ns-3's header objects, which cost more. */
#ifndef BATON_SIMULATION_WIRE_H
#define BATON_SIMULATION_WIRE_H

#include "ns3/packet.h"

#include <cstdint>

namespace baton
{

constexpr uint32_t PPP_BYTES = 2, IP_BYTES = 20, PFABRIC_BYTES = 20, TCP_BYTES = 20;
constexpr uint32_t SEGMENT = 1460, FULL_FRAME = SEGMENT + TCP_BYTES + IP_BYTES + PPP_BYTES;
constexpr uint8_t ECN_BITS = 3, ECN_MARKED = 3;
constexpr uint8_t PFABRIC_PROTOCOL = 253; /* RFC 3692: for experiments */
constexpr uint32_t FIRST_ADDRESS = 0x0a000001; /* of host 0 */
constexpr unsigned QUEUES = 8;

inline uint32_t Word(const uint8_t *at)
{
	return uint32_t(at[0]) << 24 | uint32_t(at[1]) << 16 | uint32_t(at[2]) << 8 | at[3];
}

inline uint16_t Half(const uint8_t *at)
{
	return uint16_t(at[0] << 8 | at[1]);
}

/* Queue 0 has DSCP 7, and so on, as Baton's tagger writes it; any other DSCP belongs in the last queue. */
inline uint8_t TosOf(unsigned queue)
{
	return uint8_t((QUEUES - 1 - queue) << 2);
}

inline unsigned QueueOf(uint8_t tos)
{
	unsigned dscp = tos >> 2;

	return dscp < QUEUES ? QUEUES - 1 - dscp : QUEUES - 1;
}

} // namespace baton

#endif
