"""Baton's shapes for Mininet's own `mn` (Mininet's switches and links; no Baton):

    .venv/bin/python -m emulation.box -- .venv/bin/python -m emulation.fabric.ovs -- .venv/bin/python /usr/bin/mn \
        --custom mininet/topologies.py --topo star,hosts=4 --switch ovsbr,datapath=user --controller none --link tc

With `--link tc` links have the shapes' rates, as Mininet shapes them: for Baton's shaped ports and VMs see mininet/prompt.py.
"""

from functools import partial
from typing import Any

from mininet.topo import Topo

from topology import shapes


class ShapeTopo(Topo):  # type: ignore[misc]  # Mininet is untyped
    """One of `topology.shapes`; hosts of several VMs have the first one's address."""

    def build(self, shape: str = "star", **options: Any) -> None:  # noqa: ANN401 -- from mn's command line
        """Called by Mininet with what follows the topology's name."""
        fabric = shapes.build(shape, **options)
        for name in fabric.switches:
            self.addSwitch(name, dpid=f"{fabric.switch(name).dpid:016x}")
        for name in fabric.hosts:
            self.addHost(name, ip=f"{fabric.addresses(name)[0]}/8", mac=fabric.mac(name))
        for a, b in sorted(fabric.links):
            names = {"intfName1": fabric.port((a, b)), "intfName2": fabric.port((b, a))}
            self.addLink(a, b, bw=fabric.capacity_bps((a, b)) / 1e6, **names)


topos = {shape: partial(ShapeTopo, shape=shape) for shape in shapes.SHAPES}
