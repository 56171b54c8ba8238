"""Set-up on machines where something is wrong: it names it, and works when it is typed again."""

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dlcontainer.engine_setup.programs import PROGRAMS
from tests.integration.accounts import NOBODY
from tests.integration.test_bad_input import mounted
from tests.integration.test_setup_venv import answer, project
from tests.processes import MARK, kill_marked, new_mark
from tests.skips import skip

__all__ = ["project"]

PYTHON = str(getattr(sys, "_base_executable", sys.executable))
LIMIT_S = 300.0
# The shortest way to an error: pip asks again and again where it gets no answer.
NO_SETTINGS = {"PIP_CONFIG_FILE": os.devnull, "PIP_RETRIES": "1", "PATH": os.defpath}


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """The end of a set-up script: its code, and all that it said."""

    code: int
    said: str

    @property
    def error(self) -> str:
        """The message, from `error:` to its next step; a traceback is none."""
        assert "Traceback" not in self.said
        assert self.code == 1
        return self.said[self.said.rindex("error: ") :]


def script(
    project: Path, name: str, *options: str, before: Sequence[str] = (), **variables: str
) -> Ended:
    """Run a set-up script with these variables alone, after the words of `before`."""
    done = subprocess.run(
        [*before, PYTHON, str(project / "tools" / name), *options],
        cwd=project,
        env={"HOME": str(project), **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return Ended(code=done.returncode, said=done.stdout)


def make_venv(project: Path, *, before: Sequence[str] = (), **variables: str) -> Ended:
    return script(project, "setup_venv.py", before=before, **variables)


def works_now(project: Path) -> None:
    """Type it again, with the network of this machine: it is set up."""
    done = make_venv(project, **dict(os.environ))
    assert done.code == 0, done.said
    assert answer(project) == "42"
    assert not (project / ".venv/half").exists()


class _Refusing(BaseHTTPRequestHandler):
    """A proxy that wants a password."""

    def do_GET(self) -> None:
        self.send_response(407, "Proxy Authentication Required")
        self.send_header("Proxy-Authenticate", "Basic")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_CONNECT = do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def refusing() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.long
def test_no_network_at_all_and_then_one(project: Path) -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        skip("a network namespace needs root here", elsewhere="a run as root")
    error = make_venv(project, before=["unshare", "--net"], **NO_SETTINGS).error
    assert "next: no way out from here, or only to a mirror: name it with PIP_INDEX_URL" in error
    works_now(project)


@pytest.mark.long
def test_a_proxy_that_answers_407_and_one_that_does_not_answer(
    project: Path, refusing: str
) -> None:
    error = make_venv(project, HTTPS_PROXY=refusing, **NO_SETTINGS).error
    assert "next: the proxy wants a name and a password: export HTTPS_PROXY=" in error
    error = make_venv(project, HTTPS_PROXY="http://127.0.0.1:9", **NO_SETTINGS).error
    assert "next: the proxy that HTTPS_PROXY names does not answer" in error
    works_now(project)


@pytest.mark.long
def test_apt_behind_a_proxy_that_answers_407(project: Path, refusing: str) -> None:
    if shutil.which("apt-get") is None:
        skip("no apt-get here", elsewhere="Debian or Ubuntu")
    (project / "bin").mkdir()
    folders = ("--only", "prefix", "--prefix", "prefix", "--bin", "bin")
    error = script(project, "setup_engine.py", *folders, http_proxy=refusing, PATH=os.defpath).error
    assert "next: the proxy wants a name and a password" in error
    assert "HTTP_PROXY for apt" in error
    assert not list((project / "prefix").iterdir())


@pytest.mark.long
def test_only_a_mirror_answers(project: Path, tmp_path: Path) -> None:
    """A dead proxy is the rest of the world; the mirror is asked directly."""
    packages = tmp_path / "packages"
    fetch = ["-m", "pip", "download", "--quiet", "--dest", str(packages), "hatchling", "editables"]
    subprocess.run([sys.executable, *fetch], check=True, timeout=LIMIT_S)
    mirror = tmp_path / "mirror"
    for wheel in packages.iterdir():
        name = re.sub(r"[._]+", "-", wheel.name.split("-")[0].lower())
        (mirror / "simple" / name).mkdir(parents=True, exist_ok=True)
        wheel.rename(mirror / "simple" / name / wheel.name)

    class Mirror(SimpleHTTPRequestHandler):
        def __init__(self, *rest: object) -> None:
            super().__init__(*rest, directory=str(mirror))  # type: ignore[arg-type]

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Mirror) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = make_venv(
            project,
            HTTPS_PROXY="http://127.0.0.1:9",
            PIP_INDEX_URL=f"http://127.0.0.1:{server.server_port}/simple",
            no_proxy="127.0.0.1",
            **NO_SETTINGS,
        )
        server.shutdown()
    assert done.code == 0, done.said
    assert answer(project) == "42"


@pytest.mark.long
def test_a_full_disk_and_then_room(project: Path, tmp_path: Path) -> None:
    """Full while pip is unpacked: Python's own venv hides why it failed."""
    for small in mounted(tmp_path / "small", "size=4m"):
        there = small / "a project"
        shutil.copytree(project, there)
        error = make_venv(there, **os.environ).error
        assert "next: the disk is full: free some" in error
        subprocess.run(["mount", "-o", "remount,size=200m", str(small)], check=True)
        works_now(there)


@pytest.mark.long
@pytest.mark.parametrize("everyone", [True, False], ids=["all its processes", "itself alone"])
def test_killed_at_several_points_and_repeated(project: Path, everyone: bool) -> None:
    for point in ("make ", "pip installs", "Installing build dependencies: started"):
        # -v: the last of them is pip's own line.
        argv, mark = [PYTHON, str(project / "tools/setup_venv.py"), "-v"], new_mark()
        with subprocess.Popen(
            argv, cwd=project, env={**os.environ, MARK: mark}, stdout=subprocess.PIPE, text=True
        ) as running:
            for line in running.stdout or ():
                if point in line:
                    break
            running.kill()
            if everyone:
                # What it starts has a process group of its own.
                kill_marked(mark)
        assert not (project / ".venv/setup-stamp.json").exists()
    (project / ".venv/half").touch()
    works_now(project)


def test_a_checkout_that_is_not_the_users(project: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        skip("only root has a checkout that others may not write to", elsewhere="a run as root")
    for folder in (*tmp_path.parents, tmp_path, project):
        if folder.stat().st_mode & 0o005 != 0o005:
            folder.chmod(0o755)
    before = NOBODY.argv()
    for name in ("setup_venv.py", "setup_engine.py"):
        options = ("--bin", "tools") if "engine" in name else ()
        error = script(project, name, *options, before=before, PATH=os.defpath).error
        assert "next: it is not writable for you: clone the repository into a folder of" in error
        assert not {".venv", ".tools"} & {path.name for path in project.iterdir()}


def test_without_ensurepip_and_without_apt(project: Path, tmp_path: Path) -> None:
    hide = tmp_path / "hide"
    hide.mkdir()
    (hide / "ensurepip.py").write_text("raise ImportError('as on a bare Debian')\n")
    error = make_venv(project, PYTHONPATH=str(hide), PATH=str(hide)).error
    assert "no pip for the environment" in error
    assert "or name another Python: make setup PYTHON=/path/to/python3.11" in error


STUBS = {
    "an old one": 'echo "apptainer version 1.0.0"; exit 0',
    "garbage": "echo '\033[31m%$' ; exit 0",
    "a game": "echo 'Endgame: Singularity 1.00'",
    "it hangs": "exec sleep 300",
}


@pytest.fixture
def private(project: Path) -> Path:
    """Put an engine that was set up before into the prefix, as the record tells."""
    program = project / "prefix/apptainer/usr/bin/apptainer"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho "apptainer version 1.4.5"\n')
    program.chmod(0o755)
    (project / "prefix/apptainer/record.json").write_text("{}\n")
    (project / "bin").mkdir()
    return project / "prefix"


@pytest.mark.parametrize(
    "what", ["an old one", "garbage", "a game", pytest.param("it hangs", marks=pytest.mark.long)]
)
def test_another_program_first_on_the_path(project: Path, private: Path, what: str) -> None:
    """The private one serves in its place; it waits half a minute for one that hangs."""
    stub = project / "stub/apptainer"
    stub.parent.mkdir()
    stub.write_text(f"#!/bin/sh\n{STUBS[what]}\n")
    stub.chmod(0o755)
    for helper in PROGRAMS:  # nothing is to be installed for this test
        shutil.copyfile("/bin/true", stub.with_name(helper.command))
        stub.with_name(helper.command).chmod(0o755)
    done = script(
        project,
        *("setup_engine.py", "--prefix", str(private), "--bin", "bin"),
        PATH=f"{stub.parent}:/usr/bin:/bin",
    )
    assert done.code == 0, done.said
    link = project / "bin/apptainer"
    if what == "an old one":
        # It is an Apptainer: whether it can build is tried by doctor.
        assert f"found: {stub} (apptainer version 1.0.0)" in done.said
        assert not link.exists()
    else:
        assert f"{stub} is not used: its --version names neither Apptainer nor Sing" in done.said
        assert link.resolve().is_relative_to(private)
