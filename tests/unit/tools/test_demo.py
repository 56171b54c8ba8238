"""The demo: what it says and refuses before anything is written."""

import json
import shutil
from itertools import pairwise
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

import tools
import tools.console
from dlcontainer.bench.report import inputs
from dlcontainer.bench.report.sections.answers import of as answers_of
from dlcontainer.bench.samples.schedule import FEWEST
from dlcontainer.cli.bench import defaults
from dlcontainer.errors import EngineError
from tools import demo as demos
from tools.console import Console
from tools.demo import Demo


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Demo:
    monkeypatch.setattr(demos, "root_argv", list)
    console = Console()
    console.begin(demos.titles(), verbose=False, log=None)
    for module in (demos, tools.console):
        monkeypatch.setattr(module, "CONSOLE", console)
    return Demo(bin=tmp_path / ".venv/bin", extras="", build_options=())


def room(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr(demos, "free_mb", lambda folder: free)


@pytest.mark.parametrize(("major", "minor"), [(3, 6), (3, 10)])
def test_an_older_python_is_told_how_to_name_another(major: int, minor: int) -> None:
    said = str(tools.refusal(major, minor))
    assert f"this is Python {major}.{minor}" in said
    assert "make demo PYTHON=python3.11" in said
    assert tools.refusal(3, 11) is tools.refusal(3, 13) is None


def test_a_full_disk_stops_it_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room(monkeypatch, 2099)
    with pytest.raises(EngineError, match="only 2099 MB free") as caught:
        demos.require_room(tmp_path, tmp_path / "a cache/of/mine")
    assert "2100 MB" in str(caught.value.why)
    assert "XDG_CACHE_HOME" in str(caught.value.next_step)
    room(monkeypatch, 2100)
    demos.require_room(tmp_path, tmp_path / "a cache/of/mine")


def test_each_of_two_disks_needs_its_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demos, "_device", lambda folder: len(folder.parts))
    room(monkeypatch, 700)
    with pytest.raises(EngineError, match="only 700 MB free") as caught:
        demos.require_room(tmp_path, tmp_path / "cache")
    assert "keeps 1500 MB" in str(caught.value.why)


def test_a_checkout_that_is_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(EngineError, match="can't write to") as caught:
        demos.require_room(tmp_path, tmp_path)
    assert "a folder of your own" in str(caught.value.next_step)


def test_without_apt_it_stops_before_set_up(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demos, "require_room", lambda checkout, cache: None)
    monkeypatch.setattr("dlcontainer.engine_setup.aptget.available", lambda: False)
    monkeypatch.setattr("shutil.which", lambda name, **rest: None)
    with pytest.raises(EngineError, match="base can't be made here") as caught:
        demos.before(demo)
    assert "dlcontainer base make" in str(caught.value.next_step)
    demo.build_options = ("--offline", "bundle")
    demos.before(demo)


def test_it_says_time_and_disk_beforehand(
    demo: Demo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demos, "require_room", lambda checkout, cache: None)
    monkeypatch.setattr("dlcontainer.engine_setup.aptget.available", lambda: True)
    demos.before(demo)
    said = capsys.readouterr().out
    assert "minutes" in said
    assert "2100 MB (1500 here, 600 in " in said


def shares(monkeypatch: pytest.MonkeyPatch, folder: Path, load: float = 1.0) -> None:
    """Let this machine mount a stand-in for a shared file system."""
    device = folder / "fuse"
    device.touch()
    monkeypatch.setattr(demos, "_FUSE", device)
    program = folder / "fusermount3"
    program.touch()
    program.chmod(0o4755)
    monkeypatch.setattr(shutil, "which", lambda name, **rest: str(program))
    monkeypatch.setattr("os.getloadavg", lambda: (load, load, load))
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})


def answers(monkeypatch: pytest.MonkeyPatch, states: dict[str, str], notes: list[str]) -> None:
    """Let dlcontainer say this of the machine and of the plan."""
    findings = [{"name": name, "state": state} for name, state in states.items()]
    bodies = {
        "doctor": {"ok": True, "findings": findings},
        "plan": {"notes": notes, "name": "pytorch-1-local"},
    }

    def run(argv: list[str], **rest: Any) -> CompletedProcess[str]:
        return CompletedProcess(argv, 0, json.dumps(bodies[argv[1]]), "")

    monkeypatch.setattr(demos, "run", run)
    monkeypatch.setattr(demos, "pass_through", lambda argv, **rest: 0)


