/* pFabric's end hosts (SIGCOMM 2013, section 4.3): flows start at line rate, each packet carries how much of its flow is left and
 * is acknowledged by itself, only timeouts show losses, and after five of them a flow only asks whether the path is free. */
#ifndef BATON_SIMULATION_PFABRIC_H
#define BATON_SIMULATION_PFABRIC_H

#include "fabric.h"
#include "record.h"

#include "ns3/event-id.h"

#include <vector>

namespace baton
{

class PfabricFlows
{
      public:
	PfabricFlows(const Case &what, Fabric &fabric, Record &record);

	/* A packet has come to a host; its pFabric header is in front. */
	void Arrived(ns3::Ptr<const ns3::Packet> packet);

      private:
	enum class Kind : uint8_t { Data, Ack, Probe, ProbeAck };
	enum class Fate : uint8_t { Unsent, Flying, Lost, Acked };
	struct Flow
	{
		std::vector<Fate> fate;
		std::vector<uint64_t> sent_ns;
		std::vector<bool> received;
		uint32_t segments = 0, next = 0, lowest = 0, flying = 0, acked = 0, arrived = 0, lost = 0, timeouts = 0;
		double window = 0, threshold = 0;
		bool probing = false;
		ns3::EventId timer;
	};

	void Start(uint32_t flow);
	void SendMore(uint32_t flow);
	void Send(uint32_t flow, Kind kind, uint32_t segment, uint32_t remaining, uint32_t payload);
	void Acked(uint32_t flow, uint32_t segment);
	void ProbeAcked(uint32_t flow);
	void TimedOut(uint32_t flow);
	void Arm(uint32_t flow);
	uint32_t Urgency(uint32_t flow) const;

	const Case &m_case;
	Fabric &m_fabric;
	Record &m_record;
	std::vector<Flow> m_flows;
};

} // namespace baton

#endif
