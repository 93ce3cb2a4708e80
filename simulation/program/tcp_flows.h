/* Flows over ns-3's TCP, a connection each, which is open when its flow starts: DCTCP, or MCP for those with a deadline under
 * Karuna. Packets get their queues by the tagger's rules. */
#ifndef BATON_SIMULATION_TCP_FLOWS_H
#define BATON_SIMULATION_TCP_FLOWS_H

#include "fabric.h"
#include "mcp.h"
#include "record.h"
#include "tagger.h"

#include "ns3/socket.h"

#include <memory>

namespace baton
{

class TcpFlows
{
      public:
	TcpFlows(const Case &what, Fabric &fabric, Record &record);

	/* ns-3's settings; before any host is made. */
	static void SetDefaults(const Case &what);

      private:
	struct Flow
	{
		Flow(const Tag &rules) : tag(rules) {}
		Tag tag;
		ns3::Ptr<ns3::Socket> socket, peer;
		ns3::Ptr<Mcp> mcp;
		uint64_t received = 0;
	};

	void Open(uint32_t flow);
	void Start(uint32_t flow);
	void Accepted(uint32_t host, ns3::Ptr<ns3::Socket> socket, const ns3::Address &from);
	void Received(uint32_t flow, ns3::Ptr<ns3::Socket> socket);
	void Refuse(uint32_t flow);
	void Admit(uint32_t flow);
	void WatchForGivingUp(uint32_t flow);
	uint8_t TosFor(uint32_t host, ns3::Ptr<const ns3::Packet> packet, uint8_t tos);

	const Case &m_case;
	Fabric &m_fabric;
	Record &m_record;
	TagRules m_rules;
	mcp_settings m_mcp;
	std::vector<Flow> m_flows;
	std::vector<uint16_t> m_ports; /* of each flow's sender */
	std::vector<std::vector<uint32_t>> m_by_port; /* by host: the flows by their sender's ports */
};

} // namespace baton

#endif
