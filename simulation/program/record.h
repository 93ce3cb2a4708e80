/* The results of a run, as lines of JSON on the standard output. */
#ifndef BATON_SIMULATION_RECORD_H
#define BATON_SIMULATION_RECORD_H

#include "case.h"

#include <chrono>

namespace baton
{

/* Says how each flow ends, now and then how far the run is, and stops the simulation when no flow is left. */
class Record
{
      public:
	explicit Record(const Case &what) : m_case(what), m_ended(what.flows.size()), m_told(std::chrono::steady_clock::now()) {}
	void Finished(uint32_t flow, unsigned promotions = 0) { End(flow, "finished", promotions); }
	void GaveUp(uint32_t flow) { End(flow, "given_up", 0); }
	bool Ended(uint32_t flow) const { return m_ended[flow]; }
	void Close(uint64_t drops, uint64_t marks, const class FillTimes *watched) const;

      private:
	void End(uint32_t flow, const char *how, unsigned promotions);

	const Case &m_case;
	std::vector<bool> m_ended;
	size_t m_count = 0;
	std::chrono::steady_clock::time_point m_told;
};

} // namespace baton

#endif
