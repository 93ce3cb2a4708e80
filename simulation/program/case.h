/* What one run simulates, as simulation/schemes.py writes it: lines of a key and its values, and a line for each flow. */
#ifndef BATON_SIMULATION_CASE_H
#define BATON_SIMULATION_CASE_H

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

namespace baton
{

enum class Scheme { Dctcp, Pias, Karuna, Pfabric };

struct FlowPlan
{
	uint64_t start_ns;
	uint32_t source; /* host, from 0 */
	uint32_t target;
	uint64_t size; /* bytes of payload */
	uint32_t type; /* 1: deadline, 2: known size, 3: neither */
	uint64_t deadline_ns; /* after the start; 0: none */
	uint64_t refused_ns; /* after the start it hears that its deadline is refused; 0: never */
	uint64_t admitted_ns; /* after the start it hears that its deadline counts after all; 0: never */
};

struct Case
{
	Scheme scheme = Scheme::Dctcp;
	uint32_t leaves = 1, spines = 0, hosts_per_leaf = 2;
	uint64_t host_bps = 10'000'000'000, uplink_bps = 40'000'000'000;
	uint64_t host_delay_ns = 20'000, uplink_delay_ns = 200; /* one way, processing included */
	bool spray = false; /* paths by packet, not by flow */
	uint64_t buffer = 360'000, buffer_uplink = 360'000; /* bytes a port: towards a host, and between switches */
	std::vector<uint64_t> share_256, reserved; /* of each queue, the first first; the last counts for all that follow */
	uint64_t mark_host = 97'500, mark_uplink = 375'000; /* bytes in a port from which on it marks */
	std::vector<uint64_t> beta, alpha; /* bytes */
	uint64_t min_rto_ns = 2'000'000, ahead_ns = 1'000'000; /* connections are opened so long before their flow */
	uint32_t initial_window = 70; /* segments */
	uint32_t ack_segments = 1; /* that TCP receivers acknowledge together, or ack_hold_ns after the first */
	uint64_t ack_hold_ns = 40'000'000; /* TCP_DELACK_MIN of Linux */
	uint32_t kappa = 256, aim = 960, termination = 3, multiple = 3072, crowd = 32; /* of MCP, as in mcp.h */
	uint32_t age_least = 2, age_most = 10; /* timeouts until a flow is promoted */
	uint32_t pfabric_window = 70, pfabric_most = 70; /* segments */
	uint64_t pfabric_rto_ns = 250'000;
	bool pfabric_due = false; /* flows with deadlines first, the earliest before the others */
	uint64_t limit_ns = 0; /* the run ends here at the latest; 0: when all flows have */
	int64_t watch = -1; /* the host towards which the port's queue is observed */
	uint64_t watch_from_ns = 0;
	uint32_t seed = 1;
	std::vector<FlowPlan> flows;

	uint32_t Hosts() const { return leaves * hosts_per_leaf; }
};

/* Throws std::runtime_error, which names the line, where it cannot be read. */
Case ReadCase(std::istream &in);

} // namespace baton

#endif
