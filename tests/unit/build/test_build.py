"""The story of a build, on a backend that makes no image: what lies where at its end."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dlcontainer.build import build as building
from dlcontainer.build import build_steps, dry_run, preflight, provenance
from dlcontainer.build.backends import select
from dlcontainer.build.base import root_tree
from dlcontainer.build.base.root_tree import BaseTree
from dlcontainer.build.build import BuildOptions, BuiltImage
from dlcontainer.build.cache.cached_step import CachedStep
from dlcontainer.build.context import BuildContext, BuildRun, BuildStart
from dlcontainer.errors import BuildError, UsageError
from dlcontainer.image.contents import FolderTree
from dlcontainer.planning.plan import Plan
from dlcontainer.system.process import CommandFailedError
from dlcontainer.system.workspace import PREFIX
from tests.fakes import RecordingRunner, completed
from tests.values import TEMPLATES, execution_of, folder_of, plan_of, site_of

if TYPE_CHECKING:
    from dlcontainer.build.backends.backend import BuildBackend

BASE = BaseTree(path=Path("/x"), sha256="ab" * 32, made_at="2026-01-01T00:00:00Z", cached=True)
PROXY = "http://someone:planted-word@p.example:1"
STEPS = [{"name": name, "shell": "true"} for name in ("first", "second")]


@dataclass(kw_only=True, slots=True)
class Backend:
    """A backend whose image is a text; a step of the name `fails` fails."""

    tree: Path
    log: Path
    fails: str = ""
    leaks: str = ""
    ran: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    def recall(self, key: str) -> CachedStep | None:
        return None

    def begin(self, parent: CachedStep | None) -> None:
        self.log.write_text("begun\n")

    def run(self, step: Any) -> None:
        self.ran.append(step.name)
        if step.name == self.leaks:
            (self.tree / "config.log").write_text(f"http_proxy={PROXY}\n")
            with self.log.open("a") as log:
                log.write(f"+ export http_proxy={PROXY}\n")
        if step.name == self.fails:
            raise CommandFailedError(completed("sh", code=1, stdout=f"oh {PROXY}\n"))

    def keep(self, step: Any, packages: Any) -> Any:
        self.kept.append(step.name)
        return lambda: None

    def files(self) -> FolderTree:
        return FolderTree(folder=self.tree)

    def finish(self, target: Path, sbom: Path) -> None:
        target.write_text("the image")

    def shell_command(self) -> tuple[list[str], dict[str, str], Path]:
        return ["sh"], {}, self.tree


@dataclass(kw_only=True, slots=True)
class Builder:
    """Builds a plan; `benches` are those that were opened."""

    plan: Plan
    context: BuildContext
    output: Path
    fails: str = ""
    leaks: str = ""
    benches: list[Backend] = field(default_factory=list)

    @contextmanager
    def opened(
        self, _: Plan, __: BuildContext, origin: BuildStart, run: BuildRun
    ) -> Iterator[Backend]:
        assert origin.base == BASE
        assert origin.routed.folder == run.folders.work / "routing"
        tree = run.folders.work / "tree"
        tree.mkdir()
        self.benches.append(
            Backend(tree=tree, log=run.folders.log, fails=self.fails, leaks=self.leaks)
        )
        yield self.benches[-1]

    def build(self, **options: Any) -> BuiltImage | None:
        asked = BuildOptions(tmpdir=self.output.parent, **options)
        return building.build(self.plan, self.context, self.output, asked)


@pytest.fixture
def builder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Builder:
    site = site_of(routing={"apt": "default", "pip": "default", "proxy": "none", "ca": "default"})
    made = Builder(
        plan=plan_of(folder_of(tmp_path, steps=STEPS, space_mb=1), site=site),
        context=BuildContext(
            execution=execution_of(tmp_path, RecordingRunner()), templates=(TEMPLATES,)
        ),
        output=tmp_path / "images",
    )
    monkeypatch.setattr(select, "opened", made.opened)
    for name in ("prepare", "recall"):
        monkeypatch.setattr(root_tree, name, lambda *_: BASE)
    return made


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_all_of_an_image_lies_in_its_folder(builder: Builder, tmp_path: Path) -> None:
    image = builder.build()
    assert image is not None
    assert builder.benches[0].ran == ["first", "second", "image", "describe"]
    stem = builder.plan.name
    assert names(builder.output) == [
        f"{stem}{end}" for end in (".cdx.json", ".json", ".log", ".sif")
    ]
    assert image.places.image is not None
    assert image.places.image.read_text() == "the image"
    assert image.places.log.read_text() == "begun\n"
    written = json.loads(image.places.record.read_text())
    assert (written["image"]["sha256"], written["digest"]) == (image.sha256, builder.plan.digest)
    phases = [step["name"] for step in written["steps"]]
    assert phases == ["base", "unpack", "first", "second", "image", "pack-image"]
    assert not list(tmp_path.glob(".dlcontainer-*"))


def test_older_mirrors_make_no_other_image(builder: Builder) -> None:
    """A refresh with nothing newer keeps the image; another one could get older packages."""
    image = builder.build()
    assert image is not None
    same = builder.build(is_newest=True, older="libssl3 2 → 1")
    assert same is not None
    assert same.unchanged
    builder.context = replace(builder.context, level=15)
    with pytest.raises(BuildError, match="older packages than the image: libssl3 2 → 1") as caught:
        builder.build(is_newest=True, older="libssl3 2 → 1")
    assert "--level" in str(caught.value.why)
    assert len(builder.benches) == 1
    packed = builder.build(is_newest=True)
    assert packed is not None
    assert not packed.unchanged


@dataclass(kw_only=True, slots=True)
class Counting:
    """A progress that counts: each step's number, and of how many."""

    total: int = 0
    begun: list[tuple[int, int, str]] = field(default_factory=list)

    def expect(self, count: int) -> None:
        self.total = len(self.begun) + count

    def step(self, title: str) -> None:
        self.begun.append((len(self.begun) + 1, self.total, title))

    def phase(self, title: str) -> None: ...

    def line(self, text: str) -> None: ...

    def note(self, text: str) -> None: ...


