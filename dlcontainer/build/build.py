"""Build: plan -> image, with its record and its log beside it. It appears whole or not at all."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer.build import (
    build_steps,
    description,
    dry_run,
    leaks,
    package_moves,
    prefetch,
    preflight,
    preparation,
    provenance,
    run_steps,
    step_errors,
    write_record,
)
from dlcontainer.build.backends import oci_backend, select
from dlcontainer.build.backends.backend import BuildBackend
from dlcontainer.build.backends.oci_export import ExportedImage
from dlcontainer.build.base.root_tree import BaseTree
from dlcontainer.build.build_steps import BuildStep
from dlcontainer.build.cache import age, explain, previous, refreshes
from dlcontainer.build.cache.age import BaseAge
from dlcontainer.build.cache.cached_step import Packages
from dlcontainer.build.cache.oci_layers import OciStore
from dlcontainer.build.cache.previous import BuildOutputs
from dlcontainer.build.context import BuildContext, BuildFolders, BuildRun, BuildStart
from dlcontainer.build.description import Description, Ingredients
from dlcontainer.build.leaks import LeakGuard
from dlcontainer.build.prefetch import FetchedSupplies
from dlcontainer.build.provenance import BuildSources
from dlcontainer.build.run_steps import StepPolicy, StepResult
from dlcontainer.build.step_errors import StepFailure
from dlcontainer.config.suggestions import suggest
from dlcontainer.errors import BuildError, UsageError
from dlcontainer.formats import build_context
from dlcontainer.image.record import Record
from dlcontainer.packages.pip import pip_report
from dlcontainer.packages.routing import PreparedRouting
from dlcontainer.planning.plan import Plan
from dlcontainer.registry.base_image import BaseImage
from dlcontainer.system.atomic_files import flush
from dlcontainer.system.background import BackgroundTask, beside
from dlcontainer.system.environ import proxies
from dlcontainer.system.progress import StepProgress
from dlcontainer.system.workspace import reap, settle, settling, workspace


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildOptions:
    """What may be asked of one build.

    `fresh`: nothing is taken from the cache. `is_newest`: the mirrors have nothing newer than the
    image that is there, of whatever date its base is; `older` names what they have older: then no
    other image is made. `until`: end after this step, without an image.
    `on_failure` is called with the backend when a step has failed, while its tree still stands.
    """

    tmpdir: Path | None = None
    fresh: bool = False
    is_newest: bool = False
    older: str = ""
    until: str | None = None
    on_failure: Callable[[BuildBackend, BuildError], None] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BuiltImage:
    """A finished image and what lies beside it; size in bytes, time in s.

    `name` is what an engine's store knows it by, where it stays in one: then it is no file.
    `pushed` names it in a registry, by digest. `unchanged`: nothing had, it was there already.
    `age`: of what date its base and packages are.
    """

    places: BuildOutputs
    sha256: str
    size: int
    seconds: float
    age: BaseAge
    name: str | None = None
    pushed: str | None = None
    unchanged: bool = False


def build(
    plan: Plan, context: BuildContext, output: Path, options: BuildOptions
) -> BuiltImage | None:
    """Build a plan's image into a folder; None where it was to end after a step.

    Goes on from the last step whose result is kept. Raises BuildError with the failed step, its
    last lines and the log's path. Whatever ends it, no process, mount or half image is left; a
    killed build's leftovers go with the next one.
    """
    start, execution = time.monotonic(), context.execution
    preflight.check_architecture(plan, execution.host)
    if context.oci and context.export.outcome == "sif":
        preflight.check_conversion(plan)
    scratch = preflight.choose_tmpdir(plan, execution.host, options.tmpdir)
    runner, note = execution.runner, execution.progress.note
    context = refreshes.recalled(plan, context, previous.places(plan, context, output).record)
    existing = None
    if not (options.fresh or options.until):
        existing = _existing(plan, context, output, start, is_newest=options.is_newest)
    if existing is not None:
        # The build that made it may have been killed while it removed its folders.
        for folder in (output, scratch):
            reap(folder, runner, note)
        return existing
    if options.older:
        raise package_moves.older_alone(options.older)
    if not preparation.has_base(plan, context):
        preflight.check_base(plan, execution.host)
    preflight.make_folder(output)
    preflight.check_space(plan, output, scratch, execution.progress)
    failed = output / f"{plan.name}.failed.log"
    with (
        workspace(output, runner, note, hands_on=True) as staging,
        workspace(scratch, runner, note) as work,
        beside(runner) as background,
    ):
        folders = BuildFolders(output=output, staging=staging, work=work)
        run = BuildRun(
            folders=folders, steps=StepProgress(execution.progress), background=background
        )
        with step_errors.log_kept(folders.log, failed):
            context = preparation.secured(context, work)
            image = Build(plan=plan, context=context, options=options, run=run, start=start).make()
    if image is not None:
        failed.unlink(missing_ok=True)
        _make_room(plan, context)
    return image


def _existing(
    plan: Plan, context: BuildContext, output: Path, start: float, *, is_newest: bool
) -> BuiltImage | None:
    places = previous.places(plan, context, output)
    record = previous.found(plan, context, places, is_newest=is_newest)
    if record is None:
        return None
    name = None
    if places.image is None and context.oci:
        name = oci_backend.image_name(plan, OciStore(client=context.oci, arch=plan.site.arch))
    image = _image(places, record, start, age.of(plan, record, context))
    return replace(image, name=name, unchanged=True)


def _image(places: BuildOutputs, record: Record, start: float, age: BaseAge) -> BuiltImage:
    return BuiltImage(
        places=places,
        sha256=record.image.sha256,
        size=record.image.size,
        seconds=time.monotonic() - start,
        age=age,
    )


def _make_room(plan: Plan, context: BuildContext) -> None:
    limit = plan.site.engine.cache_gb
    gone = context.step_cache(plan.site.engine).prune(limit * 10**9)
    if gone:
        context.execution.progress.note(
            f"removed the {len(gone)} least recently used steps from the cache: "
            f"engine.cache_gb is {limit}"
        )


def _packages(results: Sequence[StepResult]) -> Packages:
    return tuple(package for result in results for package in result.packages)


@dataclass(frozen=True, kw_only=True, slots=True)
class Build:
    """One build of a plan's image; `start` is the monotonic clock's."""

    plan: Plan
    context: BuildContext
    options: BuildOptions
    run: BuildRun
    start: float

    def make(self) -> BuiltImage | None:
        """Make the image, and what lies beside it; None where it was to end after a step."""
        routed = preparation.route(self.plan, self.context, self.run.folders.work)
        guard = leaks.LeakGuard(credentials=routed.credentials, plan=self.plan.name)
        with guard.hidden(self.run.folders.log, self.run.steps):
            guard.planned(self.plan.content)
            with proxies.naming_faults(routed.environment):
                return self._made(routed, guard)

    def _made(self, routed: PreparedRouting, guard: LeakGuard) -> BuiltImage | None:
        plan, context, run = self.plan, self.context, self.run
        build_context.stage(plan, run.folders.context)
        supplies = prefetch.begin(plan, context, routed, run, fresh=self.options.fresh)
        run.steps.after = 0 if self.options.until else 2  # the image is packed, and recorded
        run.steps.expect(preparation.before_steps(plan, context) + self._coming())
        base = preparation.base(plan, context, routed, run)
        preparation.add_shortcuts(plan, context, routed, run)
        todo = self._todo(base)
        sources = preparation.sources(plan, context, base)
        origin = BuildStart(routed=routed, base=base)
        gathered = run.background.start(
            lambda runner: provenance.gather(plan, replace(sources, runner=runner))
        )
        with select.opened(plan, context, origin, run) as backend:
            policy = self._policy(
                routed, supplies, lambda step, began: guard.after_step(backend, step, began)
            )
            results = self._grow(backend, todo, policy)
            if self.options.until:
                return None
            guard.finished(backend)
            described = self._pack(backend, sources, gathered, _packages(results))
            delivered = select.delivered(backend)
        record = self._record(base, described, results, delivered)
        guard.beside([run.folders.record, run.folders.sbom])
        return self._finished(record, delivered)

    def _coming(self) -> int:
        """Count the steps after the base, as far as they are known before there is one."""
        names = dry_run.coming(
            self.plan, self.context, self.run.folders.context, fresh=self.options.fresh
        )
        if self.options.until in names:
            names = names[: names.index(self.options.until) + 1]
        return 1 + len(names) + self.run.steps.after

    def _todo(self, base: BaseTree | BaseImage) -> list[BuildStep]:
        plan, context, until = self.plan, self.context, self.options.until
        root = preparation.root(plan, context.kind, base)
        todo = build_steps.work(plan, self.run.folders.context, root, context.pins)
        previous.note_inputs(plan, context, explain.inputs_of(todo, root))
        if until is None:
            return todo
        names = [step.name for step in todo]
        if until not in names:
            raise UsageError(
                f"--until: no step {until!r}{suggest(until, names)}", next_step=", ".join(names)
            )
        return todo[: names.index(until) + 1]

    def _failure(self) -> StepFailure:
        return StepFailure(plan=self.plan, output=self.run.folders.output)

    def _policy(
        self,
        routed: PreparedRouting,
        supplies: FetchedSupplies,
        checked: Callable[[str, int], None],
    ) -> StepPolicy:
        return StepPolicy(
            failure=self._failure(),
            installed=lambda: pip_report.take_installed(routed),
            worth_keeping_s=self.context.worth_keeping_s,
            fresh=self.options.fresh,
            keep_last=self.options.until is not None,
            later=lambda keeping: self.run.background.start(lambda _: keeping()),
            handed=supplies.handed,
            checked=checked,
        )

    def _grow(
        self, backend: BuildBackend, todo: Sequence[BuildStep], policy: StepPolicy
    ) -> list[StepResult]:
        try:
            return run_steps.grow(backend, todo, self.run.steps, policy)
        except BuildError as error:
            if self.options.on_failure is not None:
                self.options.on_failure(backend, error)
            raise

    def _pack(
        self,
        backend: BuildBackend,
        sources: BuildSources,
        gathered: BackgroundTask[dict[str, object]],
        wheels: Packages,
    ) -> Description:
        """Let a grown image describe itself, say what could not be read, and make its file."""
        with step_errors.packing(self._failure(), self.run.steps):
            ingredients = Ingredients(
                sources=sources,
                provenance=gathered.result(),
                wheels=wheels,
                debs=self.context.debs,
            )
            work = self.run.folders.work
            self.run.steps.progress.phase("list what is in it")
            described = description.describe(self.plan, backend, ingredients, work)
            for note in described.notes:
                self.context.execution.progress.note(note)
            backend.finish(self.run.folders.image, described.sbom)
        return described

    def _record(
        self,
        base: BaseTree | BaseImage,
        described: Description,
        results: Sequence[StepResult],
        delivered: ExportedImage | None,
    ) -> Record:
        """Write the record and the bill of materials beside the image, not yet to be seen."""
        context, folders = self.context, self.run.folders
        self.run.steps.begin("record", "record")
        if folders.image.exists():  # some images stay in an engine's store
            self.run.background.start(lambda _: flush(folders.image))
        facts = write_record.BuildFacts(
            plan=self.plan,
            host=context.execution.host,
            trial=context.execution.capabilities,
            image=folders.image,
            base=base,
            lock=context.lock,
            refreshed=context.refreshed,
            text=context.text(self.plan),
            provenance=described.provenance,
            packages=_packages(results),
            done=tuple(results),
            steps=tuple(self.run.steps.times),
            seconds=time.monotonic() - self.start,
            squash=context.squash(self.plan),
            order=context.order.digest if context.order else None,
            outcome=context.export.outcome,
            delivered=delivered,
        )
        record = write_record.write(folders.record, facts)
        shutil.copyfile(described.sbom, folders.sbom)
        return record

    def _finished(self, record: Record, delivered: ExportedImage | None) -> BuiltImage:
        """Bring all to where it is seen."""
        folders = self.run.folders
        places = previous.places(self.plan, self.context, folders.output)
        # First: else a kill in between would leave steps that the next build does not look for.
        refreshes.note(self.plan, self.context)
        with settling(folders.output):
            settle(folders.log, places.log)
            settle(folders.sbom, places.sbom)
            settle(folders.record, places.record)
            # Last: who sees the image sees its record too.
            if places.image is not None:
                settle(folders.image, places.image)
        image = _image(places, record, self.start, age.of(self.plan, record, self.context))
        if delivered is None:
            return image
        stays = self.context.export.outcome == "image"
        return replace(image, name=delivered.name if stays else None, pushed=delivered.reference)
