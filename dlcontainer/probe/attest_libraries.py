"""Which builds of shared libraries a process has mapped. Standard library, Python >= 3.6."""

import hashlib
import os
import struct
import sysconfig

# Of a file without a build-id: its two ends hold an ELF file's headers and most of its tables.
_END = 1 << 20
_NOTE, _BUILD_ID = 4, 3


def mapped():
    """Give the paths of the shared libraries in this process's map."""
    found = set()
    try:
        with open("/proc/self/maps", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    for line in lines:
        slash, path = line.partition("/")[1:]
        if ".so" in os.path.basename(path):
            found.add(slash + path.strip())
    return sorted(found)


def builds(paths, entries):
    """Name the build of each library of a Python package: its build-id, else its size and a digest.

    `entries` are those of sys.path. Python's own are left out, and the system's: a distribution
    rebuilds its packages, on either side.
    """
    own = {os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
    folders = sorted((os.path.realpath(entry) for entry in entries if entry), key=len)
    found = {}
    for path in paths:
        there = os.path.realpath(path)
        below = [folder for folder in folders if there.startswith(folder + "/")]
        # The deepest: an environment's packages can lie in a folder of Python's own.
        if not below or below[-1] in own or os.path.basename(below[-1]) == "lib-dynload":
            continue
        try:
            found[os.path.basename(path)] = _build(path)
        except (OSError, ValueError, struct.error):
            found[os.path.basename(path)] = None
    return found


def _build(path):
    with open(path, "rb") as file:
        begin = file.read(_END)
        size = os.fstat(file.fileno()).st_size
        build = _build_id(begin)
        if build:
            return build
        file.seek(max(0, size - _END))
        digest = hashlib.sha256(begin + file.read())
    return "{} bytes, {}".format(size, digest.hexdigest()[:16])


def _build_id(data):
    """Read an ELF file's NT_GNU_BUILD_ID; None where it has none."""
    if data[:4] != b"\x7fELF" or len(data) < 64:
        return None
    wide, order = data[4] == 2, "<" if data[5] == 1 else ">"
    if wide:
        table, (size, count) = struct.unpack_from(order + "Q", data, 32)[0], _pair(data, 54, order)
    else:
        table, (size, count) = struct.unpack_from(order + "I", data, 28)[0], _pair(data, 42, order)
    for number in range(count):
        at = table + number * size
        if struct.unpack_from(order + "I", data, at)[0] != _NOTE:
            continue
        form, place = ("QQ", (at + 8, at + 32)) if wide else ("II", (at + 4, at + 16))
        start = struct.unpack_from(order + form[0], data, place[0])[0]
        length = struct.unpack_from(order + form[1], data, place[1])[0]
        found = _in_notes(data[start : start + length], order)
        if found:
            return found
    return None


def _pair(data, at, order):
    return struct.unpack_from(order + "HH", data, at)


def _in_notes(data, order):
    at = 0
    while at + 12 <= len(data):
        name, content, kind = struct.unpack_from(order + "III", data, at)
        begin = at + 12 + (name + 3) // 4 * 4
        if kind == _BUILD_ID and data[at + 12 : at + 16] == b"GNU\0":
            return "".join("{:02x}".format(byte) for byte in bytearray(data[begin : begin + content]))
        at = begin + (content + 3) // 4 * 4
    return None