def kept(step: Any) -> CachedStep:
    return CachedStep(key=step, name="first", maker="root", made_at="2026-01-01T00:00:00Z", size=1)


@pytest.mark.parametrize(
    ("options", "holds", "steps"),
    [
        ({}, 0, ["unpack the base", "first", "second", "image", "pack", "record"]),
        ({}, 1, ["unpack step 1 of", "second", "image", "pack", "record"]),
        (
            {"fresh": True},
            1,
            ["the base", "first", "second", "image", "pack", "record"],
        ),
        ({"until": "first"}, 0, ["unpack the base", "first"]),
        ({"until": "second"}, 1, ["unpack step 1 of", "second"]),
    ],
)
@pytest.mark.parametrize("has_base", [True, False])
def test_steps_are_counted_from_those_that_run(
    builder: Builder,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    holds: int,
    steps: list[str],
    has_base: bool,
) -> None:
    counting = Counting()
    execution = replace(builder.context.execution, progress=counting)
    builder.context = replace(builder.context, execution=execution)
    if not has_base:
        monkeypatch.setattr(root_tree, "recall", lambda *_: None)
    monkeypatch.setattr(preflight, "check_base", lambda *_: None)
    first: list[str] = []
    work = build_steps.work

    def noted(*args: Any) -> Any:
        made = work(*args)
        first[:] = [step.key for step in made[:holds]]
        return made

    monkeypatch.setattr(build_steps, "work", noted)

    def recall(*key: Any) -> CachedStep | None:
        return kept(key[-1]) if key[-1] in first else None

    monkeypatch.setattr(select, "recaller", lambda *_, **__: recall)
    monkeypatch.setattr(Backend, "recall", recall)
    builder.build(**options)
    numbers = [number for number, _, _ in counting.begun]
    assert numbers == list(range(1, len(steps) + 2))
    for (_, _, title), wanted in zip(counting.begun, ["base", *steps], strict=True):
        assert wanted in title
    # Of a base that is still to be made nothing is kept that is known: it may turn out shorter.
    ends = [total for _, total, _ in counting.begun]
    known = ends if has_base else ends[1:]
    assert set(known) == {len(steps) + 1}


def test_an_image_that_is_there_is_not_built_again(builder: Builder) -> None:
    first, second, third = builder.build(), builder.build(), builder.build(fresh=True)
    assert (first is None, second is None, third is None) == (False, False, False)
    assert [image.unchanged for image in (first, second, third) if image] == [False, True, False]
    assert len(builder.benches) == 2


def test_what_a_build_killed_at_its_end_left_goes(builder: Builder, tmp_path: Path) -> None:
    builder.build()
    left = [folder / f"{PREFIX}abcdefgh" for folder in (builder.output, tmp_path)]
    for folder in left:
        (folder / "files").mkdir(parents=True)
        # Its lock went first; it is an hour old.
        os.utime(folder, (1_700_000_000,) * 2)
    image = builder.build()
    assert image is not None
    assert image.unchanged
    assert [folder for folder in left if folder.exists()] == []


