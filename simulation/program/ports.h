/* Queues of ports: eight strict priorities that mark by port, and pFabric's. A device asks its queue for the next packet when
 * the one before has left, so that a packet under way is never interrupted. */
#ifndef BATON_SIMULATION_PORTS_H
#define BATON_SIMULATION_PORTS_H

#include "wire.h"

#include "ns3/queue.h"

#include <array>
#include <deque>
#include <list>
#include <map>

namespace baton
{

/* How long a port was how full, in time: bytes waiting -> ns. */
class FillTimes
{
      public:
	void From(uint64_t ns) { m_from = ns; }
	void Changed(uint64_t now_ns, uint64_t bytes);
	const std::map<uint64_t, uint64_t> &Times() const { return m_times; }

      private:
	uint64_t m_from = UINT64_MAX, m_since = 0, m_bytes = 0;
	std::map<uint64_t, uint64_t> m_times;
};

/* A port's queue as a device sees it. */
class Port : public ns3::Queue<ns3::Packet>
{
      public:
	ns3::Ptr<ns3::Packet> Remove() override { return Dequeue(); }
	ns3::Ptr<const ns3::Packet> Peek() const override { return nullptr; }
	uint64_t Drops() const { return m_drops; }
	uint64_t Marks() const { return m_marks; }
	FillTimes fill;

      protected:
	void Add(uint32_t bytes);
	void Take(uint32_t bytes);
	uint64_t m_bytes = 0, m_drops = 0, m_marks = 0;
};

/* How the queues of a port divide its buffer (controller/switch_queues/model.py): each has `reserved` bytes to itself, and of
 * what nobody reserves a queue holds at most its share, in 256ths, times what is free. */
struct Division
{
	uint64_t buffer = 360'000;
	std::array<uint32_t, QUEUES> share_256;
	std::array<uint64_t, QUEUES> reserved{};

	explicit Division(uint64_t bytes, uint32_t share = 8 << 8) : buffer(bytes) { share_256.fill(share); }
};

/* Eight strict priorities by DSCP (Karuna, SIGCOMM 2016, section 5). The port marks a packet that arrives while all of its
 * queues together hold more than `mark` bytes. */
class PriorityPort : public Port
{
      public:
	PriorityPort(const Division &division, uint64_t mark);
	bool Enqueue(ns3::Ptr<ns3::Packet> packet) override;
	ns3::Ptr<ns3::Packet> Dequeue() override;

      private:
	struct Band
	{
		std::deque<ns3::Ptr<ns3::Packet>> packets;
		uint64_t bytes = 0;
	};
	bool Admits(unsigned queue, uint32_t size) const;
	uint64_t Beyond(unsigned queue, uint64_t bytes) const;

	std::array<Band, QUEUES> m_bands;
	Division m_division;
	uint64_t m_mark, m_shared, m_taken = 0; /* of the buffer that is nobody's own: all, and what is not free */
};

/* pFabric's (SIGCOMM 2013, section 4.2): a full port drops the packet of the flow with most bytes left; the next packet is
 * the earliest of the flow whose packet has the fewest. */
class PfabricPort : public Port
{
      public:
	explicit PfabricPort(uint64_t buffer) : m_buffer(buffer) {}
	bool Enqueue(ns3::Ptr<ns3::Packet> packet) override;
	ns3::Ptr<ns3::Packet> Dequeue() override;

      private:
	struct Waiting
	{
		ns3::Ptr<ns3::Packet> packet;
		uint32_t flow, urgency; /* the least goes first: see pfabric.cc */
	};
	std::list<Waiting> m_waiting; /* in the order of arrival */
	uint64_t m_buffer;
};

} // namespace baton

#endif
