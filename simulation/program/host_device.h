/* A host's interface as an agent of Baton keeps it: data wait there for a slot; handshakes and acknowledgements pass. */
#ifndef BATON_SIMULATION_HOST_DEVICE_H
#define BATON_SIMULATION_HOST_DEVICE_H

#include "wire.h"

#include "ns3/event-id.h"
#include "ns3/point-to-point-net-device.h"

#include <deque>
#include <functional>
#include <map>

namespace baton
{

struct Slot
{
	uint64_t number, start_ns, end_ns, bytes;
};

class HostDevice : public ns3::PointToPointNetDevice
{
      public:
	/* `slot` is 0 and `bytes` what waits for a host that begins to have data; else what is left of a slot that is given back. */
	using Report = std::function<void(uint64_t slot, uint64_t bytes)>;

	/* From now on data wait for slots. A slot is given back when nothing has passed for `hysteresis_ns`. */
	void Gate(uint64_t hysteresis_ns, Report report);
	/* There is always another packet, which leaves as soon as the one before has, and the gate lets it. */
	void Supply(std::function<ns3::Ptr<ns3::Packet>()> next);
	/* A slot of the same number takes the place of the one before, unless that has begun; a slot without bytes revokes it. */
	void Grant(const Slot &slot);
	bool Send(ns3::Ptr<ns3::Packet> packet, const ns3::Address &to, uint16_t protocol) override;

	uint64_t data = 0; /* packets with payload that left */

      private:
	void Begin(uint64_t number);
	void End(uint64_t number);
	void CheckUse(uint64_t number, uint64_t passed);
	void GiveBack();
	void SendNext();
	bool Waiting() const { return m_next || !m_waiting.empty(); }

	bool m_gated = false, m_wanted = false, m_busy = false;
	uint64_t m_hysteresis_ns = 0, m_credit = 0, m_open = 0; /* the number of the slot that is open, or 0 */
	Report m_report;
	std::function<ns3::Ptr<ns3::Packet>()> m_next;
	std::deque<ns3::Ptr<ns3::Packet>> m_waiting;
	std::map<uint64_t, std::pair<Slot, ns3::EventId>> m_granted;
};

} // namespace baton

#endif
