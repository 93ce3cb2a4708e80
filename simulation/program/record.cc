#include "record.h"

#include "ports.h"

#include "ns3/simulator.h"

#include <cinttypes>
#include <cstdio>

namespace baton
{

void Record::End(uint32_t flow, const char *how, unsigned promotions)
{
	if (m_ended[flow])
		return;

	uint64_t now = ns3::Simulator::Now().GetNanoSeconds();
	auto clock = std::chrono::steady_clock::now();

	m_ended[flow] = true;
	std::printf("{\"flow\": %u, \"end\": \"%s\", \"took_ns\": %" PRIu64 ", \"promotions\": %u}\n", flow, how,
		    now - m_case.flows[flow].start_ns, promotions);
	if (++m_count == m_ended.size()) {
		ns3::Simulator::Stop();
	} else if (clock - m_told > std::chrono::milliseconds(500)) {
		std::printf("{\"done\": %zu, \"now_ns\": %" PRIu64 "}\n", m_count, now);
		std::fflush(stdout);
		m_told = clock;
	}
}

void Record::Close(uint64_t drops, uint64_t marks, const FillTimes *watched) const
{
	std::printf("{\"ended\": %zu, \"now_ns\": %" PRIu64 ", \"events\": %" PRIu64 ", \"drops\": %" PRIu64 ", \"marks\": %" PRIu64
		    ", \"watched\": [",
		    m_count, uint64_t(ns3::Simulator::Now().GetNanoSeconds()), ns3::Simulator::GetEventCount(), drops, marks);
	if (watched) {
		const char *between = "";

		for (auto [bytes, ns] : watched->Times()) {
			std::printf("%s[%" PRIu64 ", %" PRIu64 "]", between, bytes, ns);
			between = ", ";
		}
	}
	std::printf("]}\n");
}

} // namespace baton
