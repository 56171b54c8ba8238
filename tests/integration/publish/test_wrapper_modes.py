"""Wrappers with an engine of the tests' own, which works only as a test says."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.publish import launch_files, modulefiles
from dlcontainer.publish.modulefiles import FallbackPrograms, ModuleRelease
from tests.integration.accounts import NOBODY
from tests.integration.publish.tools import Shelf, clean_home
from tests.integration.world import missing
from tests.values import TEMPLATES, site_of

# Notes its arguments; fails unless it is asked to run in the way that WORKS names.
ENGINE = """\
#!/bin/sh
{ printf '<%s>' "$@"; echo; } >> "$0.calls"
way=plain
for word do case $word in --userns) way=userns ;; --unsquash) way=unpacked ;; esac; done
[ "$way" = "$(cat "$0.works")" ] && exit
{ echo "INFO: x"; echo "FATAL: no $way here"; } >&2
exit 255
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fake:
    shelf: Shelf
    program: Path

    def works(self, way: str) -> None:
        self.program.with_name(f"{self.program.name}.works").write_text(way)

    def calls(self) -> list[str]:
        path = self.program.with_name(f"{self.program.name}.calls")
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines


def fake(tmp_path: Path, name: str = "apptainer", **changes: Any) -> Fake:
    release = ModuleRelease(
        name="demo",
        version="1.0",
        summary="s",
        homepage=None,
        license=None,
        commands=("python",),
        prefix="/opt/demo",
        digest="0" * 64,
        sha256="1" * 64,
        offset=4096,
    )
    programs = tmp_path / "programs"
    programs.mkdir()
    program = programs / name
    program.write_text(ENGINE)
    program.chmod(0o755)
    environ = clean_home(tmp_path)
    shelf = Shelf(
        root=tmp_path / "root",
        name="demo",
        version="1.0",
        environ={**environ, "PATH": f"{programs}:/usr/bin:/bin"},
    )
    (shelf.folder / "bin").mkdir(parents=True)
    (shelf.folder / "image.sif").write_text("")
    site = site_of(**changes).value
    texts = modulefiles.wrappers(
        release, site, FallbackPrograms(engine=Path("/no/apptainer")), [TEMPLATES]
    )
    launches = launch_files.texts({modulefiles.epoch_of(site): site}, release, [TEMPLATES])
    (shelf.folder / "launch").mkdir()
    for launch, text in launches.items():
        (shelf.folder / "launch" / launch).write_text(text)
    Path(shelf.python).write_text(texts["python"])
    Path(shelf.python).chmod(0o755)
    made = Fake(shelf=shelf, program=program)
    made.works("plain")
    return made


@pytest.mark.parametrize(
    ("way", "flags"),
    [("plain", ""), ("userns", "<--userns>"), ("unpacked", "<--userns><--unsquash>")],
)
def test_the_way_that_works_is_taken_and_remembered(tmp_path: Path, way: str, flags: str) -> None:
    there = fake(tmp_path)
    there.works(way)
    done = there.shelf.run(there.shelf.python, "x")
    *tries, last = there.calls()
    assert len(tries) == ["plain", "userns", "unpacked"].index(way) + 1
    home = there.shelf.environ["HOME"]
    assert last.startswith(f"<--quiet><exec><--cleanenv>{flags}<--pwd><{home}><--home><{home}>")
    assert last.endswith(f"<{there.shelf.folder}/image.sif><python><x>")
    assert ("unpacked for this run" in done.stderr) == (way == "unpacked")
    there.shelf.run(there.shelf.python)
    assert len(there.calls()) == 1


def test_the_user_can_say_how(tmp_path: Path) -> None:
    there = fake(tmp_path)
    there.works("userns")
    there.shelf.run(there.shelf.python, DLCONTAINER_RUN_MODE="userns")
    assert len(there.calls()) == 1
    done = there.shelf.run(there.shelf.python, DLCONTAINER_RUN_MODE="magic", code=2)
    assert "known: plain, userns, unpacked" in done.stderr


def test_no_way_works(tmp_path: Path) -> None:
    there = fake(tmp_path)
    there.works("never")
    done = there.shelf.run(there.shelf.python, code=4)
    for way in ("plain", "userns", "unpacked"):
        assert f"  {way}: FATAL: no {way} here\n" in done.stderr
    assert not list(Path(there.shelf.environ["HOME"]).rglob("run-mode*"))
    there.works("plain")  # a failure is not remembered
    there.shelf.run(there.shelf.python)


def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    there = fake(tmp_path)
    blocked: dict[str, Any] = {"XDG_CACHE_HOME": "/proc/nothing", "HOME": "/proc/none"}
    done = there.shelf.run(there.shelf.python, "x", cwd=tmp_path, **blocked)
    assert (done.stderr, len(there.calls())) == ("", 2)


def test_no_engine(tmp_path: Path) -> None:
    there = fake(tmp_path, engine={"module": "tools/apptainer"})
    done = there.shelf.run(there.shelf.python, PATH="/usr/bin:/bin", code=4)
    assert "demo/1.0 needs Apptainer or Singularity" in done.stderr
    assert "next: type: module load tools/apptainer" in done.stderr


@pytest.mark.parametrize("entry", ["", ".", "here", "./here"])
def test_an_engine_in_a_relative_folder_never_runs(tmp_path: Path, entry: str) -> None:
    there, work = fake(tmp_path), tmp_path / "work"
    trap = 'echo "caught: $0" >> "$TRAP"'
    for folder in (work, work / "here"):
        folder.mkdir()
        for name in ("apptainer", "singularity", "mkdir"):
            (folder / name).write_text(f"#!/bin/sh\n{trap}\n")
            (folder / name).chmod(0o755)
    path, caught = there.shelf.environ["PATH"], tmp_path / "caught"
    for order in (f"{entry}:{path}", f"{path}:{entry}"):
        there.shelf.run(there.shelf.python, cwd=work, PATH=order, TRAP=str(caught))
        assert there.calls()
    # With nothing else on PATH, no engine is found.
    alone = there.shelf.run(there.shelf.python, cwd=work, PATH=entry, TRAP=str(caught), code=4)
    assert "finds neither" in alone.stderr
    assert not caught.exists()


