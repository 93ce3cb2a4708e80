/* Simulates the flows of a case on a spine-leaf fabric: reads the case from the standard input, writes lines of JSON. */
#include "case.h"
#include "fabric.h"
#include "pfabric.h"
#include "record.h"
#include "tcp_flows.h"

#include "ns3/global-value.h"
#include "ns3/simulator.h"

#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>

int main()
{
	try {
		const baton::Case what = baton::ReadCase(std::cin);
		baton::TcpFlows::SetDefaults(what);

		baton::Fabric fabric(what);
		baton::Record record(what);
		std::unique_ptr<baton::TcpFlows> tcp;
		std::unique_ptr<baton::PfabricFlows> pfabric;
		const baton::FillTimes *watched = nullptr;

		if (what.scheme == baton::Scheme::Pfabric)
			pfabric = std::make_unique<baton::PfabricFlows>(what, fabric, record);
		else
			tcp = std::make_unique<baton::TcpFlows>(what, fabric, record);
		if (what.watch >= 0 && what.watch < int64_t(what.Hosts())) {
			fabric.Towards(uint32_t(what.watch)).fill.From(what.watch_from_ns);
			watched = &fabric.Towards(uint32_t(what.watch)).fill;
		}
		if (what.limit_ns)
			ns3::Simulator::Stop(ns3::NanoSeconds(what.limit_ns));
		ns3::Simulator::Run();
		record.Close(fabric.Drops(), fabric.Marks(), watched);
		std::fflush(stdout);
		std::_Exit(0); /* taking the fabric apart would take longer than the end of the process does */
	} catch (const std::exception &error) {
		std::cerr << error.what() << "\n";
		return 1;
	}
}
