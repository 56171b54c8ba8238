"""Wrappers of a published image, run by the real engine."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.publish.tools import ARGUMENTS, SHOW, Shelf, program
from tests.integration.world import write_wheel
from tests.processes import poll
from tests.skips import skip

TREE = (
    "import json, os, sys; print(json.dumps([dict(os.environ), sys.path, sys.flags.no_user_site]))"
)


def test_arguments_arrive_as_they_were(shelf: Shelf) -> None:
    done = shelf.run(shelf.python, "-c", SHOW, *ARGUMENTS)
    assert json.loads(done.stdout) == list(ARGUMENTS)
    assert done.stderr == ""


def test_stdin_cwd_and_exit_code(shelf: Shelf, tmp_path: Path) -> None:
    folder = tmp_path / 'it\'s here, "you": $(x)'
    folder.mkdir()
    (folder / "script.py").write_text(
        "import os, sys; print(os.getcwd()); print(sys.stdin.read()); sys.exit(7)"
    )
    done = shelf.run(shelf.python, "script.py", cwd=folder, stdin="two\nlines", code=7)
    assert done.stdout == f"{folder}\ntwo\nlines\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_death_by_a_signal(shelf: Shelf, number: int) -> None:
    text = f"import os; os.kill(os.getpid(), {int(number)})"
    shelf.run("/bin/sh", "-c", '"$0" -c "$1"; exit $?', shelf.python, text, code=128 + number)


def test_sigterm_is_handed_on(shelf: Shelf, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    # Short sleeps, since a signal that comes just before a sleep is handled just after it.
    text = (
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('saved', flush=True), sys.exit(9)))\n"
        "pathlib.Path(sys.argv[1]).touch()\n"
        "while True:\n"
        "    time.sleep(0.1)\n"
    )
    with subprocess.Popen(
        [shelf.python, "-c", text, str(ready)],
        env=dict(shelf.environ),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert poll(ready.exists, 60)
            process.send_signal(signal.SIGTERM)
            said, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (said, process.returncode) == ("saved\n", 9)


def test_called_through_links(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "far").symlink_to(shelf.folder / "bin")
    (tmp_path / "mine").symlink_to("far/python")
    (tmp_path / "other").symlink_to("mine")
    assert shelf.run("./other", "-c", "print(1)", cwd=tmp_path).stdout == "1\n"
    path = f"{tmp_path / 'far'}:{shelf.environ['PATH']}"
    assert shelf.run("python3", "-c", "print(2)", PATH=path).stdout == "2\n"


def test_the_host_stays_out(shelf: Shelf) -> None:
    home = Path(shelf.environ["HOME"])
    site = home / ".local/lib/python3.11/site-packages"
    site.mkdir(parents=True, exist_ok=True)
    (site / "torch.py").write_text("raise SystemExit('poisoned')")
    (site / "usercustomize.py").write_text("raise SystemExit('poisoned')")
    (home / "evil").mkdir(exist_ok=True)
    (home / "evil" / "torch.py").write_text("raise SystemExit('poisoned')")
    poison: dict[str, Any] = {
        "PYTHONPATH": str(home / "evil"),
        "PYTHONHOME": str(home / "evil"),
        "PYTHONSTARTUP": str(home / "evil/torch.py"),
        "LD_LIBRARY_PATH": str(home / "evil"),
        "LD_PRELOAD": str(home / "evil/libxalt_init.so"),
        "VIRTUAL_ENV": str(home / "evil"),
        "APPTAINERENV_PYTHONPATH": str(home / "evil"),
        "SINGULARITYENV_LD_PRELOAD": "/evil.so",
        "APPTAINER_BIND": "/etc:/opt/pytorch",
        "APPTAINERENV_APPEND_PATH": "/evil",
        "MY_OWN": "x",
    }
    done = shelf.run(shelf.python, "-c", TREE, **poison)
    environ, path, no_user_site = json.loads(done.stdout)
    seen = json.dumps([environ.get(name) for name in poison if "BIND" not in name])
    assert "evil" not in seen
    assert environ["LD_LIBRARY_PATH"] == "/.singularity.d/libs"
    assert environ.get("APPTAINER_BIND", "") == ""
    assert not any(str(home) in entry for entry in path)
    assert (no_user_site, environ["MY_OWN"], environ["HOME"]) == (1, "x", str(home))
    said = shelf.run(shelf.python, "-c", "import torch; print(torch.__file__)", **poison).stdout
    assert said.startswith("/opt/pytorch/")


def test_what_a_job_needs_goes_in(shelf: Shelf) -> None:
    hostile = "a,b \"c\" 'd' $(touch /tmp/evaluated) `x` \\ \\\\ $HOME\nexport OMP_FAKE=1\n"
    variables: dict[str, Any] = {
        "SLURM_JOB_ID": hostile,
        "OMP_NUM_THREADS": "3",
        "MASTER_ADDR": "",
        "PERL5LIB": hostile,
        "R_HOME": "y",
        "LR": "3",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "CONDA_MINE": "m",
        "CONDA_TOO": "n",
        "CONDA_NOT": "no",
        "DLCONTAINER_PASS": "CONDA_MINE,CONDA_TOO",
    }
    environ, _, _ = json.loads(shelf.run(shelf.python, "-c", TREE, **variables).stdout)
    passed = {name: environ.get(name) for name in variables}
    assert passed == {**variables, "CONDA_NOT": None, "DLCONTAINER_PASS": None}
    assert "OMP_FAKE" not in environ
    assert not Path("/tmp/evaluated").exists()


def test_a_script_outside(shelf: Shelf) -> None:
    # Below /var, which no site binds.
    folder = Path("/var/opt") / f"dlcontainer-test-{os.getpid()}"
    try:
        folder.mkdir(parents=True)
    except PermissionError:
        skip("no folder outside the binds can be made here", elsewhere="a run as root")
    try:
        script = folder / "train.py"
        script.write_text("print('ran')")
        for argv in (["python", "-u", "-W", "ignore"], ["torchrun", "--standalone"]):
            command = str(shelf.folder / "bin" / argv[0])
            done = shelf.run(command, *argv[1:], str(script), code=3)
            assert f"{script} lies outside the folders that the image sees" in done.stderr
            assert f"DLCONTAINER_BIND={folder}" in done.stderr
        bound = shelf.run(shelf.python, str(script), DLCONTAINER_BIND=f"{folder}:/tmp")
        assert bound.stdout == "ran\n"
        assert shelf.run(shelf.python, "train.py", cwd=folder).stdout == "ran\n"
    finally:
        script.unlink()
        folder.rmdir()
    missing = shelf.run(shelf.python, "/no/such.py", code=2)
    assert "No such file or directory" in missing.stderr
    shelf.run(shelf.python, "-c", "0", DLCONTAINER_BIND="/no/such", code=3)


def test_the_sites_file_systems_are_there(shelf: Shelf) -> None:
    project = shelf.root.parent / "project"
    (project / "out").unlink(missing_ok=True)
    text = f"open({str(project / 'out')!r}, 'w').write('x')"
    shelf.run(shelf.python, "-c", text, cwd=Path("/"))
    assert (project / "out").read_text() == "x"


def test_torchrun(shelf: Shelf, tmp_path: Path) -> None:
    script = tmp_path / "rank.py"
    # One write a rank: torchrun's ranks are unbuffered, and print() writes each of its words.
    script.write_text(
        "import os\nos.write(1, 'rank {RANK} {WORLD_SIZE}\\n'.format(**os.environ).encode())\n"
    )
    done = shelf.run(
        str(shelf.folder / "bin/torchrun"), "--standalone", "--nproc-per-node=2", str(script)
    )
    assert sorted(done.stdout.splitlines()) == ["rank 0 2", "rank 1 2"]


def test_under_mpirun(shelf: Shelf, tmp_path: Path) -> None:
    mpirun = program("mpirun", "openmpi-bin")
    names = "'OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE', 'PMIX_RANK'"
    text = f"import os, sys; print(*[os.environ[n] for n in ({names})], *sys.argv[1:])"
    options = ["--oversubscribe", *(["--allow-run-as-root"] if os.getuid() == 0 else [])]
    done = shelf.run(mpirun, *options, "-n", "2", shelf.python, "-c", text, "a b", "$(x)")
    assert sorted(done.stdout.splitlines()) == ["0 2 0 a b $(x)", "1 2 1 a b $(x)"]


def test_packages_on_top(shelf: Shelf, tmp_path: Path) -> None:
    """What docs/centre/publish.md says works, works."""
    wheels = write_wheel(tmp_path / "wheels").parent
    install = ("install", "-q", "--no-index", "--find-links", str(wheels), "dlctiny")
    made, pip = str(shelf.folder / "bin/dlcontainer-venv"), str(shelf.folder / "bin/pip")
    for argv in ((pip, *install), (shelf.python, "-m", "pip", *install)):
        assert "next: dlcontainer-venv" in shelf.run(*argv, code=2).stderr
    assert "--user" in shelf.run(pip, *install, "--user", code=1).stderr
    refused = shelf.run(shelf.python, "-m", "venv", str(tmp_path / "v2"), code=2)
    assert "leads to the host's Python" in refused.stderr
    assert not (tmp_path / "v2").exists()
    venv = tmp_path / "my venv"
    shelf.run(made, str(venv))
    mine: dict[str, Any] = {"DLCONTAINER_VENV": str(venv)}
    shelf.run(pip, *install, **mine)
    text = "import dlctiny, torch, sys; print(dlctiny.ANSWER, torch.__version__, sys.prefix)"
    for said in (
        shelf.run(shelf.python, "-c", text, **mine),
        shelf.run(made, str(venv), "python", "-c", text),
        shelf.run("/bin/sh", "-c", '. "$0/bin/activate"; python -c "$1"', str(venv), text),
    ):
        assert said.stdout.startswith("42 2")
        assert said.stdout.endswith(f"{venv}\n")
    # Commands of the image, too, run with the environment's Python.
    inside = "import os; os.write(1, (__import__('sys').prefix + '\\n').encode())"
    script = tmp_path / "rank.py"
    script.write_text(inside)
    launch = (str(shelf.folder / "bin/torchrun"), "--standalone", "--nproc-per-node=2", str(script))
    assert shelf.run(*launch, **mine).stdout == f"{venv}\n" * 2
    # Outside it leads to no Python at all, and not to the host's.
    assert (venv / "bin/python").is_symlink()
    assert not (venv / "bin/python").exists()
    assert not list(venv.glob("bin/*ctivate*.*"))
    shelf.run(shelf.python, "-c", text, code=1)
    shelf.run(pip, *install, "--target", str(tmp_path / "libs"))
    said = shelf.run(
        shelf.python, "-c", text, PYTHONPATH=str(tmp_path / "libs"), DLCONTAINER_PASS="PYTHONPATH"
    )
    assert said.stdout.startswith("42 2")


def test_an_environment_that_is_not_there_or_of_another_module(
    shelf: Shelf, tmp_path: Path
) -> None:
    made = str(shelf.folder / "bin/dlcontainer-venv")
    gone: dict[str, Any] = {"DLCONTAINER_VENV": str(tmp_path / "my-evn")}
    done = shelf.run(shelf.python, "-c", "print(1)", code=2, **gone)
    assert f"no environment at {tmp_path}/my-evn" in done.stderr
    assert done.stdout == ""
    venv = tmp_path / "mine"
    shelf.run(made, str(venv))
    (venv / ".dlcontainer-module").write_text("pytorch/1.0\n")
    done = shelf.run(shelf.python, "-c", "0", code=2, DLCONTAINER_VENV=str(venv))
    assert "belongs to the module pytorch/1.0" in done.stderr
    (tmp_path / "full").mkdir()
    (tmp_path / "full/work").write_text("x")
    for folder, says in (
        (str(tmp_path / "full"), "is not an environment"),
        ("/proc/none/x", "not a folder that you may write to"),
        ("a:b", "no folder of this name"),
        ("-x", "usage: dlcontainer-venv FOLDER"),
    ):
        assert says in shelf.run(made, folder, code=2).stderr
    assert (tmp_path / "full/work").read_text() == "x"


def test_the_mode_is_found_once(shelf: Shelf, tmp_path: Path) -> None:
    cache: dict[str, Any] = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    shelf.run(shelf.python, "-c", "0", **cache)
    (file,) = (tmp_path / "cache/dlcontainer").iterdir()
    before = file.stat().st_mtime_ns
    time.sleep(0.01)
    shelf.run(shelf.python, "-c", "0", **cache)
    assert file.stat().st_mtime_ns == before
    file.write_text("plain another host's\n")
    shelf.run(shelf.python, "-c", "0", **cache)
    assert file.read_text().split()[0] in ("plain", "userns", "unpacked")
    assert "another" not in file.read_text()


def test_caches_of_compiled_code_are_the_users_own(shelf: Shelf, tmp_path: Path) -> None:
    text = (
        "import os, pathlib\n"
        "folder = pathlib.Path(os.environ['TORCHINDUCTOR_CACHE_DIR'])\n"
        "(folder / 'x').write_text('1')\n"
        "print(folder, os.stat(folder).st_uid == os.getuid(), oct(os.stat(folder).st_mode & 0o777))"
    )
    done = shelf.run(shelf.python, "-c", text, TMPDIR=str(tmp_path))
    folder, own, mode = done.stdout.split()
    assert Path(folder).parent == tmp_path
    assert (own, mode) == ("True", "0o700")
    assert (Path(folder) / "x").read_text() == "1"
    mine = tmp_path / "mine"
    show = "import os; print(os.environ['TORCHINDUCTOR_CACHE_DIR'], os.environ['TRITON_CACHE_DIR'])"
    done = shelf.run(
        shelf.python, "-c", show, TORCHINDUCTOR_CACHE_DIR=str(mine), TRITON_CACHE_DIR="/x"
    )
    assert done.stdout == f"{mine} /x\n"
