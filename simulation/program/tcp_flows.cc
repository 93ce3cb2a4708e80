#include "tcp_flows.h"

#include "ns3/boolean.h"
#include "ns3/config.h"
#include "ns3/double.h"
#include "ns3/inet-socket-address.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/tcp-l4-protocol.h"
#include "ns3/tcp-prr-recovery.h"
#include "ns3/tcp-socket-base.h"
#include "ns3/tcp-socket-factory.h"
#include "ns3/uinteger.h"


#include <random>
#include <stdexcept>

namespace baton
{

using namespace ns3;

namespace
{

constexpr uint16_t SERVER = 9, FIRST_PORT = 1024;
constexpr uint32_t MOST_FLOWS = 60'000, BUFFER = 1 << 30;

TagRules RulesOf(const Case &what)
{
	TagRules rules;

	rules.beta = what.beta;
	rules.alpha = what.alpha;
	rules.rto_ns = what.min_rto_ns * 95 / 100;
	rules.by_deadline = rules.by_size = what.scheme == Scheme::Karuna;
	rules.first = what.scheme == Scheme::Karuna ? 1 : 0;
	return rules;
}

/* ns-3's count of duplicate acknowledgements, which only its own sockets may name. */
struct Counted : TcpSocketBase
{
	static constexpr uint32_t TcpSocketBase::*duplicates = &Counted::m_dupAckCount;
};

/* An acknowledgement beyond a window that was reduced for marks ends its count of duplicates (RFC 6675, 5). ns-3.44 keeps the
 * count if that acknowledgement says of a gap as well (SACK), and then ends the run by an assertion. */
void CountAnew(TcpSocketBase *socket, TcpSocketState::TcpCongState_t before, TcpSocketState::TcpCongState_t now)
{
	if (before == TcpSocketState::CA_CWR && now == TcpSocketState::CA_OPEN)
		socket->*Counted::duplicates = 0;
}

} // namespace

void TcpFlows::SetDefaults(const Case &what)
{
	Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpDctcp::GetTypeId()));
	Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TcpPrrRecovery::GetTypeId()));
	Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(SEGMENT));
	Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(what.initial_window));
	Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(BUFFER));
	Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(BUFFER >> 4));
	Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(what.ack_segments));
	Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(NanoSeconds(what.ack_hold_ns)));
	Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(NanoSeconds(5 * what.min_rto_ns)));
	Config::SetDefault("ns3::TcpSocket::ConnCount", UintegerValue(1000));
	Config::SetDefault("ns3::TcpSocket::DataRetries", UintegerValue(100'000));
	Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(NanoSeconds(what.min_rto_ns)));
	Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MicroSeconds(10)));
	Config::SetDefault("ns3::TcpSocketBase::MaxSegLifetime", DoubleValue(0.001));
	Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
	Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue("On"));
}

TcpFlows::TcpFlows(const Case &what, Fabric &fabric, Record &record)
	: m_case(what), m_fabric(fabric), m_record(record), m_rules(RulesOf(what)), m_by_port(what.Hosts())
{
	std::mt19937 dice(what.seed);
	std::uniform_int_distribution<unsigned> kappas(what.age_least, what.age_most);

	m_mcp = mcp_settings{what.host_bps / 8, uint32_t(what.mark_host / (SEGMENT + TCP_BYTES + IP_BYTES)), what.kappa, what.aim,
			     what.termination, what.multiple, what.crowd};
	m_flows.reserve(what.flows.size());
	for (uint32_t flow = 0; flow < what.flows.size(); flow++) {
		const FlowPlan &plan = what.flows[flow];
		auto &ports = m_by_port[plan.source];

		if (ports.size() >= MOST_FLOWS || plan.size > BUFFER)
			throw std::runtime_error("a host sends more than 60,000 flows, or a flow has more than a GB");
		m_flows.emplace_back(Tag(plan.type, plan.size, plan.start_ns + plan.deadline_ns, kappas(dice)));
		m_ports.push_back(uint16_t(FIRST_PORT + ports.size()));
		ports.push_back(flow);
		Simulator::Schedule(NanoSeconds(plan.start_ns > what.ahead_ns ? plan.start_ns - what.ahead_ns : 0), &TcpFlows::Open,
				    this, flow);
		Simulator::Schedule(NanoSeconds(plan.start_ns), &TcpFlows::Start, this, flow);
	}
	for (uint32_t host = 0; host < what.Hosts(); host++) {
		Ptr<Socket> listening = Socket::CreateSocket(fabric.Host(host), TcpSocketFactory::GetTypeId());

		listening->Bind(InetSocketAddress(Ipv4Address::GetAny(), SERVER));
		listening->Listen();
		listening->SetAcceptCallback(
			Callback<bool, Ptr<Socket>, const Address &>([](Ptr<Socket>, const Address &) { return true; }),
			Callback<void, Ptr<Socket>, const Address &>(
				[this, host](Ptr<Socket> socket, const Address &from) { Accepted(host, socket, from); }));
		fabric.Routing(host)->SetTagging(
			[this, host](Ptr<const Packet> packet, uint32_t, uint8_t tos) { return TosFor(host, packet, tos); });
	}
}

