"""Hides a queue's drops from the packet socket that sends into it, by a small BPF classifier. An edge: bpf(2).

When a queue discipline drops a frame of an AF_PACKET socket, sendmmsg(2) fails with ENOBUFS, and Open vSwitch's userspace
datapath discards the rest of its batch (up to 32 frames) without counting it: the bottleneck would drop more than its queue
does, by an unknown number. The classifier, at the interface's egress, redirects every frame into the same interface again, with
a mark that lets it pass the second time. Only that second pass enters the queue, and the sender does not see its result.

The mark leaves no trace: the kernel clears it when the frame crosses into the host's namespace.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

SEEN_MARK = 0x0BA70000
_SYS_BPF = {"x86_64": 321, "aarch64": 280, "riscv64": 280}
_BPF_PROG_LOAD = 5
_BPF_PROG_TYPE_SCHED_CLS = 3
_BPF_FUNC_REDIRECT = 23
_TC_ACT_OK = 0
_SKB_MARK, _SKB_IFINDEX = 8, 40  # offsets in struct __sk_buff (linux/bpf.h)
# Opcodes of linux/bpf.h: class | size or operation | mode or source.
_LOAD_WORD, _STORE_WORD = 0x61, 0x63
_MOVE, _MOVE_REGISTER = 0xB7, 0xBF
_JUMP_IF_EQUAL, _CALL, _EXIT = 0x15, 0x85, 0x95


def load_classifier() -> int:
    """Loads the classifier into the kernel.

    Returns:
        the classifier's file descriptor, for a `bpf` filter with direct action at a clsact egress; the caller closes it.

    Raises:
        OSError: the kernel has no BPF classifiers, or refuses.
    """
    program = b"".join(
        (
            _instruction(_MOVE_REGISTER, 6, 1),
            _instruction(_LOAD_WORD, 2, 6, _SKB_MARK),
            _instruction(_JUMP_IF_EQUAL, 2, offset=6, value=SEEN_MARK),
            _instruction(_MOVE, 3, value=SEEN_MARK),
            _instruction(_STORE_WORD, 6, 3, _SKB_MARK),
            _instruction(_LOAD_WORD, 1, 6, _SKB_IFINDEX),
            _instruction(_MOVE, 2),
            _instruction(_CALL, value=_BPF_FUNC_REDIRECT),
            _instruction(_EXIT),
            _instruction(_MOVE, 0, value=_TC_ACT_OK),
            _instruction(_EXIT),
        )
    )
    if (number := _SYS_BPF.get(platform.machine())) is None:
        raise OSError(errno.ENOSYS, f"bpf(2) is not known for {platform.machine()}")
    text = ctypes.create_string_buffer(program)
    licence = ctypes.create_string_buffer(b"GPL")
    # union bpf_attr: prog_type, insn_cnt, insns, license, then zeros (no log).
    attributes = struct.pack(
        "IIQQ", _BPF_PROG_TYPE_SCHED_CLS, len(program) // 8, ctypes.addressof(text), ctypes.addressof(licence)
    )
    attributes = attributes.ljust(120, b"\0")
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor: int = libc.syscall(number, _BPF_PROG_LOAD, attributes, len(attributes))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), f"bpf(2): {os.strerror(ctypes.get_errno())}")
    return descriptor


def _instruction(opcode: int, target: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return struct.pack("<BBhi", opcode, source << 4 | target, offset, value)
