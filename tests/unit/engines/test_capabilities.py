"""Which mode works here: tried in order, remembered, explained."""

import json
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.engines import capabilities
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.errors import EngineError
from dlcontainer.system.process import CommandNotFoundError, CommandTimeoutError, CompletedCommand
from tests.fakes import RecordingRunner, completed
from tests.values import host

# As Apptainer 1.4.5 says it to a user without subordinate ids.
NO_CAPABILITY = (
    "\x1b[33mWARNING: The --fix-perms option modifies the filesystem\x1b[0m\n"
    "\x1b[31mERROR  : Failed to set effective capabilities: "
    "while permitted capability set lacks CAP_SYS_ADMIN\x1b[0m\n"
    "FATAL:   While performing build: while running engine: exit status 255\n"
)
SAID = (
    "ERROR : Failed to set effective capabilities: "
    "while permitted capability set lacks CAP_SYS_ADMIN"
)
VERSION = completed("version", stdout="apptainer version 1.4.5\n")
HELP = completed("help", stdout="  --mksquashfs-args string\n")
OK = completed("ok")
# Version, help, the tiny image as a file and as a folder, a run of it.
WELL = (VERSION, HELP, OK, OK, OK)


def failed(stderr: str) -> CompletedCommand:
    return completed("x", code=255, stderr=stderr)


@pytest.fixture
def engine(tmp_path: Path) -> Apptainer:
    program = tmp_path / "it's a program"
    program.write_text("#!/bin/sh\n")
    return Apptainer(program=program)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "a cache" / "below"


def modes(runner: RecordingRunner) -> list[tuple[str, ...]]:
    """Name each command and the options of its mode."""
    known = {"build", "exec", "--fakeroot", "--userns", "--unsquash"}
    return [tuple(word for word in argv if word in known) for argv in runner.argvs[2:]]


def test_the_first_mode_that_works(engine: Apptainer, cache: Path) -> None:
    runner = RecordingRunner([VERSION, HELP, OK, OK, OK], strict=True)
    found = capabilities.perform(cache, engine, host(), runner)
    assert (found.build_mode, found.run_mode, found.failures) == ("plain", "plain", {})
    assert (found.version, found.takes_squash) == ("apptainer version 1.4.5", True)
    assert modes(runner) == [("build",), ("build",), ("exec",)]
    work = runner.calls[2].cwd
    assert work is not None
    assert not work.exists()
    assert runner.calls[2].env is not None
    assert runner.calls[2].env["APPTAINER_TMPDIR"] == str(work / "tmp")
    assert all(call.timeout for call in runner.calls[2:])


def test_the_tiny_image_is_made_of_what_is_here(engine: Apptainer, cache: Path) -> None:
    seen: list[str] = []

    class Looking(RecordingRunner):
        def __call__(self, argv: Any, **kwargs: Any) -> CompletedCommand:
            work = kwargs.get("cwd")
            if isinstance(work, Path) and not seen:
                seen.append((work / "tiny.def").read_text())
                seen.extend(sorted(path.name for path in (work / "tree").iterdir()))
            return super().__call__(argv, **kwargs)

    capabilities.perform(cache, engine, host(), Looking([VERSION, HELP, OK, OK, OK], strict=True))
    assert seen[0] == "Bootstrap: localimage\nFrom: tree\n%post\n    true\n"
    assert {"usr", "etc", "dev", "proc", "bin"} <= set(seen)


