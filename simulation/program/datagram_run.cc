/* Simulates senders of datagrams that always have data, on a tree of switches with one queue a port: reads
 *
 *	link A B BIT/S NS		two nodes, by number, and the delay
 *	buffer BYTES			of each port
 *	flow GATED NODE NODE ...	a sender, its switches, its receiver; GATED 1: it sends with permission only
 *	slot FLOW NS BYTES		a permission: from when, how much
 *	from NS, until NS		what is counted: datagrams sent in this time
 *
 * and writes a line of JSON for each flow: the bytes sent, and those of them that arrived. */
#include "ports.h"

#include "ns3/ipv4-header.h"
#include "ns3/node.h"
#include "ns3/nstime.h"
#include "ns3/point-to-point-channel.h"
#include "ns3/point-to-point-net-device.h"
#include "ns3/simulator.h"

#include <cstdio>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>

using namespace ns3;

namespace
{

constexpr uint32_t FRAME = 1514; /* protocol/units.py: FRAME_BYTES */
using Device = Ptr<PointToPointNetDevice>;

struct Datagrams
{
	std::vector<uint32_t> nodes;
	std::vector<Device> hops; /* the device that sends from each node but the last */
	bool gated = false;
	uint64_t gap_ns = 0, credit = 0, sent = 0, received = 0;
	bool sending = false;
};

class Run
{
      public:
	void Read(std::istream &in);
	void Go();

      private:
	void Link(uint32_t one, uint32_t other, uint64_t bps, uint64_t delay_ns);
	void Flow(std::istream &line);
	bool Arrived(uint32_t node, Ptr<const Packet> packet);
	void Permit(uint32_t flow, uint64_t bytes);
	void Send(uint32_t flow);
	bool Counts(uint64_t sent_ns) const { return sent_ns >= m_from && sent_ns < m_until; }
	Ptr<Node> At(uint32_t number);

	uint64_t m_buffer = 150'000, m_from = 0, m_until = 0;
	std::map<uint32_t, Ptr<Node>> m_nodes;
	std::map<std::pair<uint32_t, uint32_t>, Device> m_links;
	std::vector<Datagrams> m_flows;
};

Ptr<Node> Run::At(uint32_t number)
{
	auto [at, is_new] = m_nodes.try_emplace(number);

	if (is_new)
		at->second = CreateObject<Node>();
	return at->second;
}

void Run::Link(uint32_t one, uint32_t other, uint64_t bps, uint64_t delay_ns)
{
	Ptr<PointToPointChannel> channel = CreateObject<PointToPointChannel>();

	channel->SetAttribute("Delay", TimeValue(NanoSeconds(delay_ns)));
	for (auto [from, to] : {std::pair{one, other}, std::pair{other, one}}) {
		Device device = CreateObject<PointToPointNetDevice>();

		device->SetAddress(Mac48Address::Allocate());
		device->SetDataRate(DataRate(bps));
		device->SetQueue(CreateObject<baton::PriorityPort>(baton::Division(m_buffer, UINT32_MAX), UINT64_MAX));
		At(from)->AddDevice(device);
		device->Attach(channel);
		device->SetReceiveCallback([this, from](Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t, const Address &) {
			return Arrived(from, packet);
		});
		m_links[{from, to}] = device;
	}
}

void Run::Flow(std::istream &line)
{
	Datagrams flow;

	line >> flow.gated;
	for (uint32_t node; line >> node;)
		flow.nodes.push_back(node);
	line.clear();
	for (size_t at = 1; at < flow.nodes.size(); at++)
		flow.hops.push_back(m_links.at({flow.nodes[at - 1], flow.nodes[at]}));
	if (flow.hops.empty())
		throw std::runtime_error("a flow has two nodes at least");

	DataRateValue rate;

	flow.hops.front()->GetAttribute("DataRate", rate);
	flow.gap_ns = uint64_t(rate.Get().CalculateBytesTxTime(FRAME).GetNanoSeconds());
	m_flows.push_back(flow);
}

void Run::Read(std::istream &in)
{
	std::string text, key;

	for (unsigned number = 1; std::getline(in, text); number++) {
		std::istringstream line(text);
		uint64_t a, b, c, d;

		line >> key;
		try {
			if (key == "link" && line >> a >> b >> c >> d)
				Link(uint32_t(a), uint32_t(b), c, d);
			else if (key == "buffer")
				line >> m_buffer;
			else if (key == "from")
				line >> m_from;
			else if (key == "until")
				line >> m_until;
			else if (key == "flow")
				Flow(line);
			else if (key == "slot" && line >> a >> b >> c && a < m_flows.size())
				Simulator::Schedule(NanoSeconds(b), &Run::Permit, this, uint32_t(a), c);
			else
				line.setstate(std::ios::failbit);
			if (line.fail())
				throw std::runtime_error("cannot be read: " + text);
		} catch (const std::exception &error) {
			throw std::runtime_error("line " + std::to_string(number) + ": " + error.what());
		}
	}
}

void Run::Permit(uint32_t number, uint64_t bytes)
{
	Datagrams &flow = m_flows[number];

	flow.credit += bytes;
	if (!flow.sending) {
		flow.sending = true;
		Send(number);
	}
}

/* Credits are whole packets in effect; what remains goes with the next. */
void Run::Send(uint32_t number)
{
	Datagrams &flow = m_flows[number];
	uint64_t now = uint64_t(Simulator::Now().GetNanoSeconds());

	flow.sending = now < m_until && (!flow.gated || flow.credit >= FRAME);
	if (!flow.sending)
		return;
	if (flow.gated)
		flow.credit -= FRAME;

	uint32_t stamp = Counts(now);
	Ptr<Packet> packet = Create<Packet>(FRAME - baton::IP_BYTES - baton::PPP_BYTES);
	Ipv4Header ip;

	ip.SetSource(Ipv4Address(stamp));
	ip.SetDestination(Ipv4Address(number));
	packet->AddHeader(ip);
	flow.sent += stamp ? FRAME : 0;
	flow.hops.front()->Send(packet, flow.hops.front()->GetBroadcast(), 0x0800);
	Simulator::Schedule(NanoSeconds(flow.gap_ns), &Run::Send, this, number);
}

bool Run::Arrived(uint32_t node, Ptr<const Packet> packet)
{
	uint8_t ip[baton::IP_BYTES];

	packet->CopyData(ip, sizeof(ip));

	Datagrams &flow = m_flows[baton::Word(ip + 16)];

	for (size_t at = 1; at < flow.hops.size(); at++)
		if (flow.nodes[at] == node) {
			flow.hops[at]->Send(packet->Copy(), flow.hops[at]->GetBroadcast(), 0x0800);
			return true;
		}
	flow.received += baton::Word(ip + 12) ? FRAME : 0;
	return true;
}

void Run::Go()
{
	for (uint32_t flow = 0; flow < m_flows.size(); flow++)
		if (!m_flows[flow].gated) /* not all in step */
			Simulator::Schedule(NanoSeconds(m_flows[flow].gap_ns * (flow * 7919 % 997) / 997), &Run::Permit, this, flow, 0);
	Simulator::Run();
	for (uint32_t flow = 0; flow < m_flows.size(); flow++)
		std::printf("{\"flow\": %u, \"sent\": %llu, \"received\": %llu}\n", flow, (unsigned long long)m_flows[flow].sent,
			    (unsigned long long)m_flows[flow].received);
}

} // namespace

int main()
{
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