void TcpFlows::Open(uint32_t flow)
{
	const FlowPlan &plan = m_case.flows[flow];
	Flow &state = m_flows[flow];

	state.socket = Socket::CreateSocket(m_fabric.Host(plan.source), TcpSocketFactory::GetTypeId());

	Ptr<TcpSocketBase> sender = DynamicCast<TcpSocketBase>(state.socket);

	sender->TraceConnectWithoutContext("CongState", MakeBoundCallback(&CountAnew, PeekPointer(sender)));
	if (m_case.scheme == Scheme::Karuna && plan.type == 1) {
		state.mcp = CreateObject<Mcp>(m_mcp, plan.size, plan.deadline_ns);
		sender->SetCongestionControlAlgorithm(state.mcp);
	}
	state.socket->Bind(InetSocketAddress(AddressOf(plan.source), m_ports[flow]));
	state.socket->Connect(InetSocketAddress(AddressOf(plan.target), SERVER));
}

void TcpFlows::Start(uint32_t flow)
{
	Flow &state = m_flows[flow];

	if (state.mcp) {
		state.mcp->Begin();
		WatchForGivingUp(flow);
		if (uint64_t after_ns = m_case.flows[flow].refused_ns)
			Simulator::Schedule(NanoSeconds(after_ns), &TcpFlows::Refuse, this, flow);
		if (uint64_t after_ns = m_case.flows[flow].admitted_ns)
			Simulator::Schedule(NanoSeconds(after_ns), &TcpFlows::Admit, this, flow);
	}
	state.socket->Send(Create<Packet>(uint32_t(m_case.flows[flow].size)));
}

void TcpFlows::Refuse(uint32_t flow)
{
	m_flows[flow].tag.Refuse();
	if (m_flows[flow].mcp)
		m_flows[flow].mcp->Refuse();
}

void TcpFlows::Admit(uint32_t flow)
{
	if (m_record.Ended(flow))
		return;
	m_flows[flow].tag.Admit();
	m_flows[flow].mcp->Admit();
}

/* MCP gives a flow up between two acknowledgements; it is told of within a tenth of its deadline. */
void TcpFlows::WatchForGivingUp(uint32_t flow)
{
	const FlowPlan &plan = m_case.flows[flow];

	if (m_case.termination == MCP_NEVER || m_record.Ended(flow) || m_flows[flow].mcp->Switched())
		return;
	if (m_flows[flow].mcp->GaveUp())
		m_record.GaveUp(flow);
	else
		Simulator::Schedule(NanoSeconds(plan.deadline_ns / 10 + 1), &TcpFlows::WatchForGivingUp, this, flow);
}

void TcpFlows::Accepted(uint32_t, Ptr<Socket> socket, const Address &from)
{
	InetSocketAddress peer = InetSocketAddress::ConvertFrom(from);
	uint32_t flow = m_by_port.at(peer.GetIpv4().Get() - FIRST_ADDRESS).at(peer.GetPort() - FIRST_PORT);

	m_flows[flow].peer = socket;
	socket->SetRecvCallback(Callback<void, Ptr<Socket>>([this, flow](Ptr<Socket> s) { Received(flow, s); }));
	auto closed = Callback<void, Ptr<Socket>>([](Ptr<Socket> s) { s->Close(); });
	socket->SetCloseCallbacks(closed, closed);
}

void TcpFlows::Received(uint32_t flow, Ptr<Socket> socket)
{
	Flow &state = m_flows[flow];

	while (Ptr<Packet> packet = socket->Recv())
		state.received += packet->GetSize();
	if (state.received < m_case.flows[flow].size || m_record.Ended(flow))
		return;
	m_record.Finished(flow, state.tag.Promotions());
	state.socket->Close();
	state.socket = state.peer = nullptr; /* ns-3 keeps them until they are closed */
	state.mcp = nullptr;
}

uint8_t TcpFlows::TosFor(uint32_t host, Ptr<const Packet> packet, uint8_t tos)
{
	uint8_t tcp[TCP_BYTES];
	unsigned queue = 0; /* of segments without payload, as in tagger.bpf.c */

	packet->CopyData(tcp, sizeof(tcp));

	uint16_t port = Half(tcp);

	uint32_t payload = packet->GetSize() - (tcp[12] >> 4) * 4u;

	if (payload) {
		uint32_t first = Word(tcp + 4) - 1; /* ns-3 counts from 0, SYN */
		Flow &state = m_flows[m_by_port[host].at(port - FIRST_PORT)];

		queue = state.tag.Queue(m_rules, first, uint64_t(first) + payload, Simulator::Now().GetNanoSeconds());
	}
	return uint8_t(TosOf(queue) | (tos & ECN_BITS));
}

} // namespace baton
