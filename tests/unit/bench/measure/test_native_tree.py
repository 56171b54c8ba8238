"""How an import is shown the native tree."""

from pathlib import Path

import pytest

from dlcontainer.bench.report import markdown_report
from dlcontainer.bench.samples import continuation
from dlcontainer.errors import BenchDataError, ChecksFailedError
from tests.benchrunner import Bench, ProbeRunner
from tests.judging import analyse
from tests.unit.bench.samples.test_continuation import interrupted


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_staged_tree_is_copied_once_and_launched(bench: Bench) -> None:
    runner = ProbeRunner(wall=lambda inside: 1.5 if inside else 1.0)
    bench.run(runner, native_as="staged")
    copies = [argv for argv in runner.others if argv[0] == "cp"]
    (copy,) = copies
    assert copy[:3] == ("cp", "-a", str(bench.folder / "native"))
    native = [argv for argv in runner.launches if not any("apptainer" in w for w in argv)]
    assert all(f"{copy[3]}/bin/python" in argv for argv in native)
    series = bench.read()
    assert series.session.declared.workload["native_as"] == "staged"
    assert isinstance(series.session.machine["native_ready_s"], float)
    text = markdown_report.summary([analyse(series)])
    assert "shown as staged; preparing it took" in text
    assert "pays off after" in text


def test_what_saves_nothing_is_never_paid_back(bench: Bench) -> None:
    runner = ProbeRunner(wall=lambda inside: 0.9 if inside else 1.0)
    bench.run(runner, native_as="staged")
    assert "that never pays off" in markdown_report.summary([analyse(bench.read())])


def test_the_tree_as_it_is_costs_nothing(bench: Bench) -> None:
    runner = ProbeRunner()
    bench.run(runner)
    session = bench.read().session
    assert "native_ready_s" not in session.machine
    assert "native_as" not in session.declared.workload
    assert not [argv for argv in runner.others if argv[0] == "cp"]


def test_another_form_is_another_session(bench: Bench) -> None:
    with pytest.raises(KeyboardInterrupt):
        bench.run(ProbeRunner(odd=interrupted(4)), native_as="staged")
    path = bench.folder / "samples.jsonl"
    with pytest.raises(BenchDataError, match=r"workload\.native_as: staged in the file"):
        bench.run(ProbeRunner(), cut=continuation.read(path))
    bench.run(ProbeRunner(), cut=continuation.read(path), native_as="staged")
    assert bench.read().complete


def test_an_unpacked_image_is_no_native_tree(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "dlcontainer.bench.measure.reference_arm.native_twin_reason", lambda *_: "no such"
    )
    with pytest.raises(BenchDataError, match="--native-as squashfs needs a native tree"):
        bench.run(ProbeRunner(), native=None, native_as="squashfs")


def test_without_the_programs(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dlcontainer.bench.measure.native_tree.find_program", lambda *_: None)
    with pytest.raises(ChecksFailedError, match="no mksquashfs") as caught:
        bench.run(ProbeRunner(), native_as="squashfs")
    assert "squashfs-tools" in str(caught.value.next_step)


def test_a_copy_is_packed_with_what_is_imported(bench: Bench) -> None:
    runner = ProbeRunner(wall=lambda inside: 1.5 if inside else 1.0)
    bench.run(runner, native_as="packed")
    (copy,) = [argv for argv in runner.others if argv[0] == "cp"]
    (packing,) = [argv for argv in runner.others if "--everywhere" in argv]
    assert packing[0] == f"{copy[3]}/bin/python"
    assert packing[1] == "-IB"
    assert packing[2].endswith("/pack_modules.py")
    assert packing[-1] == "torch"
    native = [argv for argv in runner.launches if not any("apptainer" in w for w in argv)]
    assert all(f"{copy[3]}/bin/python" in argv for argv in native)
    text = markdown_report.summary([analyse(bench.read())])
    assert "shown as packed; preparing it took" in text
