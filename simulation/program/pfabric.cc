#include "pfabric.h"

#include "ns3/ip-l4-protocol.h"
#include "ns3/ipv4-l3-protocol.h"
#include "ns3/ipv4-route.h"
#include "ns3/simulator.h"

#include <algorithm>

namespace baton
{

using namespace ns3;

namespace
{

constexpr uint32_t PROBES_AFTER = 5, OTHERS = 1u << 31;

/* Hands a host's pFabric packets to the flows. */
class Receiver : public IpL4Protocol
{
      public:
	explicit Receiver(PfabricFlows &flows) : m_flows(flows) {}
	int GetProtocolNumber() const override { return PFABRIC_PROTOCOL; }
	RxStatus Receive(Ptr<Packet> packet, const Ipv4Header &, Ptr<Ipv4Interface>) override
	{
		m_flows.Arrived(packet);
		return RX_OK;
	}
	RxStatus Receive(Ptr<Packet>, const Ipv6Header &, Ptr<Ipv6Interface>) override { return RX_OK; }
	void SetDownTarget(DownTargetCallback) override {}
	void SetDownTarget6(DownTargetCallback6) override {}
	DownTargetCallback GetDownTarget() const override { return {}; }
	DownTargetCallback6 GetDownTarget6() const override { return {}; }

