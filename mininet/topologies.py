"""Baton's shapes for Mininet's own `mn` (Mininet's switches and links; no Baton):

    .venv/bin/python -m emulation.box -- .venv/bin/python -m emulation.fabric.ovs -- .venv/bin/python /usr/bin/mn \
        --custom mininet/topologies.py --topo star,hosts=4 --switch ovsbr,datapath=user --controller none --link tc

With `--link tc` Mininet limits links to the shapes' rates. Baton's own shaped ports and VMs are in mininet/prompt.py.
"""

from functools import partial
from typing import Any

from mininet.topo import Topo

from topology import shapes


class ShapeTopo(Topo):  # type: ignore[misc]  # Mininet is untyped
    """One of `topology.shapes`; a host with several VMs has the address of the first."""

    def build(self, shape: str = "star", **options: Any) -> None:  # noqa: ANN401 -- from mn's command line
        """Mininet calls this with the parameters after the topology's name."""
        fabric = shapes.build(shape, **options)
        for name in fabric.switches:
            self.addSwitch(name, dpid=f"{fabric.switch(name).dpid:016x}")
        for name in fabric.hosts:
            self.addHost(name, ip=f"{fabric.addresses(name)[0]}/8", mac=fabric.mac(name))
        for a, b in sorted(fabric.links):
            names = {"intfName1": fabric.port((a, b)), "intfName2": fabric.port((b, a))}
            self.addLink(a, b, bw=fabric.capacity_bps((a, b)) / 1e6, **names)


topos = {shape: partial(ShapeTopo, shape=shape) for shape in shapes.SHAPES}
