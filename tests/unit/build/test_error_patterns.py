"""What the last words of a failed step mean: lines as tools write them."""

import pytest

from dlcontainer.build import error_patterns

LINES = [
    ("tar: ./usr/lib/x: Cannot write: No space left on device", "the disk is full"),
    ("OSError: [Errno 122] Disk quota exceeded: '/opt/x'", "your quota is exhausted"),
    (
        "./a.out: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found",
        "a program needs a newer C library than the image has",
    ),
    (
        "SSLError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed (_ssl.c:992)')",
        ("a server's certificate is not trusted; usually a proxy uses a CA of its own"),
    ),
    (
        "FATAL: toomanyrequests: You have reached your pull rate limit.",
        "a server limits the rate of requests",
    ),
    (
        "ERROR: No matching distribution found for torch==2.99.0+cpu",
        ("there is no wheel of this version for the image's Python and architecture"),
    ),
    (
        "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.",
        "a downloaded file does not have the expected checksum",
    ),
    ("/bin/sh: 1: exec: Exec format error", "a program is built for another architecture"),
    (
        "W: Failed to fetch http://mirror.example/x  Temporary failure resolving 'mirror.example'",
        "this host cannot reach a server outside",
    ),
    (
        "E: Failed to fetch http://mirror.example/p/python3_3.11.2_amd64.deb  404  Not Found",
        "the mirror's index lists a package that the mirror does not have",
    ),
    (
        "FATAL: conveyor failed to get: error verifying sha256 checksum after reading 414 bytes",
        "a downloaded file does not have the expected checksum",
    ),
    (
        "E: Failed to fetch http://mirror.example/x.deb  500  Internal Server Error [IP: ::1 80]",
        "a server failed (HTTP 5xx)",
    ),
    (
        "E: Failed to fetch http://mirror.example/x.deb  Undetermined Error [IP: ::1 80]",
        "a download was incomplete",
    ),
    ("FATAL: error writing layer: unexpected EOF", "a download was incomplete"),
    (
        "Illegal instruction (core dumped)",
        "a program needs instructions that this processor does not have",
    ),
    ("MemoryError", "the host ran out of memory"),
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
        (137, 0, "something outside the build killed it, usually because memory ran out"),
        (-9, 0, "something outside the build killed it, usually because memory ran out"),
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
