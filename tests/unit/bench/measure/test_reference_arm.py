"""The side that a container is held against, and what has none."""

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

import pytest

from dlcontainer.bench.measure.context import BenchContext
from dlcontainer.bench.measure.native_twin import ImageBuilds
from dlcontainer.errors import BenchDataError, BuildError
from dlcontainer.formats import texts
from dlcontainer.planning.plan import Plan
from dlcontainer.system.process import CommandFailedError, CompletedCommand, RunOptions
from tests.benchrunner import Bench, ProbeRunner
from tests.fakes import completed
from tests.values import TEMPLATES, execution_of, folder_of, plan_of

INSTALLED = {"name": "system", "os_packages": ["python3"]}
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


@pytest.mark.parametrize(
    ("steps", "module", "names"),
    [([COMPILED], "own.part", ("own",)), ([COMPILED], "torch", None), ([], "own", None)],
)
def test_a_twin_has_the_image_s_build_of_what_is_loaded(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    steps: list[dict[str, object]],
    module: str,
    names: tuple[str, ...] | None,
) -> None:
    twins: list[ImageBuilds | None] = []

    def prepare(_plan: Plan, _context: BenchContext, builds: ImageBuilds | None) -> Path:
        twins.append(builds)
        return tmp_path / "twin"

    monkeypatch.setattr("dlcontainer.bench.measure.native_twin.prepare", prepare)
    bench = Bench(tmp_path, planned=True, modules=(module,))
    bench.changes = {"steps": [INSTALLED, *steps]}
    bench.run(ProbeRunner(), native=None)
    assert [builds and builds.names for builds in twins] == [names]
    session = bench.read().session
    assert session.declared.arms == ("native", "container")
    assert session.arms["native"].what == "native twin"
    assert ("the image's own build of own" in session.arms["native"].why) is (names is not None)


def test_such_a_twin_needs_no_compiler_and_is_one_image_s(tmp_path: Path) -> None:
    plan = plan_of(folder_of(tmp_path, steps=[INSTALLED, COMPILED]))
    subject = Bench(tmp_path).subject()
    given = ImageBuilds(names=("own",), subject=subject).plan(plan)
    assert (plan.recipe.native_packages, given.recipe.native_packages) == (
        ["gcc", "python3"],
        ["python3"],
    )
    text = texts.text(given, "native", [TEMPLATES])
    assert "make" not in text.split("step 1/1 own")[1].split("\n)\n")[0]
    assert f"image={subject.sha256}" in text
    assert 'cp -R "$DLC_IMAGE_BUILDS"/packages/. "$site"/' in text


def test_it_is_taken_out_of_the_image(tmp_path: Path) -> None:
    def answer(argv: Sequence[str], **_: Unpack[RunOptions]) -> CompletedCommand:
        (bind,) = (argv[i + 1] for i, word in enumerate(argv) if word == "--bind")
        assert bind.endswith(":/mnt")
        assert list(argv[-2:]) == ["/opt/demo", "own"]
        raise CommandFailedError(completed(*argv, code=1, stderr="no such package"))

    context = BenchContext(execution=execution_of(tmp_path, answer), templates=(), work=tmp_path)
    builds = ImageBuilds(names=("own",), subject=Bench(tmp_path).subject())
    with pytest.raises(BuildError, match=r"the build of own can't be copied out of demo\.sif"):
        builds.take(context, tmp_path / "builds")
