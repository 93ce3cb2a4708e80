#include "host_device.h"

#include "ns3/simulator.h"

#include <random>

namespace baton
{

using namespace ns3;

namespace
{

constexpr uint16_t IPV4 = 0x0800;
constexpr uint8_t TCP = 6;

/* Now and then a host sends its next packet a little later, by 1 % of the time in all. Without that, senders at line rate keep in
 * step for good, and one of them takes every place in a full port. */
Time Pause(Time packet)
{
	static std::mt19937 dice(1);
	std::uniform_real_distribution<> share(0, 1);

	return dice() % 50 ? Time(0) : NanoSeconds(packet.GetNanoSeconds() * share(dice));
}

bool HasPayload(Ptr<const Packet> packet)
{
	uint8_t head[IP_BYTES + TCP_BYTES];

	packet->CopyData(head, sizeof(head));
	return head[9] != TCP || packet->GetSize() > IP_BYTES + (head[IP_BYTES + 12] >> 4) * 4u;
}

} // namespace

void HostDevice::Gate(uint64_t hysteresis_ns, Report report)
{
	m_gated = true;
	m_hysteresis_ns = hysteresis_ns;
	m_report = std::move(report);
}

void HostDevice::Supply(std::function<Ptr<Packet>()> next)
{
	m_next = std::move(next);
	if (m_gated) {
		m_wanted = true;
		m_report(0, UINT32_MAX);
	} else {
		SendNext();
	}
}

bool HostDevice::Send(Ptr<Packet> packet, const Address &to, uint16_t protocol)
{
	if (!HasPayload(packet))
		return PointToPointNetDevice::Send(packet, to, protocol);
	m_waiting.push_back(packet);
	if (m_gated && !m_wanted) {
		m_wanted = true;
		m_report(0, packet->GetSize() + PPP_BYTES);
	}
	SendNext();
	return true;
}

void HostDevice::SendNext()
{
	if (m_busy || (m_gated && !m_open))
		return;
	if (m_waiting.empty() && m_next)
		m_waiting.push_back(m_next());
	if (m_waiting.empty()) {
		if (m_gated)
			Simulator::Schedule(NanoSeconds(m_hysteresis_ns), &HostDevice::CheckUse, this, m_open, data);
		return;
	}

	Ptr<Packet> packet = m_waiting.front();
	uint32_t size = packet->GetSize() + PPP_BYTES;

	if (m_gated) {
		if (m_credit < size)
			return;
		m_credit -= size;
	}
	m_waiting.pop_front();
	data++;
	PointToPointNetDevice::Send(packet, GetBroadcast(), IPV4);

	DataRateValue rate;

	GetAttribute("DataRate", rate);
	Time takes = rate.Get().CalculateBytesTxTime(size);

	m_busy = true;
	Simulator::Schedule(takes + Pause(takes), [this] {
		m_busy = false;
		SendNext();
	});
}

void HostDevice::Grant(const Slot &slot)
{
	auto before = m_granted.find(slot.number);

	if (before != m_granted.end()) {
		before->second.second.Cancel();
		m_granted.erase(before);
	}
	if (!slot.bytes) {
		if (slot.number == m_open)
			m_open = 0;
		return;
	}

	uint64_t now = uint64_t(Simulator::Now().GetNanoSeconds());
	Time wait = NanoSeconds(slot.start_ns > now ? slot.start_ns - now : 0);

	m_granted[slot.number] = {slot, Simulator::Schedule(wait, &HostDevice::Begin, this, slot.number)};
}

/* What is left of a slot's bytes ends with it, but for the part of a packet: the policy counts on that. */
void HostDevice::Begin(uint64_t number)
{
	Slot slot = m_granted.at(number).first;
	uint64_t now = uint64_t(Simulator::Now().GetNanoSeconds());

	m_granted.erase(number);
	if (slot.end_ns <= now)
		return;
	if (m_open)
		End(m_open);
	m_open = number;
	m_credit = slot.bytes + (m_credit < FULL_FRAME ? m_credit : 0);
	m_wanted = true;
	Simulator::Schedule(NanoSeconds(slot.end_ns - now), &HostDevice::End, this, number);
	SendNext();
}

void HostDevice::End(uint64_t number)
{
	if (number != m_open)
		return;
	if (Waiting())
		m_open = 0;
	else
		GiveBack();
}

void HostDevice::CheckUse(uint64_t number, uint64_t passed)
{
	if (number == m_open && passed == data && !Waiting())
		GiveBack();
}

void HostDevice::GiveBack()
{
	uint64_t slot = m_open, left = m_credit;

	m_open = m_credit = 0;
	m_wanted = false;
	m_report(slot, left);
}

} // namespace baton
