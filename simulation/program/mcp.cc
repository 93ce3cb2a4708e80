#include "mcp.h"

#include "ns3/simulator.h"

#include <algorithm>

namespace baton
{

using namespace ns3;

namespace
{

constexpr uint64_t FIRST_RTT_US = 1000;

uint64_t NowUs()
{
	return uint64_t(Simulator::Now().GetMicroSeconds());
}

} // namespace

Mcp::Mcp(const mcp_settings &settings, uint64_t size, uint64_t deadline_ns)
	: m_settings(settings), m_size(size), m_asked_us(deadline_ns / 1000), m_deadline_us(deadline_ns / 1000)
{
}

Ptr<TcpCongestionOps> Mcp::Fork()
{
	return CopyObject<Mcp>(this);
}

void Mcp::Init(Ptr<TcpSocketState> state)
{
	m_state = PeekPointer(state);
	TcpDctcp::Init(state);
}

uint64_t Mcp::ElapsedUs() const
{
	return NowUs() - m_started_us;
}

uint64_t Mcp::RttUs() const
{
	uint64_t rtt = uint64_t(m_state->m_srtt.Get().GetMicroSeconds());

	return rtt ? rtt : FIRST_RTT_US;
}

uint64_t Mcp::QueueUs() const
{
	uint64_t least = m_state->m_minRtt == Time::Max() ? RttUs() : uint64_t(m_state->m_minRtt.GetMicroSeconds());

	return mcp_queue_us(RttUs(), least, m_flow.rate, m_state->m_segmentSize);
}

uint64_t Mcp::Acked() const
{
	return m_state->m_lastAckedSeq > m_base ? uint64_t(m_state->m_lastAckedSeq - m_base) : 0;
}

/* gamma, with one segment more than remains: see expected_of in mcp_flow.h. */
uint64_t Mcp::Expected(uint64_t remaining, uint64_t elapsed_us) const
{
	uint64_t left_us = mcp_time_left(&m_settings, m_deadline_us, elapsed_us, RttUs());

	return mcp_expected(remaining + m_state->m_segmentSize, left_us, RttUs());
}

void Mcp::Begin()
{
	m_started_us = NowUs();
	m_base = m_state->m_nextTxSequence;
	BeginFlow();
}

void Mcp::Admit()
{
	m_deadline_us = m_asked_us;
	BeginFlow();
}

void Mcp::BeginFlow()
{
	mcp_window window = {};

	window.rtt_us = RttUs();
	window.mss = m_state->m_segmentSize;
	window.expected = Expected(Remaining(), ElapsedUs());
	mcp_start(&m_settings, &m_flow, &window);
	m_phase = Phase::First;
	m_state->m_paceInitialWindow = true;
	SendAtRate();
}

void Mcp::SendAt(uint64_t rate, uint32_t segments)
{
	m_state->m_pacing = true;
	m_state->m_pacingRate = DataRate(rate * 8);
	m_state->m_cWnd = segments * m_state->m_segmentSize;
	m_state->m_cWndInfl = m_state->m_cWnd;
}

void Mcp::SendAtRate()
{
	SendAt(m_flow.rate, mcp_in_flight(&m_settings, m_flow.rate, RttUs(), QueueUs(), m_state->m_segmentSize));
}

void Mcp::BecomeDctcp()
{
	m_phase = Phase::Dctcp;
	m_state->m_pacing = false;
	m_state->m_ssThresh = std::max(m_state->m_cWnd.Get(), 2 * m_state->m_segmentSize); /* no slow start after the switch */
}

void Mcp::BeginWindow()
{
	m_began_us = NowUs();
	m_window_acked = Acked();
	m_window_end = m_state->m_nextTxSequence;
	m_delivered = m_marked = 0;
}

bool Mcp::EndWindow()
{
	uint64_t elapsed_us = ElapsedUs(), remaining = Remaining();
	mcp_window window = {};

	window.rtt_us = RttUs();
	window.mss = m_state->m_segmentSize;
	window.expected = Expected(remaining, elapsed_us);
	window.elapsed_us = NowUs() - m_began_us;
	window.acked = Acked() - m_window_acked;
	window.delivered = uint32_t(m_delivered);
	window.marked = uint32_t(m_marked);
	window.queue_us = QueueUs();
	window.chance_us = mcp_chance(&m_settings, remaining, m_deadline_us - elapsed_us);
	if (m_phase == Phase::Running)
		mcp_step(&m_settings, &m_flow, &window);
	m_phase = Phase::Running;
	BeginWindow();
	return !mcp_gives_up(&m_settings, &m_flow, &window, remaining, m_deadline_us - elapsed_us);
}

void Mcp::CongControl(Ptr<TcpSocketState>, const TcpRateOps::TcpRateConnection &, const TcpRateOps::TcpRateSample &)
{
	if (m_phase == Phase::GivenUp)
		return;
	if (ElapsedUs() >= m_deadline_us) {
		BecomeDctcp();
		return;
	}
	if (m_phase == Phase::First || m_state->m_lastAckedSeq >= m_window_end) {
		if (EndWindow()) {
			SendAtRate();
		} else {
			m_phase = Phase::GivenUp;
			SendAt(uint64_t(m_state->m_segmentSize) * SLOWEST, 1);
		}
	}
}

void Mcp::PktsAcked(Ptr<TcpSocketState> state, uint32_t segments, const Time &rtt)
{
	m_delivered += segments;
	if (state->m_ecnState == TcpSocketState::ECN_ECE_RCVD)
		m_marked += segments;
	TcpDctcp::PktsAcked(state, segments, rtt);
}

uint32_t Mcp::GetSsThresh(Ptr<const TcpSocketState> state, uint32_t in_flight)
{
	if (!HasCongControl())
		return TcpDctcp::GetSsThresh(state, in_flight);
	return std::max(state->m_cWnd.Get(), 2 * state->m_segmentSize);
}

/* A lost segment halves the rate, a timeout sets it to one segment a round trip. */
void Mcp::CongestionStateSet(Ptr<TcpSocketState> state, const TcpSocketState::TcpCongState_t now)
{
	TcpDctcp::CongestionStateSet(state, now);
	if (m_phase != Phase::First && m_phase != Phase::Running)
		return;
	if (now == TcpSocketState::CA_RECOVERY)
		m_flow.rate >>= 1;
	else if (now == TcpSocketState::CA_LOSS)
		m_flow.rate = mcp_restart(&m_settings, RttUs(), state->m_segmentSize);
	else
		return;
	SendAtRate();
}

} // namespace baton
