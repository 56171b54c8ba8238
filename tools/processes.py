"""The set-up scripts' one door to other processes: argv lists and readable failures."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tools.console import CONSOLE, Interrupted, SetupError

_TAIL, _ERRORS = 15, 5
# Words in a failed command's last lines -> what to do; the first that are there count.
_CURES = {
    "No space left|ENOSPC|Errno 28": (
        "the disk is full: free some, or clone the repository onto a larger one, and type it again"
    ),
    "Read-only file system|Errno 30|Errno 13": (
        "it is not writable for you: clone the repository into a folder of your own"
    ),
    r"\b407\b|Proxy Authentication Required": (
        "the proxy wants a name and a password: export HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT "
        "(and HTTP_PROXY for apt)"
    ),
    "Cannot connect to proxy": (
        "the proxy that HTTPS_PROXY names does not answer: correct it, or unset it; a mirror goes "
        "into PIP_INDEX_URL, its host into no_proxy"
    ),
    "CERTIFICATE_VERIFY_FAILED|[Cc]ertificate verif": (
        "your site's certificate authority is not known here: export "
        "SSL_CERT_FILE=/path/to/ca.pem PIP_CERT=/path/to/ca.pem"
    ),
    "Temporary failure|Network is unreachable|Connection refused|Could not connect|timed out"
    "|NewConnectionError|ConnectTimeout|No matching distribution": (
        "no way out from here, or only to a mirror: name it with PIP_INDEX_URL and in "
        "/etc/apt/sources.list, a proxy with HTTPS_PROXY; what is there already is kept, so type "
        "the same again"
    ),
}


def run(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    check: bool = True,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command with captured output; raise SetupError with its last lines if it fails.

    `env` is added to the environment of this process; more than `timeout` seconds is a failure.
    """
    try:
        done = subprocess.run(
            list(argv),
            cwd=cwd,
            env={**os.environ, "LC_ALL": "C.UTF-8", **(env or {})},
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        if check:
            raise SetupError(f"cannot run {argv[0]}", why=str(error)) from error
        return subprocess.CompletedProcess(list(argv), 127, "", str(error))
    if check:
        for line in (f"$ {' '.join(argv)}", *(done.stdout + done.stderr).splitlines()):
            CONSOLE.tool(line)
    if check and done.returncode != 0:
        why = _tail(done)
        what = f"failed ({done.returncode}): {' '.join(argv)}"
        raise SetupError(what, why=why, next_step=cure(why))
    return done


def stream(argv: Sequence[str], *, what: str, cwd: Path | None = None) -> None:
    """Run a long command; its lines go into the log, and to the user who asks for them.

    `what` says who works, for the signs of life. Raises SetupError with the last lines of a
    command that fails. Whatever ends this, the command has ended.
    """
    lines: list[str] = []
    CONSOLE.tool(f"$ {' '.join(argv)}")
    with (
        CONSOLE.waiting(what),
        _started(
            argv, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process,
    ):
        for line in process.stdout or ():
            lines.append(line.rstrip())
            CONSOLE.tool(line.rstrip())
    if process.returncode != 0:
        why = "\n       ".join(_relevant(lines)) or "it printed nothing"
        what = f"failed ({process.returncode}): {' '.join(argv)}"
        raise SetupError(what, why=why, next_step=cure(why))


def _relevant(lines: Sequence[str]) -> list[str]:
    """Return what tells why a tool failed: its own errors, and the last lines."""
    last = lines[-_TAIL:]
    errors = [line for line in lines[:-_TAIL] if re.match(r"\s*(E:|ERROR|error:)", line)]
    return [*errors[:_ERRORS], *last]


@contextlib.contextmanager
def _started(argv: Sequence[str], **options: object) -> Iterator["subprocess.Popen[str]"]:
    """Start a command, and wait for its end: where this is interrupted, it is too, once.

    It has a process group of its own: a terminal's Ctrl-C reaches it by way of this process alone,
    so that it is not interrupted again while it tidies up.
    """
    try:
        process = subprocess.Popen(  # type: ignore[call-overload]
            list(argv), stdin=subprocess.DEVNULL, process_group=0, errors="replace", **options
        )
    except OSError as error:
        raise SetupError(f"cannot run {argv[0]}", why=str(error)) from error
    try:
        yield process
        process.wait()
    except BaseException as error:
        number = error.number if isinstance(error, Interrupted) else signal.SIGINT
        # It may be root's (sudo), and then ends by itself.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        process.wait()
        raise
    finally:
        if process.stdout is not None:
            process.stdout.close()


def cure(text: str) -> str | None:
    """Return what to do about a failed command's last lines; None where they are not known."""
    return next((step for pattern, step in _CURES.items() if re.search(pattern, text)), None)


def pass_through(
    argv: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> int:
    """Run a command whose output goes where this one's goes, and return its exit code."""
    sys.stdout.flush()
    with _started(argv, cwd=cwd, env={**os.environ, **(env or {})}) as process:
        pass
    return process.returncode


def root_argv() -> list[str] | None:
    """Return what to put before a command to run it as root, or None where that cannot be had."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") and run(["sudo", "-n", "true"], check=False).returncode == 0:
        return ["sudo", "-n"]
    return None


def _tail(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stdout + done.stderr).strip().splitlines()
    return "\n       ".join(lines[-_TAIL:]) or "it printed nothing"