def test_plain_fails_and_fakeroot_works(engine: Apptainer, cache: Path) -> None:
    no_fuse = failed("INFO: x\nFATAL:   could not mount: fuse: /dev/fuse\n")
    answers = [VERSION, completed("help"), failed(NO_CAPABILITY), OK, OK, no_fuse]
    answers += [failed(""), OK]
    runner = RecordingRunner([*answers], strict=True)
    found = capabilities.perform(cache, engine, host(), runner)
    assert (found.build_mode, found.run_mode, found.takes_squash) == ("fakeroot", "unpacked", False)
    assert found.failures == {
        "build plain": SAID,
        "run plain": "FATAL: could not mount: fuse: /dev/fuse",
        "run userns": "it printed nothing",
    }
    assert modes(runner) == [
        ("build",),
        ("build", "--fakeroot"),
        ("build", "--fakeroot"),
        ("exec",),
        ("exec", "--userns"),
        ("exec", "--userns", "--unsquash"),
    ]


@pytest.mark.parametrize("said", ["", "Endgame: Singularity 1.00\n", "garbage\n\x1b[31m\n"])
def test_a_program_of_that_name_that_is_another(engine: Apptainer, cache: Path, said: str) -> None:
    other = RecordingRunner([completed("version", stdout=said), HELP], strict=True)
    with pytest.raises(EngineError, match="is neither Apptainer nor Singularity") as caught:
        capabilities.perform(cache, engine, host(), other)
    assert "remove it from PATH" in str(caught.value.next_step)
    assert "\x1b" not in str(caught.value.why)


def test_an_exit_code_alone_is_not_believed(engine: Apptainer, cache: Path) -> None:
    class Stub(RecordingRunner):
        def __call__(self, argv: Any, **kwargs: Any) -> CompletedCommand:
            done = super().__call__(argv, **kwargs)
            for left in kwargs.get("cwd", cache).glob("tiny.sif"):
                left.unlink()
            return done

    found = capabilities.perform(cache, engine, host(), Stub([VERSION, HELP]))
    assert found.build_mode is None
    assert found.failures["build plain"] == "it succeeded, but wrote no image"


def test_a_mode_that_makes_no_folder_is_none(engine: Apptainer, cache: Path) -> None:
    # As Apptainer 1.4.5 says it where files get a group that it can't map.
    no = failed("ERROR:   Could not set files/directories ownership, if /x is on a network ...\n")
    runner = RecordingRunner([VERSION, HELP, OK, no, OK, OK, OK], strict=True)
    found = capabilities.perform(cache, engine, host(), runner)
    assert (found.build_mode, found.run_mode) == ("fakeroot", "plain")
    assert "files/directories ownership" in found.failures["build plain"]
    assert ["--sandbox" in argv for argv in runner.argvs[2:]] == [False, True, False, True, False]


def test_a_user_whom_nobody_knows(engine: Apptainer, cache: Path) -> None:
    said = (
        "\x1b[31mFATAL:   Couldn't determine user account information: user: unknown userid 54321"
    )
    runner = RecordingRunner([failed(f"{said}\x1b[0m\n")], strict=True)
    with pytest.raises(EngineError, match="does not start for the user 54321") as caught:
        capabilities.perform(cache, engine, host(uid=54321, user="54321"), runner)
    assert "no passwd entry for your user ID" in str(caught.value.why)
    assert "getent passwd $(id -u)" in str(caught.value.next_step)
    assert "\x1b" not in str(caught.value)


def test_subordinate_ids_without_newuidmap(engine: Apptainer, cache: Path) -> None:
    # As Apptainer 1.4.5 says it to a user with lines in /etc/subuid, where uidmap is not installed.
    no = failed("FATAL:   newuidmap was not found in PATH (/usr/bin), required with fakeroot\n")
    runner = RecordingRunner([VERSION, HELP, no, no, OK, OK, OK], strict=True)
    found = capabilities.perform(cache, engine, host(), runner)
    assert (found.build_mode, found.run_mode) == ("root-mapped", "plain")
    assert {"--fakeroot", "--ignore-subuid"} <= set(runner.argvs[4])


