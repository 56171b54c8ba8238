"""What the last words of a failed step mean: lines as tools write them."""

import pytest

from dlcontainer.build import error_patterns

LINES = [
    ("tar: ./usr/lib/x: Cannot write: No space left on device", "the disk is full"),
    ("OSError: [Errno 122] Disk quota exceeded: '/opt/x'", "your quota is used up"),
    (
        "./a.out: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found",
        "a program was built for a newer C library than the image's",
    ),
    (
        "SSLError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed (_ssl.c:992)')",
        "a server's certificate is not trusted: mostly a proxy with a CA of its own",
    ),
    (
        "FATAL: toomanyrequests: You have reached your pull rate limit.",
        "a server limits how often it may be asked",
    ),
    (
        "ERROR: No matching distribution found for torch==2.99.0+cpu",
        "no wheel of this version for the image's Python and architecture",
    ),
    (
        "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.",
        "what came is not what was expected: its checksum differs",
    ),
    ("/bin/sh: 1: exec: Exec format error", "a program of another architecture was to be started"),
    (
        "W: Failed to fetch http://mirror.example/x  Temporary failure resolving 'mirror.example'",
        "the outside can't be reached from here",
    ),
    (
        "E: Failed to fetch http://mirror.example/p/python3_3.11.2_amd64.deb  404  Not Found",
        "the mirror does not hold a package that its own index names: the mirror is at fault",
    ),
    (
        "FATAL: conveyor failed to get: error verifying sha256 checksum after reading 414 bytes",
        "what came is not what was expected: its checksum differs",
    ),
    (
        "E: Failed to fetch http://mirror.example/x.deb  500  Internal Server Error [IP: ::1 80]",
        "a server is at fault (HTTP 5xx)",
    ),
    (
        "E: Failed to fetch http://mirror.example/x.deb  Undetermined Error [IP: ::1 80]",
        "a file did not come whole",
    ),
    ("FATAL: error writing layer: unexpected EOF", "a file did not come whole"),
    (
        "Illegal instruction (core dumped)",
        "a program needs instructions that this processor does not have",
    ),
    ("MemoryError", "the memory was used up"),
]


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_known_kinds(line: str, cause: str) -> None:
    found = error_patterns.explain(f"before\n{line}\nmake: *** [all] Error 1", 1)
    assert found is not None
    assert (found.cause, found.line) == (cause, line)
    assert found.next_step


def test_the_last_known_line_counts() -> None:
    found = error_patterns.explain("MemoryError\nNo space left on device\nbye", 1)
    assert found is not None
    assert found.cause == "the disk is full"


@pytest.mark.parametrize(
    ("code", "kills", "cause"),
    [
        (1, 2, "out of memory"),
        (137, 0, "killed from outside, mostly for want of memory"),
        (-9, 0, "killed from outside, mostly for want of memory"),
        (-9, 1, "out of memory"),
    ],
)
def test_killed(code: int, kills: int, cause: str) -> None:
    found = error_patterns.explain("Killed", code, kills)
    assert found is not None
    assert found.cause == cause


def test_what_is_not_known_is_not_guessed() -> None:
    assert error_patterns.explain("SyntaxError: invalid syntax\nexit 1", 1) is None
    assert error_patterns.explain("", 2) is None
