"""Commands of the set-up: their lines told and kept, their failures readable."""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from dlcontainer.engine_setup import surroundings
from dlcontainer.errors import EngineError
from dlcontainer.system.process import ProcessRunner
from dlcontainer.system.runner import (
    CommandNotFoundError,
    CommandTimeoutError,
    CompletedCommand,
)

_TAIL, _ERRORS = 15, 5
# Words in a failed command's last lines -> what to do; the first that are there count.
_CURES = {
    "No space left|ENOSPC|Errno 28|Disk quota exceeded|EDQUOT|Errno 122": (
        "the disk is full: free some space, or {elsewhere}, and type it again"
    ),
    "Read-only file system|Errno 30|Errno 13": "it is not writable for you: {elsewhere}",
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
) -> CompletedCommand:
    """Run a command with captured output; raise EngineError with its last lines if it fails.

    `env` is added to the session's environment; more than `timeout` seconds is a failure.
    """
    environ = {**surroundings.environ(), "LC_ALL": "C.UTF-8", **(env or {})}
    try:
        done = ProcessRunner(environ=environ)(argv, cwd=cwd, timeout=timeout, check=False)
    except (OSError, CommandNotFoundError, CommandTimeoutError) as error:
        if check:
            raise EngineError(f"cannot run {argv[0]}", why=str(error)) from error
        reason = str(error)
        return CompletedCommand(
            argv=tuple(argv), returncode=127, stdout="", stderr=reason, elapsed=0
        )
    if check:
        for line in (f"$ {' '.join(argv)}", *(done.stdout + done.stderr).splitlines()):
            surroundings.teller().tool(line)
    if check and done.returncode != 0:
        said_last = (done.stdout + done.stderr).strip().splitlines()[-_TAIL:]
        raise _failure(argv, done.returncode, said_last)
    return done


def stream(argv: Sequence[str], *, what: str, cwd: Path | None = None) -> None:
    """Run a long command; its lines go to the teller.

    `what` says who works, for the signs of life. Raises EngineError with the last lines of a
    command that fails. Whatever ends this, the command has ended.
    """
    lines: list[str] = []

    def take(line: str) -> None:
        lines.append(line.rstrip())
        surroundings.teller().tool(line.rstrip())

    surroundings.teller().tool(f"$ {' '.join(argv)}")
    runner = ProcessRunner(environ=surroundings.environ())
    try:
        with surroundings.teller().waiting(what):
            done = runner(argv, cwd=cwd, on_line=take, check=False)
    except (OSError, CommandNotFoundError) as error:
        raise EngineError(f"cannot run {argv[0]}", why=str(error)) from error
    if done.returncode != 0:
        raise _failure(argv, done.returncode, _relevant(lines))


def _failure(argv: Sequence[str], code: int, lines: Sequence[str]) -> EngineError:
    why = "\n       ".join(lines) or "it printed nothing"
    return EngineError(f"failed ({code}): {' '.join(argv)}", why=why, next_step=cure(why))


def _relevant(lines: Sequence[str]) -> list[str]:
    """Return what tells why a tool failed: its own errors, and the last lines."""
    last = lines[-_TAIL:]
    errors = [line for line in lines[:-_TAIL] if re.match(r"\s*(E:|ERROR|error:)", line)]
    return [*errors[:_ERRORS], *last]


def cure(text: str) -> str | None:
    """Return what to do about a failed command's last lines; None where they are not known."""
    for pattern, step in _CURES.items():
        if re.search(pattern, text):
            return step.replace("{elsewhere}", surroundings.elsewhere())
    return None


def root_argv() -> list[str] | None:
    """Return what to put before a command to run it as root, or None where that is impossible."""
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo", path=surroundings.environ().get("PATH", os.defpath))
    if sudo and run(["sudo", "-n", "true"], check=False).returncode == 0:
        return ["sudo", "-n"]
    return None
