"""The part of libbpf that Baton uses, through ctypes: loading objects, maps, ring buffers, attaching programs. An edge.

Structures and constants are those of bpf/libbpf.h and bpf/bpf.h, version 1.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

BPF_TC_EGRESS = 1 << 1
BPF_TC_F_REPLACE = 1 << 0
BPF_ANY = 0
BPF_F_LINK = 1 << 13
BPF_STRUCT_OPS = 44
BPF_LINK_TYPE_STRUCT_OPS = 9
BPF_XDP = 37
XDP_FLAGS_SKB_MODE = 1 << 1
_SAMPLE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_PRINT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


class BpfError(OSError):
    """libbpf or the kernel refused an operation; the text says which."""

    def __str__(self) -> str:
        return str(self.strerror)  # the number in front of it, often 0, tells an operator nothing


class _LinkOptions(ctypes.Structure):
    _fields_ = (("sz", ctypes.c_size_t), ("flags", ctypes.c_uint32), ("rest", ctypes.c_uint8 * 52))


class _TcHook(ctypes.Structure):
    _fields_ = (
        ("sz", ctypes.c_size_t),
        ("ifindex", ctypes.c_int),
        ("attach_point", ctypes.c_int),
        ("parent", ctypes.c_uint32),
    )


class _TcOptions(ctypes.Structure):
    _fields_ = (
        ("sz", ctypes.c_size_t),
        ("prog_fd", ctypes.c_int),
        ("flags", ctypes.c_uint32),
        ("prog_id", ctypes.c_uint32),
        ("handle", ctypes.c_uint32),
        ("priority", ctypes.c_uint32),
    )


def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libbpf.so.1", use_errno=True)
    except OSError:
        raise BpfError(0, "libbpf.so.1 is missing: install the package libbpf1") from None
    pointer = ctypes.c_void_p
    for name, result, arguments in (
        ("bpf_object__open_file", pointer, (ctypes.c_char_p, pointer)),
        ("bpf_object__load", ctypes.c_int, (pointer,)),
        ("bpf_object__close", None, (pointer,)),
        ("bpf_object__find_program_by_name", pointer, (pointer, ctypes.c_char_p)),
        ("bpf_program__fd", ctypes.c_int, (pointer,)),
        ("bpf_program__set_autoload", ctypes.c_int, (pointer, ctypes.c_bool)),
        ("bpf_object__find_map_fd_by_name", ctypes.c_int, (pointer, ctypes.c_char_p)),
        ("bpf_map_update_elem", ctypes.c_int, (ctypes.c_int, pointer, pointer, ctypes.c_uint64)),
        ("bpf_map_lookup_elem", ctypes.c_int, (ctypes.c_int, pointer, pointer)),
        ("bpf_map_delete_elem", ctypes.c_int, (ctypes.c_int, pointer)),
        ("bpf_map_get_next_key", ctypes.c_int, (ctypes.c_int, pointer, pointer)),
        ("bpf_map_lookup_batch", ctypes.c_int, (ctypes.c_int, *[pointer] * 6)),
        ("ring_buffer__new", pointer, (ctypes.c_int, _SAMPLE, pointer, pointer)),
        ("ring_buffer__consume", ctypes.c_int, (pointer,)),
        ("ring_buffer__epoll_fd", ctypes.c_int, (pointer,)),
        ("ring_buffer__free", None, (pointer,)),
        ("bpf_tc_hook_create", ctypes.c_int, (pointer,)),
        ("bpf_tc_attach", ctypes.c_int, (pointer, pointer)),
        ("bpf_object__find_map_by_name", pointer, (pointer, ctypes.c_char_p)),
        ("bpf_map__attach_struct_ops", pointer, (pointer,)),
        ("bpf_map__set_map_flags", ctypes.c_int, (pointer, ctypes.c_uint32)),
        ("bpf_map__set_max_entries", ctypes.c_int, (pointer, ctypes.c_uint32)),
        ("bpf_link_create", ctypes.c_int, (ctypes.c_int, ctypes.c_int, ctypes.c_int, pointer)),
        ("libbpf_minor_version", ctypes.c_uint32, ()),
        ("bpf_program__attach_cgroup", pointer, (pointer, ctypes.c_int)),
        ("bpf_link__destroy", ctypes.c_int, (pointer,)),
        ("bpf_map_get_next_id", ctypes.c_int, (ctypes.c_uint32, pointer)),
        ("bpf_map_get_fd_by_id", ctypes.c_int, (ctypes.c_uint32,)),
        ("bpf_link_get_next_id", ctypes.c_int, (ctypes.c_uint32, pointer)),
        ("bpf_link_get_fd_by_id", ctypes.c_int, (ctypes.c_uint32,)),
        ("bpf_obj_get_info_by_fd", ctypes.c_int, (ctypes.c_int, pointer, pointer)),
        ("libbpf_set_print", pointer, (_PRINT,)),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


_MAP_FAILED = ctypes.c_void_p(-1).value


def _memory() -> ctypes.CDLL:
    """mmap(2) as it is: Python's own tells no address of what cannot be written."""
    library = ctypes.CDLL(None, use_errno=True)
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    library.mmap.restype = pointer
    library.mmap.argtypes = (pointer, size, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    library.munmap.argtypes = (pointer, size)
    return library


_silent = _PRINT(lambda level, text, arguments: 0)


BATCH = 4096
"""Entries that a call returns."""


class BpfMap:
    """A map of fixed-size keys and values, both bytes."""

    def __init__(self, library: ctypes.CDLL, fd: int, key_bytes: int, value_bytes: int) -> None:
        self._library, self._fd = library, fd
        self._key_bytes = key_bytes
        self._value = ctypes.create_string_buffer(value_bytes)

    def __setitem__(self, key: bytes, value: bytes) -> None:
        if self._library.bpf_map_update_elem(self._fd, key, value, BPF_ANY):
            raise BpfError(ctypes.get_errno(), "map is full or gone: " + os.strerror(ctypes.get_errno()))

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, or None."""
        if self._library.bpf_map_lookup_elem(self._fd, key, self._value):
            return None
        return self._value.raw

    def remove(self, key: bytes) -> None:
        """Deletes a key, if it is there."""
        self._library.bpf_map_delete_elem(self._fd, key)

    def keys(self) -> Iterator[bytes]:
        """All keys; the map may change during the iteration."""
        following = ctypes.create_string_buffer(self._key_bytes)
        current: bytes | None = None
        while self._library.bpf_map_get_next_key(self._fd, current, following) == 0:
            current = following.raw
            yield current

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """All keys with their values, of a hash map by thousands a call; the map may change during the iteration."""
        key_bytes, value_bytes = self._key_bytes, len(self._value)
        keys, values = (ctypes.create_string_buffer(BATCH * size) for size in (key_bytes, value_bytes))
        before: ctypes.Array[ctypes.c_char] | None = None
        error = 0
        while not error:
            count, after = ctypes.c_uint32(BATCH), ctypes.create_string_buffer(max(4, key_bytes))
            error = self._library.bpf_map_lookup_batch(self._fd, before, after, keys, values, ctypes.byref(count), None)
            if error and ctypes.get_errno() != errno.ENOENT:  # ENOENT: these are the last
                break
            before = after
            found_keys, found_values = keys.raw, values.raw
            for at in range(count.value):
                yield found_keys[at * key_bytes : (at + 1) * key_bytes], found_values[at * value_bytes : (at + 1) * value_bytes]
        else:
            return
        for key in list(self.keys()):  # before Linux 5.6, or of another type
            if (value := self.get(key)) is not None:
                yield key, value


class _MapInfo(ctypes.Structure):
    _fields_ = (("type_id_sizes_flags", ctypes.c_uint32 * 6), ("name", ctypes.c_char * 16), ("rest", ctypes.c_uint8 * 64))


@contextmanager
def loaded_map(name: str, key_bytes: int, value_bytes: int) -> Iterator[BpfMap | None]:
    """The newest map in the kernel with this name (of which 15 characters count), or None; needs CAP_SYS_ADMIN."""
    library = _library()
    following, info = ctypes.c_uint32(0), _MapInfo()
    found = -1
    try:
        while library.bpf_map_get_next_id(following.value, ctypes.byref(following)) == 0:
            fd = library.bpf_map_get_fd_by_id(following.value)
            if fd < 0:
                continue  # the map has gone
            if _describes(library, fd, info) and info.name.decode() == name[:15]:
                fd, found = found, fd
            if fd >= 0:
                os.close(fd)
        yield BpfMap(library, found, key_bytes, value_bytes) if found >= 0 else None
    finally:
        if found >= 0:
            os.close(found)


class _LinkInfo(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("type", "id", "prog_id", "padding", "map_id")),
        ("rest", ctypes.c_uint8 * 108),
    )


def struct_ops_link(name: str) -> int | None:
    """A descriptor by which the table of functions `name`, which another process registered, stays so until it is closed.

    None: there is none, as before Linux 6.4, or this process lacks CAP_SYS_ADMIN.
    """
    library = _library()
    following, link, table = ctypes.c_uint32(0), _LinkInfo(), _MapInfo()
    while library.bpf_link_get_next_id(following.value, ctypes.byref(following)) == 0:
        if (fd := int(library.bpf_link_get_fd_by_id(following.value))) < 0:
            continue  # the link has gone
        if _describes(library, fd, link) and link.type == BPF_LINK_TYPE_STRUCT_OPS:
            held = library.bpf_map_get_fd_by_id(link.map_id)
            same = held >= 0 and _describes(library, held, table) and table.name.decode() == name[:15]
            if held >= 0:
                os.close(held)
            if same:
                return fd
        os.close(fd)
    return None


def _describes(library: ctypes.CDLL, fd: int, info: ctypes.Structure) -> bool:
    """Fills in what the kernel says of a descriptor's object."""
    length = ctypes.c_uint32(ctypes.sizeof(info))
    return bool(library.bpf_obj_get_info_by_fd(fd, ctypes.byref(info), ctypes.byref(length)) == 0)


class BpfObject:
    """A loaded object file: its programs and maps live until `close` (and a program as long as it is attached)."""

    def __init__(
        self, path: Path, struct_ops: str | None = None, *, entries: Mapping[str, int] | None = None, without: str | None = None
    ) -> None:
        """Loads an object; `struct_ops` is the table of functions to register later, if there is one.

        `entries`: how many entries maps have, by name, where the source does not decide it. `without`: a program to leave out.

        Raises BpfError: the file cannot be read, or the kernel's verifier refuses it.
        """
        self._library = _library()
        self._library.libbpf_set_print(_silent)
        self._linked = struct_ops is not None
        self._entries = entries or {}
        error = self._load(path, struct_ops, without)
        if error and self._linked:  # before Linux 6.4 a table stays registered until it is deleted
            self._linked = False
            error = self._load(path, None, without)
        if error:
            raise BpfError(-error, f"{path.name}: the kernel refuses it: {os.strerror(-error)}")
        self._memory = _memory()
        self._mapped: list[tuple[int, int]] = []
        self._rings: list[ctypes.c_void_p] = []
        self._callbacks: list[object] = []
        self._links: list[ctypes.c_void_p] = []
        self._descriptors: list[int] = []

    def _load(self, path: Path, linked: str | None, without: str | None) -> int:
        self._object = self._library.bpf_object__open_file(str(path).encode(), None)
        if not self._object:
            raise BpfError(ctypes.get_errno(), f"{path}: {os.strerror(ctypes.get_errno())}")
        if linked is not None:
            self._library.bpf_map__set_map_flags(self._table(linked), BPF_F_LINK)
        if without is not None:
            self._library.bpf_program__set_autoload(self._program(without), False)
        for name, count in self._entries.items():
            self._library.bpf_map__set_max_entries(self._table(name), count)
        error = int(self._library.bpf_object__load(self._object))
        if error:
            self._library.bpf_object__close(self._object)
        return error

    def map(self, name: str, key_bytes: int, value_bytes: int) -> BpfMap:
        """A map by name."""
        return BpfMap(self._library, self._map_fd(name), key_bytes, value_bytes)

    def memory(self, name: str, size: int) -> mmap.mmap:
        """The values of an array that was made with BPF_F_MMAPABLE, to read and write in place. Raises OSError."""
        return mmap.mmap(self._map_fd(name), size)

    def _map_fd(self, name: str) -> int:
        fd = int(self._library.bpf_object__find_map_fd_by_name(self._object, name.encode()))
        if fd < 0:
            raise BpfError(-fd, f"no map {name}")
        return fd

    def ring_memory(self, name: str, size: int) -> tuple[int, int]:
        """Where the ring buffer `name` of `size` bytes is in memory until `close`, for C code that reads it past this library:
        the consumer's position, to be written, too; the producer's, and a page after it the records, twice in a row.

        Raises BpfError.
        """
        fd = self._map_fd(name)
        found = []
        for length, protection, offset in (
            (mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE, 0),
            (mmap.PAGESIZE + 2 * size, mmap.PROT_READ, mmap.PAGESIZE),
        ):
            at = self._memory.mmap(None, length, protection, mmap.MAP_SHARED, fd, offset)
            if at is None or at == _MAP_FAILED:
                raise BpfError(ctypes.get_errno(), f"ring buffer {name}: {os.strerror(ctypes.get_errno())}")
            self._mapped.append((at, length))
            found.append(at)
        return found[0], found[1]

    def ring(self, name: str, take: Callable[[bytes], None], most: int = 4096) -> tuple[int, Callable[[], None]]:
        """The ring buffer `name`: a descriptor to wait on, and a function that passes waiting records to `take`, at most `most`
        of them at once: a program may write them faster than they are read. The descriptor stays readable while some are left.
        """
        taken = 0

        def sample(_: object, data: int, size: int) -> int:
            nonlocal taken
            taken += 1
            take(ctypes.string_at(data, size))
            return -1 if taken >= most else 0  # below 0: libbpf stops after this record

        callback = _SAMPLE(sample)
        ring = self._library.ring_buffer__new(self._map_fd(name), callback, None, None)
        if not ring:
            raise BpfError(ctypes.get_errno(), f"ring buffer {name}: {os.strerror(ctypes.get_errno())}")
        self._rings.append(ring)
        self._callbacks.append(callback)

        def consume() -> None:
            nonlocal taken
            taken = 0
            self._library.ring_buffer__consume(ring)

        return int(self._library.ring_buffer__epoll_fd(ring)), consume

    def _program(self, name: str) -> ctypes.c_void_p:
        found = self._library.bpf_object__find_program_by_name(self._object, name.encode())
        if not found:
            raise BpfError(0, f"no program {name}")
        return ctypes.c_void_p(found)

    def program_fd(self, name: str) -> int:
        """A program's descriptor, for attaching it by other means; valid until `close`."""
        return int(self._library.bpf_program__fd(self._program(name)))

    def attach_struct_ops(self, name: str) -> None:
        """Registers the table of functions, such as a congestion control, until `close` or the end of this process.

        A kernel before 6.4 keeps it if the process is killed.
        """
        self._keep(self._library.bpf_map__attach_struct_ops(self._table(name)), f"registering {name}")
        if self._linked and self._library.libbpf_minor_version() < 2:  # version 1.1 and older only prepare the table
            link = self._library.bpf_link_create(self._map_fd(name), 0, BPF_STRUCT_OPS, None)
            if link < 0:
                raise BpfError(-link, f"registering {name}: {os.strerror(-link)}")
            self._descriptors.append(link)

    def _table(self, name: str) -> ctypes.c_void_p:
        found = self._library.bpf_object__find_map_by_name(self._object, name.encode())
        if not found:
            raise BpfError(0, f"no map or struct_ops {name}")
        return ctypes.c_void_p(found)

    def attach_cgroup(self, program: str, cgroup: Path) -> None:
        """Attaches a program to a cgroup (version 2) until `close` or the end of this process."""
        try:
            directory = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise BpfError(error.errno, f"{program} at {cgroup}: {error.strerror}") from None
        try:
            self._keep(self._library.bpf_program__attach_cgroup(self._program(program), directory), f"{program} at {cgroup}")
        finally:
            os.close(directory)

    def _keep(self, link: int | None, what: str) -> None:
        if not link:
            raise BpfError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
        self._links.append(ctypes.c_void_p(link))

    def attach_egress(self, program: str, ifindex: int, preference: int, *, replace: bool = False) -> None:
        """Attaches a program to an interface's egress, making the clsact hook if there is none. It stays until it is deleted.

        `replace`: replaces a program of the same preference atomically, between two packets.
        """
        found = self._program(program)
        hook = _TcHook(ctypes.sizeof(_TcHook), ifindex, BPF_TC_EGRESS, 0)
        self._library.bpf_tc_hook_create(ctypes.byref(hook))  # fails if the hook exists, which is fine
        fd = self._library.bpf_program__fd(found)
        flags = BPF_TC_F_REPLACE if replace else 0
        options = _TcOptions(ctypes.sizeof(_TcOptions), fd, flags, 0, 1, preference)
        error = self._library.bpf_tc_attach(ctypes.byref(hook), ctypes.byref(options))
        if error:
            raise BpfError(-error, f"{program} at egress: {os.strerror(-error)}")

    def attach_xdp(self, program: str, ifindex: int) -> int:
        """Attaches a program to what an interface receives, before any socket (generic XDP: for any driver).

        Returns a descriptor; the program stays until the caller closes it, or this process ends. Raises BpfError: the interface
        has a program of another, or the kernel refuses.
        """
        options = _LinkOptions(ctypes.sizeof(_LinkOptions), XDP_FLAGS_SKB_MODE)
        link = int(self._library.bpf_link_create(self.program_fd(program), ifindex, BPF_XDP, ctypes.byref(options)))
        if link < 0:
            raise BpfError(-link, f"{program}: {os.strerror(-link)}")
        return link

    def close(self) -> None:
        """Detaches all programs but filters at interfaces, and frees the object."""
        for link in self._links:
            self._library.bpf_link__destroy(link)
        self._links.clear()
        while self._descriptors:
            os.close(self._descriptors.pop())
        for ring in self._rings:
            self._library.ring_buffer__free(ring)
        self._rings.clear()
        while self._mapped:
            self._memory.munmap(*self._mapped.pop())
        self._library.bpf_object__close(self._object)
