"""The site's log of usage: one line of rank 0, and no run that waits for it or fails with it."""

import re
import socket
import time
from pathlib import Path
from typing import Any

from tests.integration.publish.test_wrapper_modes import Fake, fake
from tests.integration.publish.tools import program

LINE, END = "module=demo/1.0 release=demo-1.0 job=", " number=1"


def logged(tmp_path: Path, script: str, **changes: Any) -> Fake:
    """Give a wrapper whose site logs with a program of the test's."""
    there = fake(tmp_path, modules={"usage": ["our logger", "-t", "it's $HOME"], **changes})
    log = there.program.with_name("our logger")
    log.write_text(f"#!/bin/sh\n{script}\n")
    log.chmod(0o755)
    return there


def lines(there: Fake, count: int) -> list[str]:
    """Wait for so many lines of the logger."""
    path, deadline = there.program.with_name("log"), time.monotonic() + 60
    while time.monotonic() < deadline:
        written = path.read_text().splitlines() if path.exists() else []
        if len(written) >= count:
            return written
        time.sleep(0.05)
    raise AssertionError(f"the logger did not write {count} lines")


def test_one_line_of_rank_0(tmp_path: Path) -> None:
    note = """printf '<%s>' "$@" >> "${0%/*}/log"; echo >> "${0%/*}/log\""""
    there = logged(tmp_path, note)
    run = there.shelf.run
    run(there.shelf.python, "secret.py", "--token", "s3cret", SLURM_JOB_ID="42_7")
    first = f"<-t><it's $HOME><{LINE}42_7{END}>"
    assert lines(there, 1) == [first]
    # One line for all ranks, whatever launcher started them; those of mpirun have the batch
    # script's number in Slurm.
    others: tuple[dict[str, Any], ...] = (
        {"SLURM_PROCID": "1"},
        {"OMPI_COMM_WORLD_RANK": "1", "SLURM_PROCID": "0"},
        {"PMI_RANK": "3"},
        {"PMIX_RANK": "2", "SLURM_PROCID": "0"},
    )
    for variables in others:
        run(there.shelf.python, "x", **variables)
    run(there.shelf.python, "x", OMPI_COMM_WORLD_RANK="0", SLURM_PROCID="2")
    assert lines(there, 2) == [first, f"<-t><it's $HOME><{LINE}none{END}>"]
    # A job's id is the environment's: nothing but a name gets into the log.
    for number, bad in enumerate(("1\nmodule=other", "1 2", "$(id)", "x" * 65), start=3):
        run(there.shelf.python, "x", SLURM_JOB_ID=bad)
        last = lines(there, number)[-1]
        assert re.fullmatch(rf"<-t><it's \$HOME><{LINE}sha256-[0-9a-f]{{64}}{END}>", last)
    assert "s3cret" not in there.program.with_name("log").read_text()


def test_no_run_waits_or_fails(tmp_path: Path) -> None:
    there = logged(tmp_path, 'echo noise; echo noise >&2; : > "${0%/*}/begun"; sleep 60')
    began = time.monotonic()
    # Whoever reads its output waits until nobody holds it open.
    done = there.shelf.run(there.shelf.python, "x")
    assert time.monotonic() - began < 60, "it waited for its logger"
    assert (done.stdout, done.stderr) == ("", "")
    deadline = time.monotonic() + 60
    while not there.program.with_name("begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    there.program.with_name("our logger").write_text("#!/bin/sh\nexit 3\n")
    assert there.shelf.run(there.shelf.python, "x").stderr == ""
    there.program.with_name("our logger").unlink()
    assert there.shelf.run(there.shelf.python, "x").stderr == ""
    # The exit code is the engine's.
    there.works("never")
    assert there.shelf.run(there.shelf.python, "x", code=255).stderr.count("our logger") == 0


def test_a_site_without_a_log_starts_nothing(tmp_path: Path) -> None:
    text = Path(fake(tmp_path).shelf.python).read_text()
    assert "timeout -k" not in text


def test_logger_of_the_host(tmp_path: Path) -> None:
    """The line as `logger` hands it to syslog."""
    logger = program("logger", "bsdutils")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        path = tmp_path / "log"
        log.bind(str(path))
        log.settimeout(60)
        usage = [logger, "--socket", str(path), "--tag", "modules"]
        there = fake(tmp_path, modules={"usage": usage})
        there.shelf.run(there.shelf.python, "x", SLURM_JOB_ID="42")
        said = log.recv(4096).decode()
    assert said.startswith("<13>")  # user.notice
    assert said.endswith(f" modules: {LINE}42{END}")