def test_what_is_impossible_is_said_and_kept_for_the_end(
    demo: Demo,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(demos, "_LMOD", tmp_path / "none")
    monkeypatch.setattr(demos, "_FUSE", tmp_path / "none")
    notes = ["no native twin: libgomp1 is missing on this host", "something else"]
    answers(monkeypatch, {"base": "ok", "/dev/fuse": "poor"}, notes)
    assert demos.look_ahead(demo) == "pytorch-1-local"
    twin, lmod, shared, fuse = demo.left_out
    assert "libgomp1 is missing" in twin
    assert "apt-get install lmod" in lmod
    assert shared == "import from a shared file system: not measured (no /dev/fuse)"
    assert "no /dev/fuse" in fuse
    said = capsys.readouterr().out
    assert said.count("not possible here, the rest goes on: ") == 4
    assert said.count("libgomp1 is missing") == 1
    assert said.count("something else") == 1
    # What is well is counted; what is not is said, once.
    assert "1 of 2 checks are well" in said
    assert "note: /dev/fuse: " in said


def test_all_is_possible(demo: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demos, "_LMOD", Path(__file__))
    shares(monkeypatch, tmp_path)
    answers(monkeypatch, {"base": "ok", "/dev/fuse": "ok"}, [])
    demos.look_ahead(demo)
    assert demo.left_out == []


def test_without_a_base_it_stops_and_names_three_ways(
    demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, {"base": "poor", "/dev/fuse": "ok"}, [])
    with pytest.raises(EngineError, match="base can't be made here") as caught:
        demos.look_ahead(demo)
    for way in ("dlcontainer base pin", "build --offline BUNDLE", "dlcontainer base make"):
        assert way in str(caught.value.next_step)
    demo.build_options = ("--offline", "bundle")
    demos.look_ahead(demo)


def session_of(path: Path, busy: float | None = 2.0, **declared: object) -> Path:
    machine = {"load_1min": 11.04, "busy_cores": busy, "cores": 2}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"declared": declared, "machine": machine}) + "\n{}\n")
    return path


def test_a_session_of_one_look_says_why_at_the_end(tmp_path: Path) -> None:
    whole = session_of(tmp_path / "x/a.jsonl", looks=[8], control_pairs=4)
    cut = session_of(tmp_path / "x/b.jsonl", looks=[8], control_pairs=0)
    both = session_of(tmp_path / "x/c.jsonl", looks=[8, 16], control_pairs=0)
    blind = session_of(tmp_path / "x/d.jsonl", busy=None, looks=[8], control_pairs=0)
    said = str(demos.too_busy({"import": cut, "training": cut}))
    assert "a verdict on import and training: this machine is too busy to decide" in said
    assert "(load 11.0 on 2 cores, 2.0 of them busy)" in said
    assert "nothing about the container" in said
    assert "make demo" in said
    assert "on training: " in str(demos.too_busy({"import": whole, "training": blind}))
    assert "(load 11.0 on 2 cores)" in str(demos.too_busy({"import": whole, "training": blind}))
    assert demos.too_busy({"import": whole, "training": both}) is None


@pytest.mark.parametrize("lmod", [True, False])
@pytest.mark.parametrize("root", [True, False])
def test_the_steps_are_those_that_will_run(
    lmod: bool, root: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demos, "_LMOD", Path(__file__) if lmod else tmp_path / "none")
    monkeypatch.setattr(demos, "root_argv", lambda: [] if root else None)
    monkeypatch.setattr("dlcontainer.engine_setup.aptget.available", lambda: True)
    titles = demos.titles()
    assert ("load" in titles) == (lmod or root)
    assert titles[:4] == [
        "Python environment",
        "helper programs",
        "Apptainer",
        "packages of the distribution",
    ]
    assert len(titles) == len(set(titles))


