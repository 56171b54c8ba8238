"""Become another command after a call of the kernel's; or keep the memory busy.

treated.py prctl PR_SET_THP_DISABLE COMMAND…; treated.py seccomp allow COMMAND…; treated.py hog
Numbers are those of linux/prctl.h, linux/seccomp.h and linux/filter.h.
"""

import ctypes
import os
import sys

_THP_DISABLE, _NO_NEW_PRIVS, _SET_SECCOMP, _FILTER = 41, 38, 22, 2
_RETURN, _ALLOW = 0x06, 0x7FFF0000


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("true", ctypes.c_uint8),
        ("false", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("filter", ctypes.POINTER(_Instruction)))


def _prctl(*words: object) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(*words):
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")


def main() -> None:
    """Do what the first word says."""
    kind, command = sys.argv[1], sys.argv[3:]
    if kind == "prctl":
        _prctl(_THP_DISABLE, 1, 0, 0, 0)
    elif kind == "seccomp":
        every = _Instruction(code=_RETURN, true=0, false=0, value=_ALLOW)
        program = _Program(length=1, filter=ctypes.pointer(every))
        _prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
        _prctl(_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0)
    else:
        one, other = bytearray(64 << 20), bytearray(64 << 20)
        while True:
            one[:], other[:] = other, one
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
