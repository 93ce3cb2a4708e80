/* Simulates TCP flows and senders of datagrams at line rate on a tree of switches with one queue a port: reads
 *
 *	hosts N				nodes from 0 are hosts, those above switches
 *	buffer BYTES			of each switch port
 *	control NS, hysteresis NS	how long messages between hosts and coordinator take; when a slot is given back
 *	from NS, until NS		what is counted
 *	link A B BIT/S NS		two nodes and the delay
 *	flow KIND GATED NODE NODE ...	udp or tcp; 1: it sends in slots only; sender, switches, receiver. One a sender
 *	go
 *
 * and writes a line of JSON for each flow: the bytes of payload that arrived, and for datagrams those in whole messages; and one of
 * all packets with payload that hosts sent, and of those that ports dropped.
 *
 * Flows that are gated ask a coordinator: whenever hosts have told something, or the time that it named has come, a line
 * {"now_ns", "told": [[flow, slot, bytes], ...]} goes out (slot 0: bytes wait; else bytes of the slot are given back). The
 * answer is lines "slot FLOW NUMBER START END BYTES" (BYTES 0: it is revoked) and "next NS", when to ask again (0: no time). */
#include "fabric.h"
#include "host_device.h"

#include "ns3/boolean.h"
#include "ns3/config.h"
#include "ns3/inet-socket-address.h"
#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-header.h"
#include "ns3/nstime.h"
#include "ns3/point-to-point-channel.h"
#include "ns3/simulator.h"
#include "ns3/socket.h"
#include "ns3/string.h"
#include "ns3/tcp-cubic.h"
#include "ns3/tcp-socket-factory.h"
#include "ns3/uinteger.h"

#include <cstdio>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

using namespace ns3;
using baton::HostDevice;

namespace
{

constexpr uint32_t FRAME = 1514; /* protocol/units.py: FRAME_BYTES */
constexpr uint32_t MESSAGE = 44; /* packets of 64 KB */
constexpr uint32_t TCP_SEGMENT = 1448; /* with timestamps */
constexpr uint16_t SERVER = 9;
constexpr uint8_t UDP = 17;
constexpr uint64_t MOST_DATA = 1 << 30;
using Device = Ptr<PointToPointNetDevice>;

struct Flow
{
	std::vector<uint32_t> nodes;
	bool tcp = false, gated = false;
	Ptr<HostDevice> device;
	uint32_t sent = 0, message = 0, parts = 0; /* packets of datagrams; the message that arrives, and how much of it */
	uint64_t received = 0, whole = 0;
	Ptr<Socket> socket;
};

class Run
{
      public:
	void Read(std::istream &in);
	void Go();

      private:
	void Link(uint32_t one, uint32_t other, uint64_t bps, uint64_t delay_ns);
	void AddFlow(std::istream &line);
	void UseTcp(uint32_t host);
	void Connect(uint32_t flow);
	Ptr<Packet> NextDatagram(uint32_t flow);
	bool Arrived(uint32_t node, Ptr<NetDevice> device, Ptr<const Packet> packet, uint16_t protocol, const Address &from);
	void Tell(uint32_t flow, uint64_t slot, uint64_t bytes);
	void Ask();
	bool Counts() const { return uint64_t(Simulator::Now().GetNanoSeconds()) >= m_from; }
	uint64_t Sent() const;
	uint64_t Drops() const;