def test_ids_that_can_be_mapped_are_tried_anew(
    engine: Apptainer, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/no/such/python")
    folder = tmp_path / "it's bin"
    folder.mkdir()
    here = host(environ={"PATH": str(folder)})
    capabilities.perform(cache, engine, here, RecordingRunner([*WELL]))
    assert capabilities.recall(cache, engine, here) is not None
    for name in ("newuidmap", "newgidmap"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    # An administrator has installed uidmap: a better mode may work now.
    assert capabilities.recall(cache, engine, here) is None


def test_a_mode_that_does_not_answer(engine: Apptainer, cache: Path) -> None:
    late = CommandTimeoutError(completed("x"), 120)
    runner = RecordingRunner([VERSION, HELP, late, OK, OK, OK], strict=True)
    found = capabilities.perform(cache, engine, host(), runner)
    assert found.failures == {"build plain": "no answer in 120 s"}
    assert found.build_mode == "fakeroot"


def test_it_is_remembered(engine: Apptainer, cache: Path) -> None:
    assert capabilities.recall(cache, engine, host()) is None
    found = capabilities.require(cache, engine, host(), RecordingRunner([*WELL]))
    assert capabilities.recall(cache, engine, host()) == found
    nobody = RecordingRunner(strict=True)
    assert capabilities.require(cache, engine, host(), nobody) == found
    assert [path.name[:6] for path in cache.iterdir()] == ["trial-"]


def test_another_program_user_or_kernel_is_another_trial(engine: Apptainer, cache: Path) -> None:
    capabilities.perform(cache, engine, host(), RecordingRunner([*WELL]))
    assert capabilities.recall(cache, engine, host(uid=1001)) is None
    assert capabilities.recall(cache, engine, host(kernel="6.6.6")) is None
    assert capabilities.recall(cache, engine, host()) is not None
    engine.program.write_text("#!/bin/sh\n# updated\n")
    assert capabilities.recall(cache, engine, host()) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"key": "x"}', "null", "\xff"])
def test_a_broken_memory_is_none(engine: Apptainer, cache: Path, text: str) -> None:
    capabilities.perform(cache, engine, host(), RecordingRunner([*WELL]))
    [file] = cache.iterdir()
    body = json.loads(file.read_text())
    assert body["build_mode"] == "plain"
    file.write_bytes(text.encode("latin-1"))
    assert capabilities.recall(cache, engine, host()) is None


def test_a_cache_that_cannot_be_written_costs_nothing_else(engine: Apptainer) -> None:
    runner = RecordingRunner([*WELL])
    found = capabilities.require(engine.program / "no folder", engine, host(), runner)
    assert found.build_mode == "plain"


def test_no_mode_works(engine: Apptainer, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nor is there a mksquashfs, by which running could be tried.
    monkeypatch.setattr("sys.executable", "/no/such/python")
    no = failed("FATAL:   no\n")
    answers = [VERSION, HELP, failed(NO_CAPABILITY), no, no]
    with pytest.raises(EngineError) as caught:
        capabilities.require(cache, engine, host(), RecordingRunner([*answers], strict=True))
    assert str(caught.value) == (
        f"{engine.program} works in no mode here\n  why: build plain: {SAID}; "
        "build fakeroot: FATAL: no; build root-mapped: FATAL: no\n  next: run "
        "`dlcontainer doctor`: it names the cause, and the line that fixes it"
    )
    # A failure is not believed for long.
    again = capabilities.require(cache, engine, host(), RecordingRunner([*WELL]))
    assert again.build_mode == "plain"


@pytest.mark.parametrize(
    "answer",
    [
        failed("error while loading shared libraries: libseccomp.so.2\n"),
        CommandNotFoundError("apptainer", "not for this machine"),
        CommandTimeoutError(completed("x"), 120),
    ],
)
def test_a_program_that_does_not_start(
    engine: Apptainer, cache: Path, answer: CompletedCommand | Exception
) -> None:
    with pytest.raises(EngineError, match=r"it's a program does not start") as caught:
        capabilities.require(cache, engine, host(), RecordingRunner([answer], strict=True))
    assert caught.value.why
    assert not cache.exists()
