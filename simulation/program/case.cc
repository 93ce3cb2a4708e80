#include "case.h"

#include <functional>
#include <map>
#include <sstream>
#include <stdexcept>

namespace baton
{

namespace
{

Scheme SchemeOf(const std::string &name)
{
	static const std::map<std::string, Scheme> known = {
		{"dctcp", Scheme::Dctcp}, {"pias", Scheme::Pias}, {"karuna", Scheme::Karuna}, {"pfabric", Scheme::Pfabric}};
	auto found = known.find(name);

	if (found == known.end())
		throw std::runtime_error("scheme " + name + " is unknown");
	return found->second;
}

template <typename T> std::function<void(std::istream &)> Into(T &field)
{
	return [&field](std::istream &in) { in >> field; };
}

std::function<void(std::istream &)> Into(std::vector<uint64_t> &field)
{
	return [&field](std::istream &in) {
		for (uint64_t value; in >> value;)
			field.push_back(value);
		if (in.eof())
			in.clear();
	};
}

} // namespace

Case ReadCase(std::istream &in)
{
	Case c;
	const std::map<std::string, std::function<void(std::istream &)>> fields = {
		{"scheme", [&c](std::istream &line) { std::string name; line >> name; c.scheme = SchemeOf(name); }},
		{"leaves", Into(c.leaves)}, {"spines", Into(c.spines)}, {"hosts_per_leaf", Into(c.hosts_per_leaf)},
		{"host_bps", Into(c.host_bps)}, {"uplink_bps", Into(c.uplink_bps)},
		{"host_delay_ns", Into(c.host_delay_ns)}, {"uplink_delay_ns", Into(c.uplink_delay_ns)},
		{"spray", Into(c.spray)}, {"buffer", Into(c.buffer)}, {"buffer_uplink", Into(c.buffer_uplink)},
		{"share_256", Into(c.share_256)}, {"reserved", Into(c.reserved)},
		{"mark_host", Into(c.mark_host)}, {"mark_uplink", Into(c.mark_uplink)},
		{"beta", Into(c.beta)}, {"alpha", Into(c.alpha)},
		{"min_rto_ns", Into(c.min_rto_ns)}, {"ahead_ns", Into(c.ahead_ns)}, {"initial_window", Into(c.initial_window)},
		{"ack_segments", Into(c.ack_segments)}, {"ack_hold_ns", Into(c.ack_hold_ns)},
		{"kappa", Into(c.kappa)}, {"aim", Into(c.aim)}, {"termination", Into(c.termination)},
		{"multiple", Into(c.multiple)}, {"crowd", Into(c.crowd)},
		{"age_least", Into(c.age_least)}, {"age_most", Into(c.age_most)},
		{"pfabric_window", Into(c.pfabric_window)}, {"pfabric_most", Into(c.pfabric_most)},
		{"pfabric_rto_ns", Into(c.pfabric_rto_ns)}, {"pfabric_due", Into(c.pfabric_due)},
		{"limit_ns", Into(c.limit_ns)}, {"watch", Into(c.watch)}, {"watch_from_ns", Into(c.watch_from_ns)},
		{"seed", Into(c.seed)},
		{"flow", [&c](std::istream &line) {
			 FlowPlan f;
			 line >> f.start_ns >> f.source >> f.target >> f.size >> f.type >> f.deadline_ns >> f.refused_ns >> f.admitted_ns;
			 if (line && (f.source >= c.Hosts() || f.target >= c.Hosts() || f.source == f.target || !f.size))
				 throw std::runtime_error("a flow joins two different hosts of the fabric, and has a size");
			 c.flows.push_back(f);
		 }},
	};
	std::string text, key;

	for (unsigned number = 1; std::getline(in, text); number++) {
		std::istringstream line(text);

		if (!(line >> key))
			continue;
		try {
			auto field = fields.find(key);

			if (field == fields.end())
				throw std::runtime_error("key " + key + " is unknown");
			field->second(line);
			if (line.fail())
				throw std::runtime_error("a value of " + key + " is missing or no number");
		} catch (const std::runtime_error &error) {
			throw std::runtime_error("line " + std::to_string(number) + ": " + error.what());
		}
	}
	if (c.leaves > 1 && !c.spines)
		throw std::runtime_error("spines is 0; several leaves need one at least");
	return c;
}

} // namespace baton
