"""Run one command as if it could change owners, groups and ids: those calls succeed, unchanged.

Run by path, not imported: `python -I -S fake_ids.py PROGRAM [ARGUMENT...]`, by root of
a user namespace that maps this one id. Every file there is root's, whatever a package asks for, and
images pack all files as root's anyway. A seccomp filter answers the calls, as `ch-image
--force=seccomp` of Charliecloud does it: it needs no right, no library in the tree and no setuid
program, and it holds for static programs too. seccomp(2), user_namespaces(7).
"""

import ctypes
import os
import platform
import stat
import sys

PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
SECCOMP_RET_ALLOW = 0x7FFF0000
# The call does nothing and returns this errno: 0, so the caller believes that it worked.
SECCOMP_RET_ERRNO_0 = 0x00050000

# Classic BPF: load 32 bits, return, jump if equal, and with the accumulator.
LOAD, RETURN, IF_EQUAL, AND = 0x20, 0x06, 0x15, 0x54

# Offsets in struct seccomp_data; all three machines are little-endian.
NUMBER, ARCH, ARGUMENTS = 0, 4, 16

# Machine -> (its AUDIT_ARCH, the calls to answer, the calls that make nodes and which argument is
# the mode). Numbers of asm/unistd.h; aarch64 has the *at forms alone.
MACHINES: dict[str, tuple[int, tuple[int, ...], dict[int, int]]] = {
    "x86_64": (
        0xC000003E,
        # chown fchown lchown fchownat, setuid setgid setreuid setregid setgroups
        # setresuid setresgid
        (92, 93, 94, 260, 105, 106, 113, 114, 116, 117, 119),
        {133: 1, 259: 2},
    ),
    "aarch64": (
        0xC00000B7,
        (55, 54, 146, 144, 145, 143, 159, 147, 149),
        {33: 2},
    ),
    "ppc64le": (
        0xC0000015,
        (181, 95, 16, 289, 23, 46, 70, 71, 81, 164, 169),
        {14: 1, 288: 2},
    ),
}


class Instruction(ctypes.Structure):
    """struct sock_filter of linux/filter.h."""

    _fields_ = (
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    )


class Program(ctypes.Structure):
    """struct sock_fprog of linux/filter.h."""

    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(Instruction)))


def instructions(machine: str) -> list[tuple[int, int, int, int]]:
    """Return the filter of a machine: (code, jump if true, jump if false, value) each."""
    arch, answered, nodes = MACHINES[machine]
    # Calls of another kind, 32-bit ones for example, have other numbers: they are let through.
    program = [
        (LOAD, 0, 0, ARCH),
        (IF_EQUAL, 1, 0, arch),
        (RETURN, 0, 0, SECCOMP_RET_ALLOW),
        (LOAD, 0, 0, NUMBER),
    ]
    for number in answered:
        program += [(IF_EQUAL, 0, 1, number), (RETURN, 0, 0, SECCOMP_RET_ERRNO_0)]
    for number, argument in nodes.items():
        program += [
            (IF_EQUAL, 0, 6, number),
            (LOAD, 0, 0, ARGUMENTS + 8 * argument),
            (AND, 0, 0, 0o170000),
            # Pipes and sockets are made; devices can't be, in a user namespace.
            (IF_EQUAL, 1, 0, stat.S_IFCHR),
            (IF_EQUAL, 0, 1, stat.S_IFBLK),
            (RETURN, 0, 0, SECCOMP_RET_ERRNO_0),
            (RETURN, 0, 0, SECCOMP_RET_ALLOW),
        ]
    return [*program, (RETURN, 0, 0, SECCOMP_RET_ALLOW)]


def install(machine: str) -> None:
    """Put the filter on this process and all that come from it; it can't be taken off."""
    listed = instructions(machine)
    array = (Instruction * len(listed))(*(Instruction(*fields) for fields in listed))
    program = Program(len(listed), array)
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    # Without CAP_SYS_ADMIN the kernel takes a filter only from who can't gain rights any more.
    if libc.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS)")
    mode = ctypes.c_ulong(SECCOMP_MODE_FILTER)
    if libc.prctl(PR_SET_SECCOMP, mode, ctypes.byref(program), zero, zero):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_SECCOMP)")


def main() -> None:
    """Install the filter and become the command; 127 where either can't be."""
    machine, command = platform.machine(), sys.argv[1:]
    if machine not in MACHINES:
        sys.exit(f"fakeids: no filter for {machine}; there is one for {', '.join(MACHINES)}")
    try:
        install(machine)
        os.execvp(command[0], command)  # noqa: S606 - no shell is what we want
    except OSError as error:
        sys.stderr.write(f"fakeids: {error}\n")
        sys.exit(127)


if __name__ == "__main__":
    main()
