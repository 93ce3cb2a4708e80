/* A spine-leaf fabric: hosts with ns-3's IPv4 and TCP, switches that look up the destination and pass packets on. */
#ifndef BATON_SIMULATION_FABRIC_H
#define BATON_SIMULATION_FABRIC_H

#include "case.h"
#include "ports.h"

#include "ns3/ipv4-routing-protocol.h"
#include "ns3/ipv4.h"
#include "ns3/node.h"
#include "ns3/point-to-point-net-device.h"

#include <functional>
#include <vector>

namespace baton
{

/* Chooses the TOS byte of a packet that a host sends (its payload begins with the transport header); ECN bits stay. */
using Tagging = std::function<uint8_t(ns3::Ptr<const ns3::Packet> packet, uint32_t target, uint8_t tos)>;

/* A host's routes: everything leaves by the only interface. Its tagger sits here, where each outgoing packet passes. */
class HostRouting : public ns3::Ipv4RoutingProtocol
{
      public:
	explicit HostRouting(uint32_t host) : m_host(host) {}
	void SetTagging(Tagging tagging) { m_tagging = std::move(tagging); }
	ns3::Ptr<ns3::Ipv4Route> Route(ns3::Ipv4Address target) const;

	ns3::Ptr<ns3::Ipv4Route> RouteOutput(ns3::Ptr<ns3::Packet> packet, const ns3::Ipv4Header &header,
					     ns3::Ptr<ns3::NetDevice> device, ns3::Socket::SocketErrno &error) override;
	bool RouteInput(ns3::Ptr<const ns3::Packet> packet, const ns3::Ipv4Header &header, ns3::Ptr<const ns3::NetDevice> device,
			const UnicastForwardCallback &unicast, const MulticastForwardCallback &multicast,
			const LocalDeliverCallback &local, const ErrorCallback &error) override;
	void NotifyInterfaceUp(uint32_t) override {}
	void NotifyInterfaceDown(uint32_t) override {}
	void NotifyAddAddress(uint32_t, ns3::Ipv4InterfaceAddress) override {}
	void NotifyRemoveAddress(uint32_t, ns3::Ipv4InterfaceAddress) override {}
	void SetIpv4(ns3::Ptr<ns3::Ipv4> ipv4) override { m_ipv4 = ipv4; }
	void PrintRoutingTable(ns3::Ptr<ns3::OutputStreamWrapper>, ns3::Time::Unit) const override {}

      private:
	uint32_t m_host;
	ns3::Ptr<ns3::Ipv4> m_ipv4;
	Tagging m_tagging;
};

class Fabric
{
      public:
	explicit Fabric(const Case &what);
	ns3::Ptr<ns3::Node> Host(uint32_t host) const { return m_hosts[host]; }
	ns3::Ptr<HostRouting> Routing(uint32_t host) const { return m_routing[host]; }
	/* The switch's port towards a host. */
	Port &Towards(uint32_t host) const { return *m_down[host]; }
	uint64_t Drops() const;
	uint64_t Marks() const;

      private:
	using Device = ns3::Ptr<ns3::PointToPointNetDevice>;
	std::pair<Device, Device> Connect(ns3::Ptr<ns3::Node> lower, ns3::Ptr<ns3::Node> upper, bool host);
	ns3::Ptr<Port> NewPort(bool of_host, bool to_host) const;
	void Forward(uint32_t leaf, ns3::Ptr<const ns3::Packet> packet);

	const Case &m_case;
	std::vector<ns3::Ptr<ns3::Node>> m_hosts;
	std::vector<ns3::Ptr<HostRouting>> m_routing;
	std::vector<ns3::Ptr<Port>> m_down, m_ports;
	std::vector<Device> m_to_host; /* by host */
	std::vector<std::vector<Device>> m_up, m_to_leaf; /* by leaf and spine, by spine and leaf */
	uint32_t m_sprayed = 0;
};

inline ns3::Ipv4Address AddressOf(uint32_t host)
{
	return ns3::Ipv4Address(FIRST_ADDRESS + host);
}

} // namespace baton

#endif
