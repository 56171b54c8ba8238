"""The set-up as it is typed, with a planted pip and a planted apt-get: quiet, verbose, failing."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dlcontainer.engine_setup.set_up import TITLES
from tests.processes import MARK, kill_marked, new_mark
from tests.setup_scripts import copy_scripts
from tools import set_up, setup_tests, setup_venv

pytestmark = pytest.mark.usefixtures("real_processes")

# A pip in an environment of its own, that says what the real one says, and what a test wants.
_PIP = """\
import os, sys, time
print("Collecting planted", flush=True)
print("Downloading planted-1.0-py3-none-any.whl (9 MB)", flush=True)
say = os.environ.get("PLANTED_PIP", "")
if say == "fails":
    print("ERROR: Could not find a version that satisfies planted", flush=True)
    for number in range(30):
        print(f"line {number}", flush=True)
    print("OSError: [Errno 28] No space left on device", flush=True)
    sys.exit(7)
if say == "waits":
    open(os.environ["PLANTED_READY"], "w").close()
    time.sleep(600)
print("Successfully installed planted-1.0", flush=True)
"""


@dataclass(kw_only=True, slots=True)
class Checkout:
    """A checkout with the set-up's own scripts, whose environment has a planted pip."""

    folder: Path
    environ: dict[str, str]

    def command(self, *words: str) -> list[str]:
        return [sys.executable, str(self.folder / "tools/set_up.py"), *words, "--extras", ""]

    def run(self, *words: str, **environ: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.command(*words),
            cwd=self.folder,
            env={**self.environ, **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    folder = tmp_path / "a checkout"
    copy_scripts(folder)
    (folder / "pyproject.toml").write_text("[project]\n")
    planted = folder / "planted"
    (planted / "pip").mkdir(parents=True)
    (planted / "pip/__main__.py").write_text(_PIP)
    (planted / "pip/__init__.py").touch()
    # What makes the environment finds all: it is made without a real pip, which takes seconds.
    # Python's own `venv` hides PYTHONPATH from ensurepip, so it is told to leave that out.
    (planted / "sitecustomize.py").write_text(
        "import venv\nvenv.EnvBuilder._setup_pip = lambda *_: None\n"
    )
    (planted / "ensurepip").mkdir()
    (planted / "ensurepip/__init__.py").write_text("def version(): return '1'\n")
    (planted / "ensurepip/__main__.py").touch()
    (folder / "bin").mkdir()
    mark = new_mark()
    environ = {
        "HOME": str(tmp_path),
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(planted),
        MARK: mark,
    }
    yield Checkout(folder=folder, environ=environ)
    kill_marked(mark)


def test_the_steps_are_counted_from_what_is_set_up() -> None:
    assert set_up.titles(["venv"]) == [setup_venv.TITLE]
    assert set_up.titles(["tests", "engine", "venv"]) == [
        setup_venv.TITLE,
        *TITLES,
        setup_tests.TITLE,
    ]


def test_quiet_pips_lines_are_in_the_log_alone(checkout: Checkout) -> None:
    done = checkout.run("venv")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].endswith("s] 1/1 Python environment")
    assert "pip installs dlcontainer and what it needs (half a minute)" in done.stdout
    assert "planted" not in done.stdout
    log = (checkout.folder / setup_venv.LOG).read_text()
    assert "Downloading planted-1.0" in log
    assert "Successfully installed planted-1.0" in log
    again = checkout.run("venv")
    assert "found: " in again.stdout
    assert (again.returncode, len(again.stdout.splitlines())) == (0, 2)


@pytest.mark.parametrize("how", ["-v", "V=1"])
def test_verbose_they_are_shown_too(checkout: Checkout, how: str) -> None:
    done = checkout.run("venv", "-v") if how == "-v" else checkout.run("venv", V="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "    Downloading planted-1.0" in done.stdout
    assert "    Successfully installed planted-1.0" in done.stdout


def test_a_failure_names_the_cause_and_the_log(checkout: Checkout) -> None:
    done = checkout.run("venv", PLANTED_PIP="fails")
    assert done.returncode == 1
    assert "error: 1/1 Python environment: failed (7): " in done.stderr
    # Its own error, though thirty lines came after it, and the last lines; not all.
    assert "ERROR: Could not find a version" in done.stderr
    assert "line 29" in done.stderr
    assert "line 3\n" not in done.stderr
    assert "next: the disk is full" in done.stderr
    log = checkout.folder / setup_venv.LOG
    assert f"all that the tools said: {log}" in done.stderr
    assert "line 3\n" in log.read_text()
    assert "Traceback" not in done.stderr
    assert checkout.run("venv").returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_environment_and_no_pip(
    checkout: Checkout, number: signal.Signals
) -> None:
    ready = checkout.folder / "ready"
    os.mkfifo(ready)
    more = {"PLANTED_PIP": "waits", "PLANTED_READY": str(ready)}
    with subprocess.Popen(
        checkout.command("venv"),
        cwd=checkout.folder,
        env={**checkout.environ, **more},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        ready.open().close()  # pip has opened it
        running.send_signal(number)
        _, said = running.communicate()
    assert running.returncode == 128 + number
    assert said == "interrupted in step 1/1 Python environment\n"
    assert not (checkout.folder / ".venv").exists()
    assert checkout.run("venv").returncode == 0


_APT = """\
#!/bin/sh
case " $* " in
*" -s install "*) echo "Inst chromium (1.0)" ;;
*" install "*)
    echo "Setting up chromium (1.0) ..."
    if [ -n "${PLANTED_APT-}" ]; then echo "E: dpkg was interrupted"; exit 100; fi ;;
esac
"""


@pytest.fixture
def with_apt(checkout: Checkout) -> Checkout:
    """Plant an apt-get, and what says that all but one package is there."""
    for name, text in (
        ("apt-get", _APT),
        ("sudo", '#!/bin/sh\n[ "$1" = -n ] && shift\nexec "$@"\n'),
        *((name, "#!/bin/sh\n") for name in ("dpkg-deb", "docker-registry", "update-binfmts")),
        *((sign, "#!/bin/sh\n") for sign in setup_tests.WANTED if not sign.startswith("/")),
    ):
        (checkout.folder / "bin" / name).write_text(text)
        (checkout.folder / "bin" / name).chmod(0o755)
    (checkout.folder / "bin/chromium").unlink()
    script = checkout.folder / "tools/setup_tests.py"
    # Whatever this machine has or has not: one package is missing.
    text = script.read_text().replace(
        "def missing(only: Collection[str]) -> list[str]:\n",
        (
            "def missing(only: Collection[str]) -> list[str]:\n    return ['chromium']\n\n\n"
            "def _missing(only: Collection[str]) -> list[str]:\n"
        ),
    )
    text = text.replace("wants_qemu = not names or QEMU in only", "wants_qemu = False")
    script.write_text(text)
    return checkout


def test_dpkgs_lines_are_quiet_verbose_and_shown_where_it_fails(with_apt: Checkout) -> None:
    done = with_apt.run("tests")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1/1 packages of the distribution" in done.stdout
    assert "install chromium" in done.stdout
    assert "Setting up" not in done.stdout
    assert "    Setting up chromium" in with_apt.run("tests", V="1").stdout
    failed = with_apt.run("tests", PLANTED_APT="fails")
    assert failed.returncode == 1
    assert "error: 1/1 packages of the distribution: failed (100): " in failed.stderr
    assert "E: dpkg was interrupted" in failed.stderr
    assert "all that the tools said: " in failed.stderr
