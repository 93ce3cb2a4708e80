"""Installs Baton's packages and its commands: `baton`, and a `ryu-manager` that runs on current eventlet."""

from setuptools import find_packages, setup

setup(
    name="baton",
    version="0.1.0",
    description="A centralized SDN controller that stops data-center congestion before it happens",
    python_requires=">=3.11",
    packages=find_packages(
        include=[
            "agents*", "bench*", "cli*", "controller*", "ebpf*", "emulation*", "protocol*", "simulation*", "topology*",
            "webui*",
        ]
    ),
    package_data={
        "agents": ["**/*.c", "**/*.h"],
        "bench": ["**/*.c", "**/*.h", "figures/*.html"],
        "ebpf": ["include/*.h"],
        "controller": ["**/*.c", "**/*.h"],
        "emulation": ["**/*.c", "**/*.h", "cdfs/*.txt", "virtual/init.sh", "virtual/kernel.*"],
        "simulation": ["program/*.cc", "program/*.h"],
        "webui": ["static/*", "static/*/*", "templates/*.html", "templates/auth/*.html"],
    },
    # Only `baton simulate` needs these: ns-3, and Dask for sweeps on a cluster.
    extras_require={"simulation": ["ns3>=3.44,<3.45"], "cluster": ["distributed>=2024.1"]},
    entry_points={
        "console_scripts": [
            "baton=cli.main:main",
            "ryu-manager=controller.openflow.framework:ryu_manager",
        ]
    },
)
