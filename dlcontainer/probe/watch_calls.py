"""What a thread does by the system call that it is in: its kind, and which file that is about.

Numbers of Linux by machine: x86-64's own table, arm64's generic one, powerpc's 64-bit one. A
machine that is not here tells no calls apart. Standard library only, Python >= 3.6.
"""

# What is said of a thread. `waiting`: it sleeps in a call that is not told apart.
RUNNING, ASLEEP, POLL, FUTEX, CHILD = "running", "asleep", "poll", "futex", "child"
READ, WRITE, SYNC, PATH, FAULT = "read", "write", "sync", "path", "fault"
PIPE, SOCKET, DISK, WAITING = "pipe", "socket", "blocked", "waiting"
# Of these a file system is told, where the call has a file or a path.
OF_FILES = (READ, WRITE, SYNC, PATH)
# In these a thread may wait for another one, which reads.
FOR_OTHERS = (POLL, FUTEX, CHILD, PIPE)

# A call's kind, and its arguments' places: of an open file, or of a path (with its folder's).
_FD, _FD_1, _NAME, _AT = "fd", "fd1", "name", "at"
_MEANING = {
    "nanosleep clock_nanosleep pause rt_sigsuspend rt_sigtimedwait": (ASLEEP, ""),
    "poll ppoll select pselect6 _newselect epoll_wait epoll_pwait epoll_pwait2": (POLL, ""),
    "futex futex_waitv": (FUTEX, ""),
    "wait4 waitid": (CHILD, ""),
    "recvfrom recvmsg sendto sendmsg accept accept4 connect": (SOCKET, ""),
    "read readv pread64 preadv preadv2 getdents getdents64 copy_file_range": (READ, _FD),
    "sendfile": (READ, _FD_1),
    "write writev pwrite64 pwritev pwritev2 ftruncate": (WRITE, _FD),
    "fsync fdatasync sync_file_range": (SYNC, _FD),
    "sync msync": (SYNC, ""),
    "fstat": (PATH, _FD),
    "close": (PATH, ""),
    "open stat lstat access readlink mkdir unlink rename creat rmdir execve truncate": (PATH, _NAME),
    "openat openat2 newfstatat statx faccessat faccessat2 mkdirat unlinkat readlinkat renameat "
    "renameat2": (PATH, _AT),
}  # fmt: skip
_NUMBERS = {
    "x86_64": (
        "read=0 write=1 open=2 close=3 stat=4 fstat=5 lstat=6 poll=7 pread64=17 pwrite64=18 "
        "readv=19 writev=20 access=21 select=23 msync=26 pause=34 nanosleep=35 sendfile=40 "
        "connect=42 accept=43 sendto=44 recvfrom=45 sendmsg=46 recvmsg=47 execve=59 wait4=61 "
        "fsync=74 fdatasync=75 truncate=76 ftruncate=77 getdents=78 rename=82 mkdir=83 rmdir=84 "
        "creat=85 unlink=87 readlink=89 rt_sigtimedwait=128 rt_sigsuspend=130 sync=162 futex=202 "
        "getdents64=217 clock_nanosleep=230 epoll_wait=232 waitid=247 openat=257 mkdirat=258 "
        "newfstatat=262 unlinkat=263 renameat=264 readlinkat=267 faccessat=269 pselect6=270 "
        "ppoll=271 sync_file_range=277 epoll_pwait=281 accept4=288 preadv=295 pwritev=296 "
        "renameat2=316 copy_file_range=326 preadv2=327 pwritev2=328 statx=332 openat2=437 "
        "faccessat2=439 epoll_pwait2=441 futex_waitv=449"
    ),
    "aarch64": (
        "epoll_pwait=22 mkdirat=34 unlinkat=35 renameat=38 truncate=45 ftruncate=46 faccessat=48 "
        "openat=56 close=57 getdents64=61 read=63 write=64 readv=65 writev=66 pread64=67 "
        "pwrite64=68 preadv=69 pwritev=70 sendfile=71 pselect6=72 ppoll=73 readlinkat=78 "
        "newfstatat=79 fstat=80 sync=81 fsync=82 fdatasync=83 sync_file_range=84 waitid=95 "
        "futex=98 nanosleep=101 clock_nanosleep=115 rt_sigsuspend=133 rt_sigtimedwait=137 "
        "accept=202 connect=203 sendto=206 recvfrom=207 sendmsg=211 recvmsg=212 execve=221 "
        "msync=227 accept4=242 wait4=260 renameat2=276 copy_file_range=285 preadv2=286 "
        "pwritev2=287 statx=291 openat2=437 faccessat2=439 epoll_pwait2=441 futex_waitv=449"
    ),
    "ppc64le": (
        "read=3 write=4 open=5 close=6 creat=8 unlink=10 execve=11 pause=29 access=33 sync=36 "
        "rename=38 mkdir=39 rmdir=40 readlink=85 truncate=92 ftruncate=93 stat=106 lstat=107 "
        "fstat=108 wait4=114 fsync=118 getdents=141 _newselect=142 msync=144 readv=145 "
        "writev=146 fdatasync=148 nanosleep=162 poll=167 rt_sigtimedwait=176 rt_sigsuspend=178 "
        "pread64=179 pwrite64=180 sendfile=186 getdents64=202 futex=221 epoll_wait=238 "
        "clock_nanosleep=248 waitid=272 pselect6=280 ppoll=281 openat=286 mkdirat=287 "
        "newfstatat=291 unlinkat=292 renameat=293 readlinkat=296 faccessat=298 epoll_pwait=303 "
        "preadv=320 pwritev=321 connect=328 accept=330 sendto=335 recvfrom=337 sendmsg=341 "
        "recvmsg=342 accept4=344 renameat2=357 copy_file_range=379 preadv2=380 pwritev2=381 "
        "statx=383 openat2=437 faccessat2=439 epoll_pwait2=441 futex_waitv=449"
    ),
}
_AT_CWD = -100


def table(machine):
    """Return a machine's calls by number: their kind, and where their file stands."""
    meaning = {name: what for names, what in _MEANING.items() for name in names.split()}
    pairs = [pair.split("=") for pair in _NUMBERS.get(machine, "").split()]
    return {int(number): meaning[name] for name, number in pairs}


class Call:
    """What a thread does: its kind, and the open file or the path's address that it is about."""

    __slots__ = ("address", "fd", "kind")

    def __init__(self, kind, fd=None, address=None):
        self.kind, self.fd, self.address = kind, fd, address


def call(text, calls):
    """Return what a line of /proc/PID/syscall says."""
    words = text.split()
    if not words or words[0] == b"running":
        return Call(RUNNING)
    number = int(words[0])
    if number < 0:
        # It waits, and in no call: for a page of a file, or of swapped memory.
        return Call(FAULT)
    kind, place = calls.get(number, (WAITING, ""))
    arguments = [int(word, 16) for word in words[1:4]]
    if place in (_FD, _FD_1):
        return Call(kind, fd=_signed(arguments[place == _FD_1]))
    if place == _NAME:
        return Call(kind, fd=_AT_CWD, address=arguments[0])
    if place == _AT:
        return Call(kind, fd=_signed(arguments[0]), address=arguments[1])
    return Call(kind)


def _signed(number):
    """Return an int of C as it was given."""
    number &= 0xFFFFFFFF
    return number - (1 << 32) if number >> 31 else number