def test_an_end_after_a_step_leaves_no_image(builder: Builder) -> None:
    assert builder.build(until="first") is None
    assert builder.benches[0].ran == ["first"]
    assert names(builder.output) == []
    with pytest.raises(UsageError, match="no step 'frist'"):
        builder.build(until="frist")


def test_a_failed_step_leaves_its_log_and_no_image(builder: Builder) -> None:
    builder.fails = "second"
    seen: list[BuildBackend] = []
    with pytest.raises(BuildError, match="the build failed in step 'second'"):
        builder.build(on_failure=lambda backend, _: seen.append(backend))
    assert seen == builder.benches
    assert names(builder.output) == [f"{builder.plan.name}.failed.log"]
    builder.fails = ""
    assert builder.build() is not None
    assert f"{builder.plan.name}.failed.log" not in names(builder.output)


@pytest.fixture
def behind_a_proxy(builder: Builder, tmp_path: Path) -> Builder:
    routing = {"apt": "default", "pip": "default", "proxy": PROXY, "ca": "default"}
    builder.plan = plan_of(
        folder_of(tmp_path, steps=STEPS, space_mb=1), site=site_of(routing=routing)
    )
    return builder


def test_a_step_that_writes_a_password_down_fails_and_is_not_kept(
    behind_a_proxy: Builder,
) -> None:
    builder = behind_a_proxy
    builder.leaks = "first"
    builder.context = replace(builder.context, worth_keeping_s=0.0)
    with pytest.raises(BuildError) as caught:
        builder.build()
    said = str(caught.value)
    assert "step 'first' left a credential from http_proxy in the image" in said
    assert "/config.log" in said
    assert (builder.benches[0].ran, builder.benches[0].kept) == (["first"], [])
    (log,) = builder.output.iterdir()
    assert log.read_text() == "begun\n+ export http_proxy=http://***@p.example:1\n"
    assert "planted-word" not in said
    builder.leaks = ""
    assert builder.build() is not None
    assert "first" in builder.benches[1].kept


def test_a_password_from_before_the_steps_is_found_at_the_end(
    behind_a_proxy: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = behind_a_proxy
    begin = Backend.begin

    def planted(self: Backend, parent: CachedStep | None) -> None:
        begin(self, parent)
        (self.tree / "old").write_text("planted-word")
        os.utime(self.tree / "old", (1, 1))

    monkeypatch.setattr(Backend, "begin", planted)
    monkeypatch.setattr("dlcontainer.build.leaks._TICK_NS", -(10**12))
    with pytest.raises(BuildError, match="there is a credential from"):
        builder.build()
    assert names(builder.output) == [f"{builder.plan.name}.failed.log"]


def test_a_password_in_the_plan_fails_the_build_before_its_first_step(
    behind_a_proxy: Builder, tmp_path: Path
) -> None:
    builder = behind_a_proxy
    routing = {"apt": "default", "pip": "default", "proxy": PROXY, "ca": "default"}
    folder = folder_of(tmp_path, steps=STEPS, space_mb=1, environment={"HELD": "planted-word"})
    builder.plan = plan_of(folder, site=site_of(routing=routing))
    with pytest.raises(BuildError, match="a credential from http_proxy") as caught:
        builder.build()
    assert "the plan (text of the recipe or the site)" in str(caught.value)
    assert builder.benches == []


def test_a_password_in_the_record_fails_the_build(
    behind_a_proxy: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gathered(*_: object) -> dict[str, object]:
        return {"tools": {"some tool": "1.0 from http://planted-word/"}}

    monkeypatch.setattr(provenance, "gather", gathered)
    with pytest.raises(BuildError, match="a credential from http_proxy") as caught:
        behind_a_proxy.build()
    assert "record.json" in str(caught.value)
    assert names(behind_a_proxy.output) == [f"{behind_a_proxy.plan.name}.failed.log"]


def test_an_error_shows_no_password(behind_a_proxy: Builder) -> None:
    behind_a_proxy.fails = "second"
    with pytest.raises(BuildError, match=r"oh http://\*\*\*@p.example:1"):
        behind_a_proxy.build()


def test_what_the_next_build_would_run(builder: Builder, tmp_path: Path) -> None:
    first = dry_run.reasons(builder.plan, builder.context, tmp_path)
    assert {reason.why for reason in first} == {"never built here before"}
    builder.build()
    again = dry_run.reasons(builder.plan, builder.context, tmp_path)
    assert [reason.step.name for reason in again] == ["first", "second", "image"]
    assert {reason.why.partition(":")[0] for reason in again} == {"not in the cache"}