def test_an_error_of_a_command_that_answers_keeps_its_code(
    demo: Demo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = CompletedProcess([], 3, json.dumps({"exit_code": 3}), "dlcontainer: wrong\n")
    monkeypatch.setattr(demos, "run", lambda argv, **rest: done)
    with pytest.raises(SystemExit) as caught:
        demo.answer("plan")
    assert caught.value.code == 3
    assert "dlcontainer: wrong" in capsys.readouterr().err


def test_training_is_decided_by_resident_groups(
    demo: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []

    def pass_through(argv: list[str], **rest: Any) -> int:
        calls.append([*argv])
        if "bench" in argv:
            session_of(tmp_path / argv[-1], looks=[8, 16], control_pairs=4)
        return 0

    monkeypatch.setattr(demos, "PROJECT", tmp_path)
    monkeypatch.setattr(demos, "pass_through", pass_through)
    shares(monkeypatch, tmp_path)
    demos.compare(demo, "demo/x.sif", Path("demo"))
    train = next(words for words in calls if "train" in words)
    # Either would ask for fresh launches, which decide nothing in minutes on shared cores.
    assert not {"--steps", "--controls", "--unit"}.intersection(train)
    assert train[train.index("--margin") + 1] == "5%"
    assert train[train.index("--threads") + 1] == "1"
    # Its length is bounded on busy cores too: a second look where six groups don't decide.
    assert train[train.index("--looks") + 1] == "8,16"
    # On a machine that is too busy to decide it takes the first alone.
    sessions = [words for words in calls if {"import", "train"} & {*words}]
    assert all("--one-look-if-busy" in words for words in sessions)
    assert demo.left_out == []
    assert [words[2] for words in calls] == [
        "import",
        "import-matrix",
        "train",
        "demo/import.jsonl",
    ]
    assert calls[-1][2:5] == ["demo/import.jsonl", "demo/train.jsonl", "demo/shared.jsonl"]


def test_a_busy_machine_measures_no_matrix(
    demo: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []

    def pass_through(argv: list[str], **rest: Any) -> int:
        calls.append([*argv])
        if "bench" in argv:
            session_of(tmp_path / argv[-1], looks=[8, 16], control_pairs=4)
        return 0

    monkeypatch.setattr(demos, "PROJECT", tmp_path)
    monkeypatch.setattr(demos, "pass_through", pass_through)
    shares(monkeypatch, tmp_path, load=7.0)
    demos.compare(demo, "demo/x.sif", Path("demo"))
    assert [words[2] for words in calls] == ["import", "train", "demo/import.jsonl"]
    assert calls[-1][4] == "demo/shared.json"
    (said,) = demo.left_out
    assert said.startswith("import from a shared file system: not measured (load 7.0 on 2 cores")


def reads(folder: Path) -> str:
    """Give what a report says to the third question of what the demo wrote down."""
    finding = inputs.read(folder / "demo/shared.json")
    *_, shared = answers_of([], [finding])
    return shared.line


@pytest.mark.parametrize(
    ("lacks", "reason"),
    [
        ("device", "no /dev/fuse"),
        ("right", "may not open"),
        ("program", "no fusermount3: an administrator types: apt-get install fuse3"),
        ("setuid", "is not setuid root, so users can't mount"),
        ("quiet", "load 7.0 on 2 cores"),
    ],
)
def test_the_page_says_why_the_third_session_was_left_out(
    demo: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacks: str, reason: str
) -> None:
    calls: list[list[str]] = []

    def pass_through(argv: list[str], **rest: Any) -> int:
        calls.append([*argv])
        if "bench" in argv:
            session_of(tmp_path / argv[-1], looks=[8, 16], control_pairs=4)
        return 0

    monkeypatch.setattr(demos, "PROJECT", tmp_path)
    monkeypatch.setattr(demos, "pass_through", pass_through)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    shares(monkeypatch, tmp_path, load=7.0 if lacks == "quiet" else 1.0)
    assert demos.why_not_shared() is None
    if lacks == "device":
        (tmp_path / "fuse").unlink()
    elif lacks == "right":
        monkeypatch.setattr("os.access", lambda path, mode: False)
    elif lacks == "program":
        monkeypatch.setattr(shutil, "which", lambda name, **rest: None)
    elif lacks == "setuid":
        (tmp_path / "fusermount3").chmod(0o755)
    demos.compare(demo, "demo/x.sif", Path("demo"))
    assert not any("import-matrix" in words for words in calls)
    assert calls[-1][2:5] == ["demo/import.jsonl", "demo/train.jsonl", "demo/shared.json"]
    said = reads(tmp_path)
    assert said.startswith("Not measured: ")
    assert reason in said
    # Said before in the terminal, where it was known before: once, at the end.
    assert len(demo.left_out) == (1 if lacks == "quiet" else 0)


def test_root_mounts_without_setuid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shares(monkeypatch, tmp_path)
    (tmp_path / "fusermount3").chmod(0o755)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert demos.why_not_shared() is None


@pytest.mark.parametrize("words", [demos._TRAIN, demos._IMPORTS])
def test_its_sessions_are_ones_that_can_have_a_verdict(words: tuple[str, ...]) -> None:
    asked = dict(pairwise(words))
    pairs = asked.get("--pairs")
    # As the commands read them: they refuse looks that end in no verdict, and note such pairs.
    looks = defaults.looks(int(pairs) if pairs else None, asked.get("--looks"))
    assert looks
    assert looks[0] >= FEWEST
