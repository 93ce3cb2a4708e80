/* MCP as a congestion control of ns-3's TCP, in the arithmetic of agents/bpf/mcp.h, which hosts run; past its deadline a flow
 * continues under ns-3's DCTCP. What agents/bpf/mcp_flow.h and mcp.bpf.c do around that arithmetic is done here likewise. */
#ifndef BATON_SIMULATION_MCP_H
#define BATON_SIMULATION_MCP_H

#include "ns3/tcp-dctcp.h"

#include <linux/types.h>

#include "agents/bpf/mcp.h"

namespace baton
{

class Mcp : public ns3::TcpDctcp
{
      public:
	Mcp(const mcp_settings &settings, uint64_t size, uint64_t deadline_ns);

	/* The application writes its data now: the deadline counts from here. */
	void Begin();
	/* The deadline was refused: at the next acknowledgement DCTCP continues. */
	void Refuse() { m_deadline_us = 0; }
	/* It counts after all: the sender marks what is left of the flow with the time that is left. */
	void Admit();
	bool GaveUp() const { return m_phase == Phase::GivenUp; }
	bool Switched() const { return m_phase == Phase::Dctcp; }

	std::string GetName() const override { return "BatonMcp"; }
	void Init(ns3::Ptr<ns3::TcpSocketState> state) override;
	bool HasCongControl() const override { return m_phase == Phase::First || m_phase == Phase::Running || m_phase == Phase::GivenUp; }
	void CongControl(ns3::Ptr<ns3::TcpSocketState> state, const ns3::TcpRateOps::TcpRateConnection &,
			 const ns3::TcpRateOps::TcpRateSample &) override;
	void PktsAcked(ns3::Ptr<ns3::TcpSocketState> state, uint32_t segments, const ns3::Time &rtt) override;
	uint32_t GetSsThresh(ns3::Ptr<const ns3::TcpSocketState> state, uint32_t in_flight) override;
	void CongestionStateSet(ns3::Ptr<ns3::TcpSocketState> state, const ns3::TcpSocketState::TcpCongState_t now) override;
	ns3::Ptr<ns3::TcpCongestionOps> Fork() override;

      private:
	enum class Phase { Waiting, First, Running, GivenUp, Dctcp };

	uint64_t ElapsedUs() const;
	uint64_t RttUs() const;
	uint64_t QueueUs() const;
	uint64_t Acked() const;
	uint64_t Remaining() const { return m_size > Acked() ? m_size - Acked() : 0; }
	uint64_t Expected(uint64_t remaining, uint64_t elapsed_us) const;
	void BeginFlow();
	void BeginWindow();
	bool EndWindow();
	void SendAt(uint64_t rate, uint32_t segments);
	void SendAtRate();
	void BecomeDctcp();

	mcp_settings m_settings;
	uint64_t m_size, m_asked_us, m_deadline_us; /* the deadline as asked for, and as it counts */
	ns3::TcpSocketState *m_state = nullptr;
	Phase m_phase = Phase::Waiting;
	mcp_flow m_flow{};
	uint64_t m_started_us = 0, m_began_us = 0, m_window_acked = 0, m_delivered = 0, m_marked = 0;
	ns3::SequenceNumber32 m_base, m_window_end;
};

} // namespace baton

#endif
