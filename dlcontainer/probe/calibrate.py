"""Five small kernels, the same on every side, that show what slows a process down.

Integers and memory bandwidth have nothing to do with a container: they are machine code of our own
where we have some, so that no side's build of anything is in them. Memory from the allocator, a
system call and the opening of a file may cost more inside a container. Nobody has to think of a
cause for it to show here. Standard library, Python >= 3.6.
"""

import ctypes
import mmap
import os
import platform
import time

KERNELS = ("integer", "bandwidth", "malloc", "syscall", "open")
_ROUNDS = 24000000
_BYTES, _COPIES = 32 << 20, 4
# As many operations as take this long: of a slow file system few.
_LEAST_S, _AT_ONCE = 0.02, 20
# Below what the C library maps afresh or gives back to the kernel by itself: that depends on all
# that a process has allocated before.
_SIZES = (1 << 10, 1 << 13, 1 << 15)

# x86-64, System V: rounds in rdi. eax = 1; rounds times rax = rax * 0x41c64e6d + 11.
_X86_INTEGER = bytes.fromhex("4889f9 b801000000 4869c06d4ec641 4883c00b 48ffc9 75f0 c3".replace(" ", ""))
# To rdi, from rsi, rdx bytes: rcx = rdx; rep movsb.
_X86_COPY = bytes.fromhex("4889d1f3a4c3")


class _Code(object):
    """Machine code in memory of its own, called with plain integers."""

    def __init__(self, code):
        every = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        self._memory = mmap.mmap(-1, mmap.PAGESIZE, prot=every)
        self._memory.write(code)
        self._first = ctypes.c_char.from_buffer(self._memory)
        kind = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)
        self._function = kind(ctypes.addressof(self._first))

    def call(self, first, second, third):
        """Run it; a bound method keeps the memory that the code is in."""
        return self._function(first, second, third)


def measure(file=__file__):
    """Run all kernels once; give the seconds of each, of one operation where it is of many."""
    integer, copy = _kernels()
    found = {"integer_s": _timed(integer), "bandwidth_s": _copied(copy)}
    found["malloc_s"] = _repeated(_allocated)
    found["syscall_s"] = _repeated(_asked)
    found["open_s"] = _repeated(lambda: _opened(file))
    return found


def alone(values):
    """Run them twice after the work, and put their means among the values.

    Of ranks some may be at work still, and would be slowed down by it: there none runs.
    """
    import ranks

    if ranks.asked():
        return {}
    found = {"after": measure(), "again": measure()}
    values.update(joined(found["after"], found["again"]))
    return found


def joined(before, after):
    """Give the means of two runs, under the names of a launch's values."""
    runs = [run for run in (before, after) if run]
    return {"calibration_" + name: sum(run[name] for run in runs) / len(runs) for name in after}


def own_code():
    """Tell whether the first two kernels are code of our own here."""
    return _x86() is not None


def _kernels():
    codes = _x86()
    if codes is None:
        return _python_integer, ctypes.memmove
    integer, copy = codes
    return lambda: integer.call(_ROUNDS, 0, 0), copy.call


def _x86():
    if platform.machine() != "x86_64" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    try:
        return _Code(_X86_INTEGER), _Code(_X86_COPY)
    except (OSError, ValueError):  # a kernel that lets no memory be written and run
        return None


def _python_integer():
    value = 1
    for _ in range(_ROUNDS // 60):
        value = (value * 0x41C64E6D + 11) & 0xFFFFFFFFFFFFFFFF
    return value


def _timed(kernel):
    begin = time.perf_counter()
    kernel()
    return time.perf_counter() - begin


def _copied(copy):
    """Copy more than caches hold, to and fro; pages are there before the clock starts."""
    first, second = mmap.mmap(-1, _BYTES), mmap.mmap(-1, _BYTES)
    held = [ctypes.c_char.from_buffer(memory) for memory in (first, second)]
    try:
        one, other = (ctypes.addressof(byte) for byte in held)
        copy(one, other, _BYTES)
        copy(other, one, _BYTES)
        begin = time.perf_counter()
        for _ in range(_COPIES // 2):
            copy(one, other, _BYTES)
            copy(other, one, _BYTES)
        return time.perf_counter() - begin
    finally:
        del held
        first.close()
        second.close()


def _repeated(operation):
    """Give the time of one operation: a typical one, whoever else had the processor meanwhile."""
    found, begin = [], time.perf_counter()
    while not found or time.perf_counter() - begin < _LEAST_S:
        before = time.perf_counter()
        for _ in range(_AT_ONCE):
            operation()
        found.append((time.perf_counter() - before) / _AT_ONCE)
    return sorted(found)[len(found) // 2]


def _allocated():
    for size in _SIZES:
        bytearray(size)


def _asked():
    os.getppid()


def _opened(file):
    os.close(os.open(file, os.O_RDONLY))