	uint32_t m_hosts = 0;
	uint64_t m_buffer = 150'000, m_control = 50'000, m_hysteresis = 300'000, m_from = 0, m_until = 0;
	std::vector<Ptr<Node>> m_nodes;
	std::map<std::pair<uint32_t, uint32_t>, Device> m_links;
	std::vector<std::map<uint32_t, Device>> m_next; /* by node and receiver */
	std::vector<Ptr<baton::Port>> m_ports; /* of switches */
	std::vector<Flow> m_flows;
	std::map<uint32_t, uint32_t> m_by_sender;
	std::set<uint32_t> m_with_tcp;
	std::vector<std::array<uint64_t, 3>> m_told;
	EventId m_asking;
};

void Run::Link(uint32_t one, uint32_t other, uint64_t bps, uint64_t delay_ns)
{
	Ptr<PointToPointChannel> channel = CreateObject<PointToPointChannel>();

	channel->SetAttribute("Delay", TimeValue(NanoSeconds(delay_ns)));
	while (m_nodes.size() <= std::max(one, other))
		m_nodes.push_back(CreateObject<Node>());
	m_next.resize(m_nodes.size());
	for (auto [from, to] : {std::pair{one, other}, std::pair{other, one}}) {
		bool host = from < m_hosts;
		Device device = host ? Device(CreateObject<HostDevice>()) : CreateObject<PointToPointNetDevice>();
		auto port = CreateObject<baton::PriorityPort>(baton::Division(host ? MOST_DATA : m_buffer, UINT32_MAX), UINT64_MAX);

		device->SetAddress(Mac48Address::Allocate());
		device->SetDataRate(DataRate(bps));
		device->SetQueue(port);
		if (!host)
			m_ports.push_back(port);
		m_nodes[from]->AddDevice(device);
		device->Attach(channel);
		device->SetReceiveCallback([this, from](Ptr<NetDevice> at, Ptr<const Packet> packet, uint16_t protocol, const Address &sender) {
			return Arrived(from, at, packet, protocol, sender);
		});
		m_links[{from, to}] = device;
	}
}

void Run::AddFlow(std::istream &line)
{
	Flow flow;
	std::string kind;

	line >> kind >> flow.gated;
	flow.tcp = kind == "tcp";
	for (uint32_t node; line >> node;)
		flow.nodes.push_back(node);
	line.clear();
	if (flow.nodes.size() < 3)
		throw std::runtime_error("a flow has a sender, switches and a receiver");

	uint32_t source = flow.nodes.front(), target = flow.nodes.back(), number = uint32_t(m_flows.size());

	for (size_t at = 0; at < flow.nodes.size(); at++) {
		if (at + 1 < flow.nodes.size())
			m_next[flow.nodes[at]][target] = m_links.at({flow.nodes[at], flow.nodes[at + 1]});
		if (at)
			m_next[flow.nodes[at]][source] = m_links.at({flow.nodes[at], flow.nodes[at - 1]});
	}
	flow.device = DynamicCast<HostDevice>(m_next[source][target]);
	if (flow.gated)
		flow.device->Gate(m_hysteresis, [this, number](uint64_t slot, uint64_t bytes) { Tell(number, slot, bytes); });
	m_by_sender[source] = number;
	m_flows.push_back(flow);
	if (flow.tcp) {
		UseTcp(source);
		UseTcp(target);
	}
	/* not all in step */
	Simulator::Schedule(NanoSeconds(number * 7919 % 997 * 1000), [this, number] {
		if (m_flows[number].tcp)
			Connect(number);
		else
			m_flows[number].device->Supply([this, number] { return NextDatagram(number); });
	});
}

/* Gives a host ns-3's IPv4 and TCP, and has it listen. */
void Run::UseTcp(uint32_t host)
{
	InternetStackHelper stack;

	if (!m_with_tcp.insert(host).second)
		return;
	stack.SetIpv6StackInstall(false);
	stack.Install(m_nodes[host]);

	Ptr<Ipv4> ipv4 = m_nodes[host]->GetObject<Ipv4>();
	uint32_t interface = ipv4->AddInterface(m_nodes[host]->GetDevice(0));

	ipv4->AddAddress(interface, Ipv4InterfaceAddress(baton::AddressOf(host), Ipv4Mask("255.0.0.0")));
	ipv4->SetUp(interface);
	ipv4->SetRoutingProtocol(CreateObject<baton::HostRouting>(host));

	Ptr<Socket> listening = Socket::CreateSocket(m_nodes[host], TcpSocketFactory::GetTypeId());

	listening->Bind(InetSocketAddress(Ipv4Address::GetAny(), SERVER));
	listening->Listen();
	listening->SetAcceptCallback(Callback<bool, Ptr<Socket>, const Address &>([](Ptr<Socket>, const Address &) { return true; }),
				     Callback<void, Ptr<Socket>, const Address &>([this](Ptr<Socket> socket, const Address &from) {
					     uint32_t sender = InetSocketAddress::ConvertFrom(from).GetIpv4().Get() - baton::FIRST_ADDRESS;
					     Flow &flow = m_flows[m_by_sender.at(sender)];

					     socket->SetRecvCallback(Callback<void, Ptr<Socket>>([this, &flow](Ptr<Socket> s) {
						     while (Ptr<Packet> packet = s->Recv())
							     flow.received += Counts() ? packet->GetSize() : 0;
					     }));
				     }));
}

void Run::Connect(uint32_t number)
{
	Flow &flow = m_flows[number];

	flow.socket = Socket::CreateSocket(m_nodes[flow.nodes.front()], TcpSocketFactory::GetTypeId());
	flow.socket->SetConnectCallback(Callback<void, Ptr<Socket>>([](Ptr<Socket> s) { s->Send(Create<Packet>(uint32_t(MOST_DATA))); }),
					Callback<void, Ptr<Socket>>([](Ptr<Socket>) {}));
	flow.socket->Bind();
	flow.socket->Connect(InetSocketAddress(baton::AddressOf(flow.nodes.back()), SERVER));
}

/* The payload begins with the packet's number. */
Ptr<Packet> Run::NextDatagram(uint32_t number)
{
	Flow &flow = m_flows[number];
	Ptr<Packet> packet = Create<Packet>(FRAME - baton::IP_BYTES - baton::PPP_BYTES - 4);
	uint8_t place[4] = {uint8_t(flow.sent >> 24), uint8_t(flow.sent >> 16), uint8_t(flow.sent >> 8), uint8_t(flow.sent)};
	Ptr<Packet> whole = Create<Packet>(place, sizeof(place));
	Ipv4Header ip;

	flow.sent++;
	whole->AddAtEnd(packet);
	ip.SetSource(baton::AddressOf(flow.nodes.front()));
	ip.SetDestination(baton::AddressOf(flow.nodes.back()));
	ip.SetProtocol(UDP);
	ip.SetPayloadSize(uint16_t(whole->GetSize()));
	whole->AddHeader(ip);
	return whole;
}

bool Run::Arrived(uint32_t node, Ptr<NetDevice> device, Ptr<const Packet> packet, uint16_t protocol, const Address &)
{
	uint8_t ip[baton::IP_BYTES + 4];

	packet->CopyData(ip, sizeof(ip));

	uint32_t target = baton::Word(ip + 16) - baton::FIRST_ADDRESS;

	if (node != target) {
		Device next = m_next[node].at(target);

		next->Send(packet->Copy(), next->GetBroadcast(), protocol);
	} else if (ip[9] != UDP) {
		m_nodes[node]->GetObject<Ipv4L3Protocol>()->Receive(device, packet, protocol, device->GetBroadcast(), device->GetAddress(),
								    NetDevice::PACKET_HOST);
	} else {
		Flow &flow = m_flows[m_by_sender.at(baton::Word(ip + 12) - baton::FIRST_ADDRESS)];
		uint32_t place = baton::Word(ip + baton::IP_BYTES), payload = packet->GetSize() - baton::IP_BYTES;

		if (place / MESSAGE != flow.message)
			flow.parts = 0;
		flow.message = place / MESSAGE;
		flow.received += Counts() ? payload : 0;
		if (++flow.parts == MESSAGE)
			flow.whole += Counts() ? MESSAGE * payload : 0;
	}
	return true;
}

void Run::Tell(uint32_t flow, uint64_t slot, uint64_t bytes)
{
	Simulator::Schedule(NanoSeconds(m_control), [this, flow, slot, bytes] {
		if (m_told.empty())
			Simulator::ScheduleNow(&Run::Ask, this);
		m_told.push_back({flow, slot, bytes});
	});
}

void Run::Ask()
{
	const char *between = "";
	std::string text, key;

	std::printf("{\"now_ns\": %llu, \"told\": [", (unsigned long long)Simulator::Now().GetNanoSeconds());
	for (auto [flow, slot, bytes] : m_told) {
		std::printf("%s[%llu, %llu, %llu]", between, (unsigned long long)flow, (unsigned long long)slot, (unsigned long long)bytes);
		between = ", ";
	}
	std::printf("]}\n");
	std::fflush(stdout);
	m_told.clear();
	m_asking.Cancel();
	while (std::getline(std::cin, text)) {
		std::istringstream line(text);
		uint64_t flow, next;
		baton::Slot slot;

		line >> key;
		if (key == "slot" && line >> flow >> slot.number >> slot.start_ns >> slot.end_ns >> slot.bytes) {
			Ptr<HostDevice> device = m_flows.at(flow).device;

			Simulator::Schedule(NanoSeconds(m_control), [device, slot] { device->Grant(slot); });
		} else if (key == "next" && line >> next) {
			uint64_t now = uint64_t(Simulator::Now().GetNanoSeconds());

			if (next)
				m_asking = Simulator::Schedule(NanoSeconds(next > now ? next - now : 0), &Run::Ask, this);
			return;
		} else {
			break;
		}
	}
	throw std::runtime_error("the coordinator's answer cannot be read: " + text);
}

void Run::Read(std::istream &in)
{
	std::string text, key;

	for (unsigned number = 1; std::getline(in, text); number++) {
		std::istringstream line(text);
		uint64_t a, b, c, d;

		line >> key;
		if (key == "go")
			return;
		try {
			if (key == "link" && line >> a >> b >> c >> d)
				Link(uint32_t(a), uint32_t(b), c, d);
			else if (key == "hosts")
				line >> m_hosts;
			else if (key == "buffer")
				line >> m_buffer;
			else if (key == "control")
				line >> m_control;
			else if (key == "hysteresis")
				line >> m_hysteresis;
			else if (key == "from")
				line >> m_from;
			else if (key == "until")
				line >> m_until;
			else if (key == "flow")
				AddFlow(line);
			else
				line.setstate(std::ios::failbit);
			if (line.fail())
				throw std::runtime_error("cannot be read: " + text);
		} catch (const std::exception &error) {
			throw std::runtime_error("line " + std::to_string(number) + ": " + error.what());
		}
	}
}

uint64_t Run::Sent() const
{
	uint64_t sum = 0;

	for (const Flow &flow : m_flows)
		sum += flow.device->data;
	return sum;
}

uint64_t Run::Drops() const
{
	uint64_t sum = 0;

	for (const auto &port : m_ports)
		sum += port->Drops();
	return sum;
}

void Run::Go()
{
	uint64_t sent = 0, drops = 0;

	Simulator::Schedule(NanoSeconds(m_from), [&] { sent = Sent(), drops = Drops(); });
	Simulator::Stop(NanoSeconds(m_until));
	Simulator::Run();
	for (size_t flow = 0; flow < m_flows.size(); flow++)
		std::printf("{\"flow\": %zu, \"received\": %llu, \"whole\": %llu}\n", flow, (unsigned long long)m_flows[flow].received,
			    (unsigned long long)m_flows[flow].whole);
	std::printf("{\"sent\": %llu, \"dropped\": %llu}\n", (unsigned long long)(Sent() - sent), (unsigned long long)(Drops() - drops));
}

} // namespace

int main()
{
	Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpCubic::GetTypeId()));
	Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(TCP_SEGMENT));
	Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(MOST_DATA));
	Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 20));
	Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(Seconds(1)));
	Config::SetDefault("ns3::TcpSocket::ConnCount", UintegerValue(1000));
	Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
	try {
		Run run;

		run.Read(std::cin);
		run.Go();
		std::fflush(stdout);
		std::_Exit(0);
	} catch (const std::exception &error) {
		std::cerr << error.what() << "\n";
		return 1;
	}
}
