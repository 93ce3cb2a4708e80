/* Simulates packets that arrive as Poisson processes at one port with strict priorities, to compare with Cobham's formula: reads
 * "rate BIT/S", "seed N", "packets N", and for each priority a line "class QUEUE PACKETS/S BYTES"; writes the mean waiting time,
 * in ns, of each as a line of JSON. Or it reads "division" with the bytes of a buffer and eight shares in 256ths and eight reserves
 * in bytes, and "burst QUEUE QUEUE ...", full packets that come at once; it writes for each whether the port took it. */
#include "ports.h"

#include "ns3/data-rate.h"
#include "ns3/ipv4-header.h"
#include "ns3/node.h"
#include "ns3/nstime.h"
#include "ns3/point-to-point-channel.h"
#include "ns3/point-to-point-net-device.h"
#include "ns3/simulator.h"

#include <cstdio>
#include <iostream>
#include <random>
#include <sstream>

using namespace ns3;

namespace
{

struct Class
{
	unsigned queue;
	double rate;
	uint32_t bytes;
	uint64_t arrived = 0;
	double waited_ns = 0;
	std::deque<uint64_t> since; /* first in first out, as its queue is */
};

std::mt19937_64 dice;
std::vector<Class> classes;
Ptr<PointToPointNetDevice> sender;
uint64_t link_bps = 0, left = 0;

void Arrive(size_t number)
{
	Class &kind = classes[number];
	Ipv4Header ip;
	Ptr<Packet> packet = Create<Packet>(kind.bytes - baton::IP_BYTES - baton::PPP_BYTES);

	ip.SetTos(baton::TosOf(kind.queue));
	packet->AddHeader(ip);
	kind.since.push_back(Simulator::Now().GetNanoSeconds());
	sender->Send(packet, sender->GetBroadcast(), 0x0800);
	if (left && --left)
		Simulator::Schedule(NanoSeconds(std::exponential_distribution<>(kind.rate / 1e9)(dice)), Arrive, number);
}

bool Left(Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t, const Address &)
{
	uint8_t ip[2];

	packet->CopyData(ip, sizeof(ip));
	for (Class &kind : classes)
		if (kind.queue == baton::QueueOf(ip[1])) {
			double took_ns = double(Simulator::Now().GetNanoSeconds() - kind.since.front());

			kind.since.pop_front();
			kind.arrived++;
			kind.waited_ns += took_ns - kind.bytes * 8e9 / double(link_bps);
		}
	return true;
}

/* Lets the packets of a burst come to a port that sends none of them. */
void Burst(const baton::Division &division, std::istream &queues)
{
	Ptr<baton::PriorityPort> port = CreateObject<baton::PriorityPort>(division, UINT64_MAX);
	const char *between = "{\"taken\": [";
	uint8_t frame[baton::FULL_FRAME] = {};

	for (unsigned queue; queues >> queue; between = ", ") {
		frame[baton::PPP_BYTES + 1] = baton::TosOf(queue);
		std::printf("%s%d", between, port->Enqueue(Create<Packet>(frame, sizeof(frame))));
	}
	queues.clear();
	std::printf("]}\n");
}

} // namespace

int main()
{
	std::string text, key;
	baton::Division division(1ull << 40);

	while (std::getline(std::cin, text)) {
		std::istringstream line(text);
		uint64_t seed;
		Class kind{};

		line >> key;
		if (key == "rate")
			line >> link_bps;
		else if (key == "seed" && line >> seed)
			dice.seed(seed);
		else if (key == "packets")
			line >> left;
		else if (key == "class" && line >> kind.queue >> kind.rate >> kind.bytes)
			classes.push_back(kind);
		else if (key == "burst")
			Burst(division, line);
		else if (key == "division" && line >> division.buffer) {
			for (uint32_t &share : division.share_256)
				line >> share;
			for (uint64_t &bytes : division.reserved)
				line >> bytes;
		}
		if (line.fail()) {
			std::cerr << "the line \"" << text << "\" cannot be read\n";
			return 1;
		}
	}
	if (classes.empty())
		return 0;

	Ptr<Node> from = CreateObject<Node>(), to = CreateObject<Node>();
	Ptr<PointToPointChannel> channel = CreateObject<PointToPointChannel>();
	Ptr<PointToPointNetDevice> receiver = CreateObject<PointToPointNetDevice>();

	sender = CreateObject<PointToPointNetDevice>();
	sender->SetQueue(CreateObject<baton::PriorityPort>(division, UINT64_MAX));
	receiver->SetQueue(CreateObject<baton::PriorityPort>(baton::Division(1 << 20), 1 << 20));
	for (const auto &device : {sender, receiver}) {
		device->SetAddress(Mac48Address::Allocate());
		device->SetDataRate(DataRate(link_bps));
	}
	from->AddDevice(sender);
	to->AddDevice(receiver);
	sender->Attach(channel);
	receiver->Attach(channel);
	receiver->SetReceiveCallback(MakeCallback(&Left));
	for (size_t number = 0; number < classes.size(); number++)
		Simulator::Schedule(NanoSeconds(0), Arrive, number);
	Simulator::Run();
	for (const Class &kind : classes)
		std::printf("{\"queue\": %u, \"packets\": %llu, \"mean_wait_ns\": %.3f}\n", kind.queue, (unsigned long long)kind.arrived,
			    kind.waited_ns / double(kind.arrived));
	sender = nullptr;
	Simulator::Destroy();
	return 0;
}