def test_singularity_gets_its_own_names(tmp_path: Path) -> None:
    there = fake(tmp_path, "singularity")
    there.program.write_text("#!/bin/sh\nenv | grep ^[AS].*ENV_RANK=\n")
    assert there.shelf.run(there.shelf.python, RANK="7").stdout == "SINGULARITYENV_RANK=7\n"


def test_the_image_was_withdrawn(tmp_path: Path) -> None:
    there = fake(tmp_path)
    (there.shelf.folder / "image.sif").unlink()
    done = there.shelf.run(there.shelf.python, code=4)
    assert "demo/1.0: can't read" in done.stderr
    assert there.calls() == []


def test_folders(tmp_path: Path) -> None:
    # Not below /tmp, which the engine shows by itself.
    with tempfile.TemporaryDirectory(dir=Path.home(), prefix="dlcontainer-test-") as name:
        folder = Path(name).resolve()
        (folder / "real").mkdir()
        (folder / "link").symlink_to("real")
        (folder / "a:b,c").mkdir()
        paths = [str(folder / name) for name in ("link", "a:b,c", "not on this node")]
        entries = [{"path": path, "kind": "local", "purpose": "scratch"} for path in paths]
        there = fake(tmp_path, filesystems=entries, modules={"bind_home": False})
        there.shelf.run(there.shelf.python, cwd=Path("/"))
    call = there.calls()[-1]
    assert "<--no-home>" in call
    assert "<--home>" not in call
    assert "not on this node" not in call
    assert f"<--bind><{folder}/link>" in call
    assert f"<--bind><{folder}/real>" in call
    assert f'<--mount><type=bind,"source={folder}/a:b,c","destination={folder}/a:b,c">' in call


CACHES = ("TORCHINDUCTOR_CACHE_DIR", "MIOPEN_USER_DB_PATH", "MIOPEN_CUSTOM_CACHE_DIR")


def caches(there: Fake, **variables: str) -> dict[str, str]:
    """Give the variables for caches that reach the engine."""
    there.program.write_text("#!/bin/sh\nenv | grep -E '^APPTAINERENV_(TORCHI|MIOPEN|TRITON)'\n")
    changes: dict[str, Any] = {"DLCONTAINER_RUN_MODE": "plain", **variables}
    done = there.shelf.run(there.shelf.python, **changes)
    assert done.stderr == ""
    pairs = (line.split("=", 1) for line in done.stdout.splitlines())
    return {name.removeprefix("APPTAINERENV_"): value for name, value in pairs}


def test_caches_are_each_users_own(tmp_path: Path) -> None:
    there = fake(tmp_path)
    folder = tmp_path / f"dlcontainer-caches-{os.getuid()}"
    before = os.umask(0)
    try:
        assert caches(there, TMPDIR=str(tmp_path)) == dict.fromkeys(CACHES, str(folder))
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert caches(there, TMPDIR=str(tmp_path)) == dict.fromkeys(CACHES, str(folder))


def test_the_users_own_caches_win(tmp_path: Path) -> None:
    there = fake(tmp_path)
    own = {name: f"/my/{name}" for name in (*CACHES, "TRITON_CACHE_DIR")}
    assert caches(there, TMPDIR=str(tmp_path), **own) == own
    # Then nothing is made for nobody.
    assert not list(tmp_path.glob("dlcontainer-caches-*"))


@pytest.mark.parametrize("how", ["another user's", "a link", "a file"])
def test_a_planted_cache_is_not_used(tmp_path: Path, how: str) -> None:
    there = fake(tmp_path)
    planted = tmp_path / f"dlcontainer-caches-{os.getuid()}"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o777)
    if how == "a link":
        planted.symlink_to(elsewhere)
    elif how == "a file":
        planted.write_text("")
    elif os.getuid() == 0:
        planted.mkdir(mode=0o777)
        os.chown(planted, NOBODY.uid, NOBODY.gid)
    else:
        missing("root, which makes another user's folder for the test")
    found = caches(there, TMPDIR=str(tmp_path))
    assert set(found) == set(CACHES)
    [folder] = {Path(value) for value in found.values()}
    assert folder != planted
    assert folder.parent == tmp_path
    assert (folder.stat().st_mode & 0o777, folder.stat().st_uid) == (0o700, os.getuid())
    assert not folder.is_symlink()


@pytest.mark.parametrize("given", ["/proc/nothing", "relative", "/proc/self/status", ""])
def test_a_folder_of_another_node_counts_as_not_set(tmp_path: Path, given: str) -> None:
    there = fake(tmp_path)
    (tmp_path / "relative").mkdir()
    there.program.write_text("#!/bin/sh\nenv | grep -E 'TORCHINDUCTOR|TMPDIR='\nexit 0\n")
    done = there.shelf.run(
        there.shelf.python, DLCONTAINER_RUN_MODE="plain", TMPDIR=given, cwd=tmp_path
    )
    usual = f"/tmp/dlcontainer-caches-{os.getuid()}"
    assert done.stdout.startswith(f"APPTAINERENV_TORCHINDUCTOR_CACHE_DIR={usual}")
    # Neither the engine nor the image sees it, and no rank says a word.
    assert (len(done.stdout.splitlines()), done.stderr) == (1, "")
