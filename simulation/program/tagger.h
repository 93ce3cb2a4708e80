/* The rules of agents/bpf/tagger.bpf.c for the packets of one connection: which priority queue each belongs in. Pure. */
#ifndef BATON_SIMULATION_TAGGER_H
#define BATON_SIMULATION_TAGGER_H

#include <cstdint>
#include <vector>

namespace baton
{

struct TagRules
{
	std::vector<uint64_t> beta, alpha; /* bytes; never falling */
	unsigned first = 1; /* the queue of the first band; queue 0 is for flows with deadlines then */
	bool by_deadline = true, by_size = true; /* marks that count; without them a flow is of type 3 */
	uint64_t short_bytes = 100'000; /* up to so many flows of the first band share the queue of type 1 */
	uint64_t rto_ns = 1'900'000; /* data sent again after so long a silence are a timeout */
};

/* A flow as its sender's tagger knows it. */
class Tag
{
      public:
	/* type, size and deadline are those of its mark; kappa timeouts promote it if its size does not count. */
	Tag(unsigned type, uint64_t size, uint64_t due_ns, unsigned kappa) : m_type(type), m_size(size), m_due_ns(due_ns), m_kappa(kappa) {}

	/* The queue of a packet that carries bytes from `first` to `end` of the flow; end == first: without payload. */
	unsigned Queue(const TagRules &rules, uint64_t first, uint64_t end, uint64_t now_ns);
	/* The flow goes by its size from now on: its deadline was refused. */
	void Refuse() { m_type = 2; }
	/* It goes by its deadline after all. */
	void Admit() { m_type = 1; }
	unsigned Promotions() const { return m_promotions; }

      private:
	void CountTimeout(const TagRules &rules);

	unsigned m_type;
	uint64_t m_size, m_due_ns;
	unsigned m_kappa, m_timeouts = 0, m_promotions = 0;
	uint64_t m_sent = 0, m_base = 0, m_last_ns = 0;
};

/* The queue, counted from 0, of a flow of so many bytes: the first threshold that is not below. */
unsigned Band(const std::vector<uint64_t> &cuts, uint64_t bytes);

} // namespace baton

#endif
