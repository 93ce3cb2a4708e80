#include "ports.h"

#include "ns3/ipv4-header.h"
#include "ns3/ppp-header.h"
#include "ns3/simulator.h"

#include <algorithm>

namespace baton
{

using ns3::Packet;
using ns3::Ptr;

namespace
{

void Mark(Ptr<Packet> packet)
{
	ns3::PppHeader ppp;
	ns3::Ipv4Header ip;

	packet->RemoveHeader(ppp);
	packet->RemoveHeader(ip);
	ip.SetEcn(ns3::Ipv4Header::ECN_CE);
	packet->AddHeader(ip);
	packet->AddHeader(ppp);
}

} // namespace

void FillTimes::Changed(uint64_t now_ns, uint64_t bytes)
{
	if (now_ns > m_from)
		m_times[m_bytes] += now_ns - std::max(m_since, m_from);
	m_since = now_ns;
	m_bytes = bytes;
}

void Port::Add(uint32_t bytes)
{
	m_bytes += bytes;
	fill.Changed(ns3::Simulator::Now().GetNanoSeconds(), m_bytes);
}

void Port::Take(uint32_t bytes)
{
	m_bytes -= bytes;
	fill.Changed(ns3::Simulator::Now().GetNanoSeconds(), m_bytes);
}

PriorityPort::PriorityPort(const Division &division, uint64_t mark) : m_division(division), m_mark(mark), m_shared(division.buffer)
{
	for (uint64_t bytes : division.reserved)
		m_shared -= bytes;
}

/* What a queue of so many bytes takes of the buffer that is nobody's own. */
uint64_t PriorityPort::Beyond(unsigned queue, uint64_t bytes) const
{
	return bytes > m_division.reserved[queue] ? bytes - m_division.reserved[queue] : 0;
}

bool PriorityPort::Admits(unsigned queue, uint32_t size) const
{
	uint64_t before = Beyond(queue, m_bands[queue].bytes), more = Beyond(queue, m_bands[queue].bytes + size) - before;
	uint64_t free = m_shared - m_taken;

	return !more || (more <= free && before * 256 < m_division.share_256[queue] * free);
}

bool PriorityPort::Enqueue(Ptr<Packet> packet)
{
	uint8_t head[PPP_BYTES + 2];
	uint32_t size = packet->GetSize();

	packet->CopyData(head, sizeof(head));

	uint8_t tos = head[PPP_BYTES + 1];
	unsigned queue = QueueOf(tos);
	Band &band = m_bands[queue];

	if (!Admits(queue, size)) {
		m_drops++;
		return false;
	}
	if (m_bytes > m_mark && (tos & ECN_BITS) && (tos & ECN_BITS) != ECN_MARKED) {
		Mark(packet);
		m_marks++;
	}
	m_taken += Beyond(queue, band.bytes + size) - Beyond(queue, band.bytes);
	band.packets.push_back(packet);
	band.bytes += size;
	Add(size);
	return true;
}

Ptr<Packet> PriorityPort::Dequeue()
{
	for (unsigned queue = 0; queue < QUEUES; queue++)
		if (Band &band = m_bands[queue]; !band.packets.empty()) {
			Ptr<Packet> packet = band.packets.front();
			uint32_t size = packet->GetSize();

			m_taken -= Beyond(queue, band.bytes) - Beyond(queue, band.bytes - size);
			band.packets.pop_front();
			band.bytes -= size;
			Take(size);
			return packet;
		}
	return nullptr;
}

bool PfabricPort::Enqueue(Ptr<Packet> packet)
{
	uint8_t head[PPP_BYTES + IP_BYTES + PFABRIC_BYTES];
	const uint8_t *inner = head + PPP_BYTES + IP_BYTES;

	packet->CopyData(head, sizeof(head));
	m_waiting.push_back({packet, Word(inner + 4), Word(inner + 12)});
	Add(packet->GetSize());
	while (m_bytes > m_buffer) {
		/* of equals the last to arrive */
		auto least_urgent = std::max_element(m_waiting.begin(), m_waiting.end(), [](const Waiting &a, const Waiting &b) {
			return a.urgency <= b.urgency;
		});

		Take(least_urgent->packet->GetSize());
		m_waiting.erase(least_urgent);
		m_drops++;
	}
	return true;
}

Ptr<Packet> PfabricPort::Dequeue()
{
	if (m_waiting.empty())
		return nullptr;

	auto urgent = std::min_element(m_waiting.begin(), m_waiting.end(), [](const Waiting &a, const Waiting &b) {
		return a.urgency < b.urgency;
	});
	auto next = std::find_if(m_waiting.begin(), m_waiting.end(), [&](const Waiting &w) { return w.flow == urgent->flow; });
	Ptr<Packet> packet = next->packet;

	Take(packet->GetSize());
	m_waiting.erase(next);
	return packet;
}

} // namespace baton
