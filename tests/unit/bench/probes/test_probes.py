"""The probes that are there: the only place that names them, and their contract with old images."""

import ast
import hashlib
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.probes import PROBES, import_, traits
from dlcontainer.bench.probes.probe import (
    MARGIN,
    STEPS,
    Option,
    ParameterContext,
    Probe,
    ProbeCell,
    ProbeSubject,
    given_or_default,
)
from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.traits import Metric
from dlcontainer.cli.bench import probe_command
from dlcontainer.config.resources import PROBE, probe_files
from dlcontainer.errors import BenchDataError, ChecksFailedError, UsageError
from dlcontainer.formats import reframe
from tests import benchseries
from tests.benchrunner import Bench, ProbeRunner
from tests.benchseries import Plan
from tests.values import ROOT

TORCH = ProbeSubject(image="x.sif", recipe="demo", modules=("torch", "numpy"))
WHOLE = Metric(name="wall_s", unit="s", margin=MARGIN)


def probe_of(**changes: object) -> Probe:
    """Give a probe of nothing."""
    fields = {"name": "x", "summary": "x", "metrics": (WHOLE,), "subject": str, "task": str}
    return Probe(**{**fields, **changes})  # type: ignore[arg-type]


# The name of a probe, and of a number that all of them have.
NUMBERS = {"threads"}


def literals(path: Path) -> list[str]:
    return [
        f"{path}:{node.lineno}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in PROBES.keys() - NUMBERS
    ]


def test_nothing_else_names_a_probe() -> None:
    package = ROOT / "dlcontainer"
    folders = [package / name for name in ("bench", "cli", "formats")]
    paths = [path for folder in folders for path in folder.rglob("*.py")]
    # A study is made of sessions of named probes, and a step's stages have the names of some.
    named = [package / "bench/probes", package / "bench/study"]
    others = [path for path in paths if not set(named) & set(path.parents)]
    assert len(others) > 100
    assert [line for path in others for line in literals(path)] == []


def test_each_has_its_file_inside_images() -> None:
    files = {path.name for path in probe_files() if path.name.startswith("probe_")}
    # They prove or foretell, and measure no time.
    proofs = {"probe_devices.py", "probe_memory.py", "probe_prove.py"}
    assert {probe.file for probe in PROBES.values()} == files - proofs
    assert all(name == probe.name for name, probe in PROBES.items())


# What probes in images that were built before are called with, word by word.
OLDER = {
    "import": ("import", "--module", "torch"),
    "train": (
        *("train", "--steps", "220", "--warmup", "5", "--seed", "20190617", "--threads", "8"),
        *("--device", "cpu"),
    ),
}


@pytest.mark.parametrize("name", OLDER)
def test_what_images_from_before_are_called_with(name: str) -> None:
    typed = {"device": "cpu"} if name == "train" else {}
    values = PROBES[name].values(typed, ParameterContext(contents=TORCH))
    steps = 220 if PROBES[name].repeats else 0
    assert PROBES[name].words(ProbeCell(values=values, threads=8, steps=steps)) == OLDER[name]


def test_what_only_newer_images_know_is_said_last() -> None:
    contents = ProbeSubject(image="x.sif", recipe="demo", modules=("tensorflow", "horovod"))
    values = PROBES["train"].values({}, ParameterContext(contents=contents, ranks=2))
    words = PROBES["train"].words(ProbeCell(values=values, threads=8, steps=3))
    assert words[-4:] == ("--framework", "tensorflow", "--distributed", "horovod")


def listing(*, renamed: bool) -> str:
    """Say what a probe's folder holds: this one's files, or those that had other names before."""
    names = {"probe_import.py": "importing.py", "probe_train.py": "training.py"}
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  "
        f"{names.get(path.name, path.name) if renamed else path.name}\n"
        for path in probe_files()
    )


@pytest.mark.parametrize("name", ["import", "train"])
def test_an_image_with_an_older_probe_is_held_against_itself(tmp_path: Path, name: str) -> None:
    bench, runner = Bench(tmp_path), ProbeRunner(stdout=listing(renamed=True))
    bench.run(runner, probe=name, arms=("unpacked", "container"), native=None)
    assert bench.read().complete
    with pytest.raises(ChecksFailedError, match="a different version of the probe") as caught:
        Bench(tmp_path).run(runner, probe=name, output=tmp_path / "y.jsonl")
    assert "rebuild the image: dlcontainer build demo" in str(caught.value.next_step)
    assert not (tmp_path / "y.jsonl").exists()


