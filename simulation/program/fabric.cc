#include "fabric.h"

#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-l3-protocol.h"
#include "ns3/ipv4-route.h"
#include "ns3/point-to-point-channel.h"
#include "ns3/socket.h"

namespace baton
{

using namespace ns3;

namespace
{

constexpr uint64_t UNLIMITED = 1ull << 40;

/* One path for a flow, another for the next: the transport's ports and both addresses, mixed (the finaliser of splitmix64). */
uint32_t PathHash(const uint8_t *ip)
{
	uint64_t mix = uint64_t(Word(ip + 12)) << 32 ^ uint64_t(Word(ip + 16)) << 13 ^ Word(ip + IP_BYTES);

	mix = (mix ^ (mix >> 30)) * 0xbf58476d1ce4e5b9ULL;
	mix = (mix ^ (mix >> 27)) * 0x94d049bb133111ebULL;
	return uint32_t(mix ^ (mix >> 31));
}

} // namespace

Ptr<Ipv4Route> HostRouting::Route(Ipv4Address target) const
{
	Ptr<Ipv4Route> route = Create<Ipv4Route>();

	route->SetDestination(target);
	route->SetSource(AddressOf(m_host));
	route->SetGateway(Ipv4Address::GetZero());
	route->SetOutputDevice(m_ipv4->GetNetDevice(1));
	return route;
}

Ptr<Ipv4Route> HostRouting::RouteOutput(Ptr<Packet> packet, const Ipv4Header &header, Ptr<NetDevice>, Socket::SocketErrno &error)
{
	if (packet && m_tagging && packet->GetSize() >= TCP_BYTES) {
		SocketIpTosTag tag;
		uint8_t tos = packet->RemovePacketTag(tag) ? tag.GetTos() : 0;

		tag.SetTos(m_tagging(packet, header.GetDestination().Get() - FIRST_ADDRESS, tos));
		packet->AddPacketTag(tag);
	}
	error = Socket::ERROR_NOTERROR;
	return Route(header.GetDestination());
}

bool HostRouting::RouteInput(Ptr<const Packet> packet, const Ipv4Header &header, Ptr<const NetDevice>, const UnicastForwardCallback &,
			     const MulticastForwardCallback &, const LocalDeliverCallback &local, const ErrorCallback &)
{
	if (header.GetDestination() != AddressOf(m_host))
		return false;
	local(packet, header, 1);
	return true;
}

Fabric::Fabric(const Case &what) : m_case(what)
{
	InternetStackHelper stack;
	std::vector<Ptr<Node>> leaves(what.leaves), spines(what.spines);

	stack.SetIpv6StackInstall(false);
	for (auto &node : leaves)
		node = CreateObject<Node>();
	for (auto &node : spines)
		node = CreateObject<Node>();
	m_up.resize(what.leaves);
	m_to_leaf.resize(what.spines);
	for (uint32_t host = 0; host < what.Hosts(); host++) {
		uint32_t leaf = host / what.hosts_per_leaf;
		Ptr<Node> node = CreateObject<Node>();
		Ptr<HostRouting> routing = CreateObject<HostRouting>(host);

		stack.Install(node);

		auto [below, above] = Connect(node, leaves[leaf], true);
		Ptr<Ipv4> ipv4 = node->GetObject<Ipv4>();
		uint32_t interface = ipv4->AddInterface(below);

		ipv4->AddAddress(interface, Ipv4InterfaceAddress(AddressOf(host), Ipv4Mask("255.0.0.0")));
		ipv4->SetUp(interface);
		ipv4->SetRoutingProtocol(routing);
		m_hosts.push_back(node);
		m_routing.push_back(routing);
		m_to_host.push_back(above);
		m_down.push_back(DynamicCast<Port>(above->GetQueue()));
	}
	for (uint32_t leaf = 0; leaf < what.leaves; leaf++)
		for (uint32_t spine = 0; spine < what.spines; spine++) {
			auto [below, above] = Connect(leaves[leaf], spines[spine], false);

			m_up[leaf].push_back(below);
			m_to_leaf[spine].push_back(above);
		}
	for (uint32_t leaf = 0; leaf < what.leaves; leaf++)
		for (uint32_t at = 0; at < leaves[leaf]->GetNDevices(); at++)
			leaves[leaf]->GetDevice(at)->SetReceiveCallback(
				[this, leaf](Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t, const Address &) {
					Forward(leaf, packet);
					return true;
				});
	for (uint32_t spine = 0; spine < what.spines; spine++)
		for (uint32_t at = 0; at < spines[spine]->GetNDevices(); at++)
			spines[spine]->GetDevice(at)->SetReceiveCallback(
				[this, spine](Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t protocol, const Address &) {
					uint8_t ip[IP_BYTES];

					packet->CopyData(ip, sizeof(ip));

					uint32_t leaf = (Word(ip + 16) - FIRST_ADDRESS) / m_case.hosts_per_leaf;
					Device next = m_to_leaf[spine][leaf];

					next->Send(packet->Copy(), next->GetBroadcast(), protocol);
					return true;
				});
}

/* A host drops nothing at its own port: its kernel holds data back in the sockets (TCP small queues). pFabric's hosts do. */
Ptr<Port> Fabric::NewPort(bool of_host, bool to_host) const
{
	uint64_t buffer = of_host || to_host ? m_case.buffer : m_case.buffer_uplink;

	if (m_case.scheme == Scheme::Pfabric)
		return CreateObject<PfabricPort>(buffer);

	Division division(of_host ? UNLIMITED : buffer);

	for (unsigned queue = 0; queue < QUEUES; queue++) {
		if (!m_case.share_256.empty())
			division.share_256[queue] = uint32_t(m_case.share_256[std::min<size_t>(queue, m_case.share_256.size() - 1)]);
		if (queue < m_case.reserved.size())
			division.reserved[queue] = m_case.reserved[queue] * buffer / m_case.buffer;
	}
	return CreateObject<PriorityPort>(division, of_host || to_host ? m_case.mark_host : m_case.mark_uplink);
}

std::pair<Fabric::Device, Fabric::Device> Fabric::Connect(Ptr<Node> lower, Ptr<Node> upper, bool host)
{
	Ptr<PointToPointChannel> channel = CreateObject<PointToPointChannel>();
	Device ends[2];

	channel->SetAttribute("Delay", TimeValue(NanoSeconds(host ? m_case.host_delay_ns : m_case.uplink_delay_ns)));
	for (Device &device : ends) {
		bool lower_end = &device == &ends[0];
		Ptr<Port> port = NewPort(host && lower_end, host && !lower_end);

		device = CreateObject<PointToPointNetDevice>();
		device->SetAddress(Mac48Address::Allocate());
		device->SetDataRate(DataRate(host ? m_case.host_bps : m_case.uplink_bps));
		device->SetQueue(port);
		m_ports.push_back(port);
	}
	lower->AddDevice(ends[0]);
	upper->AddDevice(ends[1]);
	ends[0]->Attach(channel);
	ends[1]->Attach(channel);
	return {ends[0], ends[1]};
}

void Fabric::Forward(uint32_t leaf, Ptr<const Packet> packet)
{
	uint8_t ip[IP_BYTES + 4];

	packet->CopyData(ip, sizeof(ip));

	uint32_t target = Word(ip + 16) - FIRST_ADDRESS;
	uint32_t path = m_case.spray ? m_sprayed++ : PathHash(ip);
	Device next = target / m_case.hosts_per_leaf == leaf ? m_to_host[target] : m_up[leaf][path % m_case.spines];

	next->Send(packet->Copy(), next->GetBroadcast(), 0x0800);
}

uint64_t Fabric::Drops() const
{
	uint64_t sum = 0;

	for (const auto &port : m_ports)
		sum += port->Drops();
	return sum;
}

uint64_t Fabric::Marks() const
{
	uint64_t sum = 0;

	for (const auto &port : m_ports)
		sum += port->Marks();
	return sum;
}

} // namespace baton
