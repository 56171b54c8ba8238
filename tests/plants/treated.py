"""Become another command after a call of the kernel's; or disturb one from beside it.

treated.py prctl NAME COMMAND…; treated.py seccomp allow COMMAND…
treated.py hog; treated.py throttle SECONDS; treated.py trace SECONDS
The last two act on the other children of the process that started them, and on all below those.
Numbers are those of linux/prctl.h, linux/seccomp.h and linux/filter.h.
"""

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

_NO_NEW_PRIVS, _SET_SECCOMP, _FILTER = 38, 22, 2
# Its number and its value: timers that may be 50 ms late.
_PRCTL = {"PR_SET_THP_DISABLE": (41, 1), "PR_SET_TIMERSLACK": (29, 50_000_000)}
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
    kind, word, command = sys.argv[1], "".join(sys.argv[2:3]), sys.argv[3:]
    if kind in _BESIDE:
        _BESIDE[kind](float(word or 0))
    if kind == "prctl":
        _prctl(*_PRCTL[word], 0, 0, 0)
    else:
        every = _Instruction(code=_RETURN, true=0, false=0, value=_ALLOW)
        program = _Program(length=1, filter=ctypes.pointer(every))
        _prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
        _prctl(_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0)
    os.execvp(command[0], command)


def _hog(_: float) -> None:
    one, other = bytearray(64 << 20), bytearray(64 << 20)
    while True:
        one[:], other[:] = other, one


def _throttle(seconds: float) -> None:
    """Stop the others and let them go on, by turns."""
    signal.signal(signal.SIGTERM, _let_go)
    while True:
        for number in (signal.SIGSTOP, signal.SIGCONT):
            _signal(number)
            time.sleep(seconds)


def _let_go(*_: object) -> None:
    _signal(signal.SIGCONT)
    os._exit(0)


def _signal(number: signal.Signals) -> None:
    for process in _others():
        try:
            os.kill(process, number)
        except ProcessLookupError:
            continue


def _trace(seconds: float) -> None:
    time.sleep(seconds)
    processes = [f"--attach={process}" for process in _others()]
    os.execvp("strace", ["strace", "-f", "-qq", "-e", "trace=none", *processes])


def _others() -> list[int]:
    """Give the processes below the one that started this, but for this."""
    parents = {int(p.name): _parent(p) for p in Path("/proc").iterdir() if p.name.isdigit()}
    wanted = [p for p, parent in parents.items() if parent == os.getppid() and p != os.getpid()]
    for process in wanted:
        # Grows while it is read, until none has a child that is not in it.
        wanted += [p for p, parent in parents.items() if parent == process]
    return wanted


def _parent(process: Path) -> int:
    try:
        # Its command's name, in brackets, may hold spaces.
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


_BESIDE = {"hog": _hog, "throttle": _throttle, "trace": _trace}

if __name__ == "__main__":
    main()
