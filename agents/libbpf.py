"""libbpf for the agents: `ebpf.libbpf`, under the name by which they know it."""

from ebpf.libbpf import BpfError as BpfError
from ebpf.libbpf import BpfMap as BpfMap
from ebpf.libbpf import BpfObject as BpfObject
from ebpf.libbpf import loaded_map as loaded_map
