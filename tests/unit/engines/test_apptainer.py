"""Exact command lines of the engine, its environment, and what it can't bind."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from dlcontainer.engines import apptainer
from dlcontainer.engines.apptainer import BUILD_MODES, RUN_MODES, SQUASH, Apptainer
from dlcontainer.engines.engine import BuildSpec, RunSpec, StepSpec
from dlcontainer.errors import EngineError

ENGINE = Apptainer(program=Path("/opt/my engine/apptainer"))
IMAGE = Path("/it's here/a b.sif")
HEAD = ["/opt/my engine/apptainer", "--nocolor"]


def test_build_argv() -> None:
    spec = BuildSpec(definition="apptainer.def", image=IMAGE, mode="plain")
    wanted = [*HEAD, "build", "--notest", "--disable-cache", str(IMAGE), "apptainer.def"]
    assert ENGINE.build_argv(spec) == wanted
    assert ENGINE.build_argv(spec) == wanted


def test_build_argv_with_all_there_is() -> None:
    spec = BuildSpec(
        definition="apptainer.def",
        image=IMAGE,
        mode="fakeroot",
        squash=SQUASH,
        plain_http=True,
        binds=((Path("/a b"), "/mnt"), (Path("/c"), "/mnt/folder-0")),
        arch="ppc64le",
    )
    assert ENGINE.build_argv(spec) == [
        *[*HEAD, "build", "--notest", "--disable-cache", "--fakeroot", "--no-https"],
        *["--arch", "ppc64le"],
        *["--mksquashfs-args", "-comp zstd -Xcompression-level 5 -b 512K"],
        *["--bind", "/a b:/mnt", "--bind", "/c:/mnt/folder-0"],
        *[str(IMAGE), "apptainer.def"],
    ]


@pytest.mark.parametrize(
    ("mode", "options"),
    [("plain", []), ("userns", ["--userns"]), ("unpacked", ["--userns", "--unsquash"])],
)
def test_run_argv(mode: str, options: list[str]) -> None:
    spec = RunSpec(
        image=IMAGE,
        argv=("python", "-c", "print('it''s')"),
        mode=mode,
        environment={"B": "2", "A": "x=y z"},
        binds=((Path("/data"), "/data"),),
    )
    assert ENGINE.run_argv(spec) == [
        *[*HEAD, "--quiet", "exec", *options],
        *["--cleanenv", "--containall", "--no-home", "--pwd", "/"],
        *["--env", "A=x=y z", "--env", "B=2", "--bind", "/data:/data"],
        *[str(IMAGE), "python", "-c", "print('it''s')"],
    ]


def test_what_nobody_trusts_gets_nothing_of_the_host() -> None:
    apart = ["--no-privs", "--no-mount", "hostfs,bind-paths"]
    alone = RunSpec(image=IMAGE, argv=("a",), mode="plain", contained="alone")
    rest = ["--no-home", "--pwd", "/", str(IMAGE), "a"]
    head = [*HEAD, "--quiet", "exec", "--cleanenv", "--containall"]
    assert ENGINE.run_argv(alone) == [*head, *apart, "--net", "--network", "none", *rest]
    assert ENGINE.run_argv(replace(alone, contained="apart")) == [*head, *apart, *rest]
    start = ENGINE.start_argv(alone, "x")
    assert start[start.index("--containall") + 1 :][:6] == [*apart, "--net", "--network", "none"]


def test_every_mode_has_its_command_line() -> None:
    assert (set(BUILD_MODES), set(RUN_MODES)) == (
        {"plain", "fakeroot", "root-mapped"},
        {"plain", "userns", "unpacked"},
    )


@pytest.mark.parametrize(
    ("mode", "options"),
    [
        ("plain", []),
        ("fakeroot", ["--fakeroot"]),
        ("root-mapped", ["--fakeroot", "--ignore-subuid"]),
    ],
)
def test_every_command_that_builds_has_the_modes_options(mode: str, options: list[str]) -> None:
    tree = Path("/work/tree")
    commands = [
        ENGINE.build_argv(BuildSpec(definition="d", image=IMAGE, mode=mode)),
        ENGINE.unpack_base_argv("d", tree, mode),
        ENGINE.step_argv(StepSpec(tree=tree, argv=("true",), mode=mode)),
        ENGINE.unpack_argv(IMAGE, tree, mode),
    ]
    known = {"--fakeroot", "--ignore-subuid"}
    assert [[word for word in argv if word in known] for argv in commands] == [options] * 4


def test_inspect_argv() -> None:
    wanted = [*HEAD, "inspect", "--json", "--labels", "--deffile", str(IMAGE)]
    assert ENGINE.inspect_argv(IMAGE) == wanted


@pytest.mark.parametrize("name", ["a:b", "a,b", 'a"b', "a\\b", "a\nb"])
def test_paths_that_cannot_be_bound(name: str) -> None:
    binds = ((Path("/ok"), "/mnt"), (Path("/tmp") / name, "/x"))
    with pytest.raises(EngineError, match="the engine cannot bind") as caught:
        ENGINE.build_argv(BuildSpec(definition="d", image=IMAGE, mode="plain", binds=binds))
    assert caught.value.next_step == "choose another folder with --tmpdir"
    with pytest.raises(EngineError, match="the engine cannot bind"):
        ENGINE.run_argv(RunSpec(image=IMAGE, argv=("a",), mode="plain", binds=binds))


def test_the_environment_of_the_engine() -> None:
    environ = {
        "PATH": "/usr/bin",
        "HOME": "/home/it's",
        "https_proxy": "http://proxy.example:1",
        "LD_PRELOAD": "/evil.so",
        "APPTAINER_BIND": "/",
        "APPTAINERENV_A": "1",
        "SINGULARITY_CACHEDIR": "/x",
        "PYTHONPATH": "/x",
    }
    beside = str(Path(sys.executable).parent)
    kept = {
        "PATH": f"/usr/bin:{beside}",
        "HOME": "/home/it's",
    }
    assert apptainer.environment(environ) == kept
    tmp = {"APPTAINER_TMPDIR": "/a b", "SINGULARITY_TMPDIR": "/a b"}
    assert apptainer.environment(environ, tmpdir=Path("/a b")) == {**kept, **tmp}
    assert apptainer.environment({})["PATH"].endswith(f":{beside}")
    assert apptainer.environment({"PATH": ".::x/y:/usr/bin:"})["PATH"] == f"/usr/bin:{beside}"


def program(folder: Path, name: str, *, mode: int = 0o755) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


def test_finding_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "it's 1", tmp_path / "2"
    monkeypatch.setattr(sys, "executable", str(tmp_path / "private" / "python"))
    environ = {"PATH": f"relative:{first}::{second}"}
    # In the current folder, and below it, anybody may have put one.
    monkeypatch.chdir(tmp_path)
    program(tmp_path / "relative", "apptainer")
    program(tmp_path, "singularity")
    with pytest.raises(EngineError, match="neither Apptainer nor Singularity is on PATH") as caught:
        apptainer.find(environ)
    assert "make setup" in str(caught.value.next_step)
    private = program(tmp_path / "private", "singularity")
    assert apptainer.find(environ).program == private
    older = program(second, "singularity")
    assert apptainer.find(environ).program == older
    program(first, "apptainer", mode=0o644)
    assert apptainer.find(environ).program == older
    newer = program(second, "apptainer")
    assert apptainer.find(environ).program == newer


def test_a_build_packs_at_the_level_of_all_figures() -> None:
    from dlcontainer.cli import build

    # The command line's help names it itself: `--help` imports no engine.
    (option,) = get_args(build.Level)[1:]
    assert f": {apptainer.LEVEL} is fast;" in option.help


def test_what_is_lent_to_a_step_is_read_only_and_nothing_else_gets_the_engine_s_own_path() -> None:
    binds = (
        (Path("/work/routing"), "/mnt"),
        (Path("/srv/wheels"), "/mnt/folder-0"),
        (Path("/work/tmp"), "/tmp"),
        (Path("/srv/other"), "/mntfolder"),
    )
    spec = StepSpec(tree=Path("/t"), argv=("true",), mode="fakeroot", binds=binds)
    argv = Apptainer(program=Path("/a")).step_argv(spec)
    assert [word for word in argv if ":" in word] == [
        "/work/routing:/mnt/",
        "/srv/wheels:/mnt/folder-0:ro",
        "/work/tmp:/tmp/",
        "/srv/other:/mntfolder/",
    ]
