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

bool PriorityPort::Enqueue(Ptr<Packet> packet)
{
	uint8_t head[PPP_BYTES + 2];
	uint32_t size = packet->GetSize();

	packet->CopyData(head, sizeof(head));

	uint8_t tos = head[PPP_BYTES + 1];
	Band &band = m_bands[QueueOf(tos)];

	uint64_t taken = &band == &m_bands[0] ? m_bytes : m_bytes + m_room - std::min(m_room, m_bands[0].bytes);

	if (taken + size > m_buffer || band.bytes + size > m_share * (m_buffer - taken)) {
		m_drops++;
		return false;
	}
	if (m_bytes > m_mark && (tos & ECN_BITS) && (tos & ECN_BITS) != ECN_MARKED) {
		Mark(packet);
		m_marks++;
	}
	band.packets.push_back(packet);
	band.bytes += size;
	Add(size);
	return true;
}

Ptr<Packet> PriorityPort::Dequeue()
{
	for (Band &band : m_bands)
		if (!band.packets.empty()) {
			Ptr<Packet> packet = band.packets.front();
			uint32_t size = packet->GetSize();

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
