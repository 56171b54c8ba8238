"""Which builds of which libraries are mapped into a process. Standard library, Python >= 3.6."""

import ctypes
import hashlib
import os
import struct
import sys
import sysconfig

_NOTE, _BUILD_ID = 4, 3
# Of a file without a build-id: its two ends hold an ELF file's headers and most of its tables.
_END = 1 << 20
_ALLOCATORS = ("jemalloc", "tcmalloc", "mimalloc", "hoard", "tbbmalloc", "snmalloc", "rpmalloc")


def mapped():
    """Give the shared libraries in this process's map, name -> path."""
    found = {}
    try:
        with open("/proc/self/maps", errors="replace") as file:
            for line in file:
                path = "/" + line.partition("/")[2].strip()
                if ".so" in os.path.basename(path):
                    found[os.path.basename(path)] = path
    except OSError:
        pass
    return found


def facts(entries=None):
    """Name the libraries, and the builds of those of Python packages and of the system.

    `entries` are those of sys.path.
    """
    libraries = mapped()
    own, system = {}, {}
    is_package = packages(sys.path if entries is None else entries)
    for name, path in sorted(libraries.items()):
        # The packages' are the work; a distribution rebuilds its own for security.
        (own if is_package(path) else system)[name] = build(path)
    return {
        "libraries": sorted(libraries),
        "library_builds": own,
        "system_library_builds": system,
        "allocator": allocator(libraries),
        "mpi": mpi(libraries),
    }


def allocator(libraries):
    """Name the libraries that may stand in for the C library's allocator."""
    found = [name for name in sorted(libraries) if any(word in name for word in _ALLOCATORS)]
    return found or "the C library's"


def packages(entries):
    """Give a function that tells whether a file belongs to a Python package, not to Python."""
    own = {os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
    folders = sorted((os.path.realpath(entry) for entry in entries if entry), key=len)
    prefix = os.path.realpath(sys.prefix)
    # Of a prefix that is no distribution's, all libraries are what was installed there.
    is_ours = sys.prefix != sys.base_prefix or os.path.isdir(os.path.join(prefix, "conda-meta"))

    def is_package(path):
        there = os.path.realpath(path)
        # The deepest: an environment's packages can lie in a folder of Python's own.
        below = [folder for folder in folders if there.startswith(folder + "/")]
        if not below:
            return is_ours and there.startswith(prefix + "/")
        return below[-1] not in own and os.path.basename(below[-1]) != "lib-dynload"

    return is_package


def build(path):
    """Give a library's build-id, else its size and a digest; None where it can't be read."""
    try:
        with open(path, "rb") as file:
            return build_id(file) or _ends(file)
    except (OSError, struct.error):
        return None


def _ends(file):
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    digest = hashlib.sha256(file.read(_END))
    file.seek(max(0, size - _END))
    digest.update(file.read())
    return "{} bytes, {}".format(size, digest.hexdigest()[:16])


def build_id(file):
    """Read the build-id out of an ELF file's notes; None where there is none."""
    head = file.read(64)
    if len(head) < 64 or head[:4] != b"\x7fELF" or head[4] not in (1, 2):
        return None
    wide, order = head[4] == 2, "<" if head[5] == 1 else ">"
    offset = struct.unpack_from(order + ("Q" if wide else "I"), head, 32 if wide else 28)[0]
    size, count = struct.unpack_from(order + "HH", head, 54 if wide else 42)
    for number in range(count):
        file.seek(offset + number * size)
        entry = file.read(size)
        kind = struct.unpack_from(order + "I", entry)[0]
        if kind != _NOTE:
            continue
        place = struct.unpack_from(order + ("Q" if wide else "I"), entry, 8 if wide else 4)[0]
        length = struct.unpack_from(order + ("Q" if wide else "I"), entry, 32 if wide else 16)[0]
        file.seek(place)
        found = _note(file.read(min(length, 65536)), order)
        if found:
            return found
    return None


def _note(data, order):
    at = 0
    while at + 12 <= len(data):
        name, text, kind = struct.unpack_from(order + "III", data, at)
        begin = at + 12 + (name + 3) // 4 * 4
        if kind == _BUILD_ID and data[at + 12 : at + 12 + name] == b"GNU\0":
            return "".join("{:02x}".format(byte) for byte in bytearray(data[begin : begin + text]))
        at = begin + (text + 3) // 4 * 4
    return None


def mpi(libraries):
    """Give the version of the MPI library that is mapped, in its own words; None without one."""
    name = next((name for name in sorted(libraries) if name.startswith("libmpi.so")), None)
    if name is None:
        return None
    try:
        # MPI allows this question before MPI_Init and after MPI_Finalize.
        words, length = ctypes.create_string_buffer(8192), ctypes.c_int(0)
        ctypes.CDLL(libraries[name]).MPI_Get_library_version(words, ctypes.byref(length))
        return words.value.decode("ascii", "replace").splitlines()[0].strip()
    except (OSError, AttributeError, IndexError):
        return None
