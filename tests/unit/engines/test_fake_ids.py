"""The filter that answers changes of owners and ids, run here by an interpreter of its own."""

import ctypes
import os
import stat
from collections.abc import Sequence

import pytest

from dlcontainer.engines import fake_ids
from dlcontainer.engines.fake_ids import (
    ARCH,
    ARGUMENTS,
    MACHINES,
    NUMBER,
    SECCOMP_RET_ALLOW,
    SECCOMP_RET_ERRNO_0,
)
from tests.skips import skip

CALLS = (
    *("chown", "fchown", "lchown", "fchownat"),
    *("setuid", "setgid", "setreuid", "setregid", "setgroups", "setresuid", "setresgid"),
)
NODES = {"mknod": 1, "mknodat": 2}
# What packages' scripts and apt do all the time, and what would hide a failure.
OTHERS = ("chmod", "fchmodat", "execve", "openat", "mount", "unlinkat", "getuid", "fsync", "setsid")


def decide(
    machine: str, number: int, arguments: Sequence[int] = (), arch: int | None = None
) -> int:
    """Run the filter over one call, as the kernel does: bpf(4), seccomp(2)."""
    data = {NUMBER: number, ARCH: MACHINES[machine][0] if arch is None else arch}
    data |= {ARGUMENTS + 8 * at: value for at, value in enumerate(arguments)}
    program = fake_ids.instructions(machine)
    at = accumulator = 0
    while True:
        code, if_true, if_false, value = program[at]
        at += 1
        if code == fake_ids.RETURN:
            return value
        if code == fake_ids.LOAD:
            accumulator = data.get(value, 0) & 0xFFFFFFFF
        elif code == fake_ids.AND:
            accumulator &= value
        else:
            assert code == fake_ids.IF_EQUAL
            at += if_true if accumulator == value else if_false


def number_of(machine: str, name: str) -> int | None:
    """Give a call's number as libseccomp knows it; None where the machine has no such call."""
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        if os.environ.get("CI") == "true":
            pytest.fail("no libseccomp.so.2 here: apt-get install libseccomp2")
        skip("no libseccomp.so.2 here: apt-get install libseccomp2")
    resolve = library.seccomp_syscall_resolve_name_arch
    resolve.argtypes = [ctypes.c_uint32, ctypes.c_char_p]
    number = int(resolve(MACHINES[machine][0], name.encode()))
    return number if number >= 0 else None


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_the_kernels(machine: str) -> None:
    wanted = {number_of(machine, name) for name in CALLS} - {None}
    assert set(MACHINES[machine][1]) == wanted
    nodes = {number_of(machine, name): at for name, at in NODES.items()}
    assert MACHINES[machine][2] == {
        number: at for number, at in nodes.items() if number is not None
    }


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_answered_and_what_is_done(machine: str) -> None:
    answered = set(MACHINES[machine][1])
    nodes = MACHINES[machine][2]
    for number in range(600):
        expected = SECCOMP_RET_ERRNO_0 if number in answered else SECCOMP_RET_ALLOW
        if number not in nodes:
            assert decide(machine, number) == expected, number
    for name in OTHERS:
        other = number_of(machine, name)
        assert other is None or decide(machine, other) == SECCOMP_RET_ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_devices_are_not_made_and_pipes_are(machine: str) -> None:
    for number, at in MACHINES[machine][2].items():
        for kind in (stat.S_IFCHR, stat.S_IFBLK):
            arguments = [*[0] * at, kind | 0o666]
            assert decide(machine, number, arguments) == SECCOMP_RET_ERRNO_0
        for kind in (stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFREG, 0):
            arguments = [*[0] * at, kind | 0o666]
            assert decide(machine, number, arguments) == SECCOMP_RET_ALLOW


def test_calls_of_another_kind_are_let_through() -> None:
    i386 = 0x40000003
    for number in range(600):
        assert decide("x86_64", number, arch=i386) == SECCOMP_RET_ALLOW


def test_the_filter_is_as_long_as_the_kernel_takes() -> None:
    assert all(len(fake_ids.instructions(machine)) <= 4096 for machine in MACHINES)
    assert ctypes.sizeof(fake_ids.Instruction) == 8


def test_another_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "s390x")
    monkeypatch.setattr("sys.argv", ["fake_ids.py", "true"])
    with pytest.raises(SystemExit, match="no filter for s390x; there is one for x86_64"):
        fake_ids.main()
