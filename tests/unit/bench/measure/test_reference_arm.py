"""The side that a container is held against, and what has none."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import BenchDataError
from tests.benchrunner import Bench, ProbeRunner

COMPILED = {"name": "own", "shell": "make", "native": True, "build_packages": ["gcc"]}


def test_a_twin_that_would_compile_its_own_is_known_at_the_start(tmp_path: Path) -> None:
    bench = Bench(tmp_path, changes={"steps": [COMPILED]}, modules=("own.part", "torch"))
    runner = ProbeRunner()
    with pytest.raises(BenchDataError, match="no native side") as caught:
        bench.run(runner, arms=("native", "container"), native=None)
    assert "own is compiled where it stands" in str(caught.value.why)
    assert not runner.launches
    # Nobody named a native side: the unpacked image stands in, and it is said before any launch.
    bench.run(runner, native=None)
    assert bench.read().session.declared.arms == ("unpacked", "container")
    assert any("own is compiled" in text for text in bench.progress.said)


@pytest.mark.parametrize("changes", [{"modules": ("torch",)}, {"steps": []}])
def test_what_a_session_does_not_load_needs_no_build_of_the_image(
    tmp_path: Path, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    twin = tmp_path / "twin"
    monkeypatch.setattr("dlcontainer.bench.measure.native_twin.prepare", lambda *_: twin)
    monkeypatch.setattr(
        "dlcontainer.bench.measure.reference_arm.native_twin_reason", lambda *_: None
    )
    modules, steps = changes.get("modules", ("own",)), changes.get("steps", [COMPILED])
    bench = Bench(tmp_path, changes={"steps": steps} if steps else {}, modules=modules)
    bench.run(ProbeRunner(), native=None)
    assert bench.read().session.declared.arms == ("native", "container")
