"""A command in a folder that a real autofs mounts when it is entered; root only.

    unshare --mount --propagation slave python automount.py PLACE SOURCE FOLDER COMMAND...

PLACE becomes an autofs; PLACE/NAME is SOURCE/NAME, bound there on the first access. The command
starts in FOLDER, by that name. All of it ends with the command and its namespace.
"""

import ctypes
import fcntl
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

# linux/auto_fs.h: struct autofs_v5_packet, and the requests of its ioctls.
PACKET = struct.Struct("=iiIIQIIIII256s")
MISSING = 3
READY, FAILED = 0x9360, 0x9361
PR_SET_PDEATHSIG = 1


def serve(place: Path, source: Path, pipe: int) -> None:
    """Answer the kernel's requests; a process of this group is never sent one."""
    root = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    while packet := os.read(pipe, 304):
        _, kind, token, *_, length, name = PACKET.unpack(packet[: PACKET.size])
        word = name[:length].decode()
        done = kind == MISSING and (source / word).is_dir()
        if done:
            (place / word).mkdir(exist_ok=True)
            argv = ["mount", "--bind", str(source / word), str(place / word)]
            done = subprocess.run(argv, check=False).returncode == 0
        fcntl.ioctl(root, READY if done else FAILED, token)


def main(place: str, source: str, folder: str, *command: str) -> None:
    """Mount, serve in a process of its own, and become the command."""
    libc = ctypes.CDLL(None, use_errno=True)
    parent = os.getpid()
    get, put = os.pipe()
    told, tell = os.pipe()
    if os.fork() == 0:
        os.setsid()
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        words = f"fd={put},pgrp={os.getpgrp()},minproto=5,maxproto=5,indirect"
        failed = libc.mount(b"automount", place.encode(), b"autofs", 0, words.encode())
        os.write(tell, b"n" if failed or os.getppid() != parent else b"y")
        os.close(put)
        for number in (0, 1, 2):  # nobody who reads the command's output waits for this one
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        serve(Path(place), Path(source), get)
        os._exit(0)
    if os.read(told, 1) != b"y":
        sys.exit("no autofs can be mounted here")
    for number in (get, put, told, tell):
        os.close(number)
    os.chdir(folder)
    os.environ["PWD"] = folder
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
