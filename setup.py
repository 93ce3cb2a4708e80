"""Installs Baton's packages and its commands: `baton`, and a `ryu-manager` that runs on current eventlet."""

from setuptools import find_packages, setup

setup(
    name="baton",
    version="0.1.0",
    description="A centralized SDN controller that stops data-center congestion before it happens",
    python_requires=">=3.11",
    packages=find_packages(
        include=["agents*", "bench*", "cli*", "controller*", "ebpf*", "emulation*", "protocol*", "topology*", "webui*"]
    ),
    package_data={
        "agents": ["bpf/*.c", "bpf/*.h", "reflex/*.c", "reflex/*.h"],
        "bench": ["coordination/*.c", "figures/*.html"],
        "ebpf": ["include/*.h"],
        "controller": ["policies/compiled/*.c", "policies/compiled/*.h", "switch_queues/bpf/*.c", "switch_queues/bpf/*.h"],
        "emulation": ["cdfs/*.txt", "fabric/bpf/*.c", "fabric/bpf/*.h", "virtual/init.sh", "virtual/kernel.*"],
        "webui": ["static/*", "static/*/*", "templates/*.html", "templates/auth/*.html"],
    },
    entry_points={
        "console_scripts": [
            "baton=cli.main:main",
            "ryu-manager=controller.openflow.framework:ryu_manager",
        ]
    },
)