def test_an_image_with_this_probe_is_held_against_the_native_side(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.run(ProbeRunner(stdout=listing(renamed=False)))
    assert bench.read().complete


def test_parameters_as_typed_else_the_default() -> None:
    options = (STEPS, Option(name="size", help="MiB", kind=int, default=4))
    setting = ParameterContext(contents=TORCH)
    assert given_or_default(options, {}, setting) == {"steps": None, "size": 4}
    assert given_or_default(options, {"size": 8, "steps": 2}, setting) == {"steps": 2, "size": 8}


def test_a_recipe_that_verifies_no_module() -> None:
    nothing = ParameterContext(contents=ProbeSubject(image="x.sif", recipe="demo", modules=()))
    with pytest.raises(UsageError, match="names no module in verify"):
        import_.IMPORT.values({}, nothing)
    assert import_.IMPORT.values({"module": "json"}, nothing)["module"] == "json"


@pytest.mark.parametrize(
    "judged",
    [
        Metric(name="rate", unit="1/s", margin=MARGIN),
        Metric(name="wall_s", unit="s", better="more", margin=MARGIN),
        Metric(name="wall_s", unit="s"),
    ],
)
def test_what_is_judged_is_seconds_with_a_margin(judged: Metric) -> None:
    with pytest.raises(ValueError, match="seconds"):
        probe_of(metrics=(judged,))


def test_two_probes_may_have_an_option_of_one_name(tmp_path: Path) -> None:
    one = probe_of(name="one", options=(Option(name="size", help="MiB", kind=int),))
    other = probe_of(name="other", options=(Option(name="size", help="words"), STEPS))
    ran: list[Any] = []
    probes = {"one": one, "other": other}
    command = probe_command.make(one, probes, lambda _, options: ran.append(options))
    command(site="local", image=tmp_path, size=3, steps=None)
    assert ran[0].values == {"size": 3}
    with pytest.raises(UsageError, match="--steps applies to 'bench other' only"):
        command(site="local", image=tmp_path, size=None, steps=3)
    third = probe_of(name="third", options=())
    refusing = probe_command.make(third, {**probes, "third": third}, lambda *_: None)
    with pytest.raises(UsageError, match="--size applies to 'bench one' and 'bench other' only"):
        refusing(site="local", image=tmp_path, size=3, steps=None)


@pytest.mark.parametrize(
    ("name", "typed", "refused"),
    [
        ("import", {"device": "cpu"}, ""),
        ("train", {"module": "torch"}, ""),
        ("import", {"steps": 5}, "--steps applies to 'bench train' only"),
        ("import", {"distributed": "ddp"}, "--distributed applies to 'bench train' only"),
        ("train", {"native_as": "tree"}, "--native-as applies to 'bench import' only"),
    ],
)
def test_options_of_another_probe(
    tmp_path: Path, name: str, typed: dict[str, Any], refused: str
) -> None:
    ran: list[Any] = []
    command = probe_command.make(PROBES[name], PROBES, lambda _, options: ran.append(options))
    nothing = {option.name: None for probe in PROBES.values() for option in probe.options}
    if refused:
        with pytest.raises(UsageError, match=refused):
            command(site="local", image=tmp_path, **{**nothing, **typed})
        return
    command(site="local", image=tmp_path, **{**nothing, **typed})
    # Taken, as it always was, and not used.
    assert not typed.keys() & ran[0].values.keys()


def test_a_figure_of_steps_is_told_by_all_probes_that_have_them() -> None:
    assert reframe._is_none_of(("train",)) == '!= "train"'
    assert reframe._is_none_of(("train", "hash")) == 'not in ["train", "hash"]'


def test_no_file_of_the_probe_is_left_with_its_earlier_name() -> None:
    earlier = {probe.earlier_file for probe in PROBES.values()}
    assert not earlier & {path.name for path in PROBE.iterdir()}


def test_a_session_of_a_probe_that_is_not_known(tmp_path: Path) -> None:
    path = benchseries.write(tmp_path / "x.jsonl", Plan(probe="gone"))
    with pytest.raises(BenchDataError, match="the unknown probe 'gone'"):
        traits(reader.read(path))
