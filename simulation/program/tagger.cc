#include "tagger.h"

#include <algorithm>

namespace baton
{

unsigned Band(const std::vector<uint64_t> &cuts, uint64_t bytes)
{
	return unsigned(std::lower_bound(cuts.begin(), cuts.end(), bytes) - cuts.begin());
}

void Tag::CountTimeout(const TagRules &rules)
{
	if ((m_type != 3 && rules.by_size) || ++m_timeouts < m_kappa)
		return;
	m_timeouts = 0;
	m_promotions++;
	m_base = m_sent;
}

unsigned Tag::Queue(const TagRules &rules, uint64_t first, uint64_t end, uint64_t now_ns)
{
	bool late = m_type == 1 && now_ns > m_due_ns;
	uint64_t left = m_size > m_sent ? m_size - m_sent : 0;

	if (end > first) {
		if (first < m_sent && now_ns - m_last_ns >= rules.rto_ns)
			CountTimeout(rules);
		m_sent = std::max(m_sent, end);
		m_last_ns = now_ns;
	}
	if (m_type == 1 && rules.by_deadline && !late)
		return 0;
	unsigned band = m_type != 3 && rules.by_size ? Band(rules.beta, left) : Band(rules.alpha, m_sent - m_base);
	bool is_short = std::max(m_type == 3 ? 0 : m_size, m_sent) <= rules.short_bytes;
	return band == 0 && is_short && rules.by_deadline ? 0 : rules.first + band;
}

} // namespace baton
