"""An emulated fabric with a Mininet prompt: shaped ports, VMs, a node for the coordinator; switches learn MAC addresses.

    .venv/bin/python mininet/prompt.py star hosts=3 vms=2
    mininet> h1v1 ping -c 3 10.0.0.5
"""

import sys

from emulation import box
from emulation.fabric.fabric import EmulatedFabric
from topology import shapes
from topology.problems import FabricError


def main() -> None:
    """`prompt.py SHAPE [PARAMETER=VALUE ...]`; the parameters are those of `topology.shapes`."""
    box.enter([sys.executable, *sys.argv])
    shape, *options = sys.argv[1:] or ["star"]
    try:
        fabric = shapes.build(shape, **dict(option.split("=", 1) for option in options))
    except (FabricError, ValueError) as error:
        raise SystemExit(f"prompt: {error}") from None
    with EmulatedFabric(fabric) as emulated:
        for name, address in emulated.endpoints().items():
            print(f"{name:8} {address}", flush=True)
        emulated.prompt()


if __name__ == "__main__":
    main()