      private:
	PfabricFlows &m_flows;
};

void Put(uint8_t *at, uint32_t word)
{
	for (int byte = 0; byte < 4; byte++)
		at[byte] = uint8_t(word >> (24 - 8 * byte));
}

/* The header: path and flow number, segment, segments left, kind. */
class Head : public Header
{
      public:
	uint8_t bytes[PFABRIC_BYTES] = {};
	static TypeId GetTypeId()
	{
		static TypeId id = TypeId("baton::PfabricHead").SetParent<Header>();

		return id;
	}
	TypeId GetInstanceTypeId() const override { return GetTypeId(); }
	uint32_t GetSerializedSize() const override { return PFABRIC_BYTES; }
	void Serialize(Buffer::Iterator at) const override { at.Write(bytes, PFABRIC_BYTES); }
	uint32_t Deserialize(Buffer::Iterator at) override
	{
		at.Read(bytes, PFABRIC_BYTES);
		return PFABRIC_BYTES;
	}
	void Print(std::ostream &) const override {}
};

} // namespace

PfabricFlows::PfabricFlows(const Case &what, Fabric &fabric, Record &record)
	: m_case(what), m_fabric(fabric), m_record(record), m_flows(what.flows.size())
{
	for (uint32_t host = 0; host < what.Hosts(); host++)
		fabric.Host(host)->GetObject<Ipv4L3Protocol>()->Insert(CreateObject<Receiver>(*this));
	for (uint32_t flow = 0; flow < what.flows.size(); flow++)
		Simulator::Schedule(NanoSeconds(what.flows[flow].start_ns), &PfabricFlows::Start, this, flow);
}

void PfabricFlows::Start(uint32_t number)
{
	Flow &flow = m_flows[number];

	flow.segments = uint32_t((m_case.flows[number].size + SEGMENT - 1) / SEGMENT);
	flow.fate.resize(flow.segments, Fate::Unsent);
	flow.sent_ns.resize(flow.segments);
	flow.received.resize(flow.segments);
	flow.window = m_case.pfabric_window;
	flow.threshold = m_case.pfabric_most;
	SendMore(number);
	Arm(number);
}

void PfabricFlows::SendMore(uint32_t number)
{
	Flow &flow = m_flows[number];
	uint32_t at = flow.lowest;

	while (flow.flying < uint32_t(flow.window) && (flow.lost || flow.next < flow.segments)) {
		if (flow.lost) {
			while (flow.fate[at] != Fate::Lost)
				at++;
			flow.lost--;
		} else {
			at = flow.next++;
		}
		uint64_t left = m_case.flows[number].size - uint64_t(at) * SEGMENT;

		flow.fate[at] = Fate::Flying;
		flow.sent_ns[at] = Simulator::Now().GetNanoSeconds();
		flow.flying++;
		Send(number, Kind::Data, at, Urgency(number), uint32_t(std::min<uint64_t>(left, SEGMENT)));
	}
}

/* What ports go by, the least first: the segments that are left; or, where deadlines count, the deadline of a flow that has one and
 * is not late, in us, and after all such flows the segments left of the others. */
uint32_t PfabricFlows::Urgency(uint32_t number) const
{
	const FlowPlan &plan = m_case.flows[number];
	uint64_t due_ns = plan.start_ns + plan.deadline_ns;
	uint32_t left = m_flows[number].segments - m_flows[number].acked;

	if (!m_case.pfabric_due)
		return left;
	if (plan.type == 1 && uint64_t(Simulator::Now().GetNanoSeconds()) < due_ns)
		return uint32_t(std::min<uint64_t>(due_ns / 1000, OTHERS - 1)) + 1;
	return OTHERS + left;
}

void PfabricFlows::Send(uint32_t number, Kind kind, uint32_t segment, uint32_t remaining, uint32_t payload)
{
	bool back = kind == Kind::Ack || kind == Kind::ProbeAck;
	const FlowPlan &plan = m_case.flows[number];
	uint32_t from = back ? plan.target : plan.source, to = back ? plan.source : plan.target;
	Ptr<Packet> packet = Create<Packet>(payload);
	Head head;

	Put(head.bytes, number);
	Put(head.bytes + 4, number);
	Put(head.bytes + 8, segment);
	Put(head.bytes + 12, remaining);
	head.bytes[16] = uint8_t(kind);
	packet->AddHeader(head);
	m_fabric.Host(from)->GetObject<Ipv4L3Protocol>()->Send(packet, AddressOf(from), AddressOf(to), PFABRIC_PROTOCOL,
								m_fabric.Routing(from)->Route(AddressOf(to)));
}

void PfabricFlows::Arrived(Ptr<const Packet> packet)
{
	uint8_t head[PFABRIC_BYTES];

	packet->CopyData(head, sizeof(head));

	uint32_t number = Word(head + 4), segment = Word(head + 8);
	Flow &flow = m_flows[number];

	switch (Kind(head[16])) {
	case Kind::Data:
		Send(number, Kind::Ack, segment, 0, 0);
		if (!flow.received.empty() && !flow.received[segment]) {
			flow.received[segment] = true;
			if (++flow.arrived == flow.segments)
				m_record.Finished(number);
		}
		break;
	case Kind::Ack:
		Acked(number, segment);
		break;
	case Kind::Probe:
		Send(number, Kind::ProbeAck, segment, 0, 0);
		break;
	case Kind::ProbeAck:
		ProbeAcked(number);
		break;
	}
}

void PfabricFlows::Acked(uint32_t number, uint32_t segment)
{
	Flow &flow = m_flows[number];

	if (flow.fate.empty() || flow.fate[segment] == Fate::Acked)
		return;
	if (flow.fate[segment] == Fate::Flying)
		flow.flying--;
	else
		flow.lost--; /* late, not lost */
	flow.fate[segment] = Fate::Acked;
	flow.timeouts = 0;
	flow.probing = false;
	if (++flow.acked == flow.segments) {
		flow.timer.Cancel();
		flow.fate = {};
		flow.sent_ns = {};
		flow.received = {};
		return;
	}
	flow.window = std::min<double>(flow.window + (flow.window < flow.threshold ? 1 : 1 / flow.window), m_case.pfabric_most);
	if (segment == flow.lowest) {
		while (flow.fate[flow.lowest] == Fate::Acked)
			flow.lowest++;
		Arm(number);
	}
	SendMore(number);
}

void PfabricFlows::ProbeAcked(uint32_t number)
{
	Flow &flow = m_flows[number];

	if (flow.fate.empty() || !flow.probing)
		return;
	flow.probing = false;
	flow.timeouts = 0;
	SendMore(number);
	Arm(number);
}

void PfabricFlows::Arm(uint32_t number)
{
	Flow &flow = m_flows[number];

	flow.timer.Cancel();
	flow.timer = Simulator::Schedule(NanoSeconds(m_case.pfabric_rto_ns), &PfabricFlows::TimedOut, this, number);
}

void PfabricFlows::TimedOut(uint32_t number)
{
	Flow &flow = m_flows[number];
	uint64_t now = Simulator::Now().GetNanoSeconds();

	for (uint32_t at = flow.lowest; at < flow.next; at++)
		if (flow.fate[at] == Fate::Flying && now - flow.sent_ns[at] >= m_case.pfabric_rto_ns) {
			flow.fate[at] = Fate::Lost;
			flow.flying--;
			flow.lost++;
		}
	flow.threshold = std::max(flow.window / 2, 2.0);
	flow.window = 1;
	if (++flow.timeouts >= PROBES_AFTER) {
		flow.probing = true;
		Send(number, Kind::Probe, flow.lowest, Urgency(number), 0);
	} else {
		SendMore(number);
	}
	Arm(number);
}

} // namespace baton
