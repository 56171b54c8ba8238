"""What validation asks of an image, its record and the engine: each question once, when needed."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from dlcontainer.config.field_types import Arch
from dlcontainer.engines import apptainer, emulation
from dlcontainer.engines.engine import Containment, RunSpec
from dlcontainer.engines.execution import Execution
from dlcontainer.formats import labels as names
from dlcontainer.image import layout, record, sif
from dlcontainer.image.checks_file import CheckRecord
from dlcontainer.image.record import ImageContent, Record
from dlcontainer.planning.launch import on_host
from dlcontainer.planning.launch.here import HostSurroundings
from dlcontainer.planning.launch.surroundings import ImageFacts
from dlcontainer.sites import gpu_flags
from dlcontainer.sites.site import Site
from dlcontainer.system import digests, foreign_files
from dlcontainer.system.guarded_files import MINE
from dlcontainer.system.process import CommandFailedError, CommandTimeoutError, quote
from dlcontainer.validate import next_steps
from dlcontainer.validate.image_files import ImageFiles

CheckState = Literal["ok", "failed", "not tried"]
# The environment that checks run in, declared whole: nothing of the caller's reaches them.
ENVIRONMENT: Mapping[str, str] = {
    "PYTHONNOUSERSITE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}
PROBE = Path(__file__).resolve().parent.parent / "probe" / "image_check.py"
_INSIDE = "dlcontainer/inside/1"
_TIMEOUT_S = 600.0
# Emulated training is about 100 times as slow (docs/measurements/build.md).
_EMULATED_TIMEOUT_S = 3600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """One thing that was looked at: whether it holds, what was seen, what to do where it failed.

    `ok` is what programs have always read; it is False too for what could not be tried here, which
    `state` tells from what failed.
    """

    name: str
    ok: bool
    detail: str
    state: CheckState
    next_step: str = ""

    @property
    def record(self) -> CheckRecord:
        """Return it as files have it."""
        return CheckRecord(
            name=self.name,
            ok=self.ok,
            detail=self.detail,
            state=self.state,
            next_step=self.next_step,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidateContext:
    """What a validation works with, and what hears of each check."""

    execution: Execution
    on_check: Callable[[CheckResult], None]
    # Told the name of what is looked at next.
    on_begin: Callable[[str], None] = lambda _: None


@dataclass(frozen=True, kw_only=True, slots=True)
class MissingAnswer:
    """Why a question has no answer, and what helps."""

    why: str
    next_step: str = ""


# No slots: an answer is kept in the instance's dictionary.
@dataclass(frozen=True, kw_only=True)
class ImageInspection:
    """An image that is checked for a site, or for this host; its properties ask."""

    image: Path
    site: Site | None
    context: ValidateContext
    # What its record says, where somebody has read that already.
    written: Record | None = None

    @cached_property
    def arch(self) -> str:
        """The architecture in the image's header."""
        return sif.arch(self.image)

    @cached_property
    def record(self) -> Record | None:
        """What the file beside the image says of it; None without one."""
        owners = self.site.owners if self.site else MINE
        return self.written or record.read(record.beside(self.image), owners)

    @cached_property
    def files(self) -> ImageFiles:
        """The image's files, which can be read while nothing of it runs."""
        return ImageFiles(image=self.image, execution=self.context.execution)

    @cached_property
    def sha256(self) -> str:
        """The checksum of the image's file."""
        return digests.of_file(self.image)

    @cached_property
    def labels(self) -> Mapping[str, str] | MissingAnswer:
        """The image's labels, as the engine reads them."""
        execution = self.context.execution
        env = apptainer.environment(execution.host.environ)
        try:
            answer = execution.runner(execution.engine.inspect_argv(self.image), env=env)
            labels: Mapping[str, str] = foreign_files.loads(answer.stdout)["data"]["attributes"][
                "labels"
            ]
        except (CommandFailedError, ValueError, KeyError, TypeError) as error:
            return MissingAnswer(
                why=f"the engine could not read the image's labels: {error}",
                next_step="check the engine: dlcontainer doctor; read the image's files without an "
                f"engine: dlcontainer inspect {self._quoted}",
            )
        return labels or {}

    @cached_property
    def probed(self) -> Mapping[str, object] | MissingAnswer:
        """What the probe finds when it runs in the image."""
        arch = self._emulated_arch
        obstacle = emulation.obstacle(arch) if arch else None
        if obstacle is not None:
            why, cure = obstacle
            return MissingAnswer(
                why=f"no {arch} program runs here: {why}; root runs once: {cure}",
                next_step=f"run once as root: {cure}; or validate on a machine with {arch}",
            )
        # The shell finds the image's own Python through the manifest: the image may hold no other.
        find = (
            f'python=$(sed -n \'s/^ "python": "\\(.*\\)",$/\\1/p\' {layout.MANIFEST}) && '
            'exec "$python" - "$@"'
        )
        argv = ("/bin/sh", "-c", find, "sh", *sorted({*self._emulator, *self._of_site}))
        try:
            answer = foreign_files.loads(self._run(argv, PROBE.read_text()))
            if not isinstance(answer, dict) or answer.get("schema") != _INSIDE:
                raise ValueError("the image's Python did not print the probe's answer")
        except CommandFailedError as error:
            why = _last_line(error.completed.stderr) or str(error)
            is_engine = error.completed.returncode == next_steps.ENGINE_FAILED
            return MissingAnswer(
                why=why, next_step=next_steps.TRY_ENGINE if is_engine else next_steps.CHANGED
            )
        except CommandTimeoutError as error:
            return MissingAnswer(why=str(error), next_step=next_steps.SLOW)
        except ValueError as error:
            return MissingAnswer(why=str(error), next_step=next_steps.CHATTY)
        return answer

    @property
    def inside(self) -> Mapping[str, object]:
        """What the probe found, for checks that stand behind the one that it ran."""
        if isinstance(self.probed, MissingAnswer):
            raise LookupError(self.probed.why)
        return self.probed

    @cached_property
    def content(self) -> ImageContent | MissingAnswer:
        """What the image is made of: as its record says, or else its manifest."""
        if self.record is not None:
            return self.record.content
        if isinstance(self.probed, MissingAnswer):
            return self.probed
        try:
            return ImageContent.model_validate_json(json.dumps(self.probed.get("content")))
        except ValueError:
            return MissingAnswer(why="its manifest does not describe the build")

    @property
    def is_by_hand(self) -> bool:
        """Whether an engine alone built it from a rendered text: `build` leaves more inside."""
        named = (
            not isinstance(self.labels, MissingAnswer) and f"{names.PREFIX}.digest" in self.labels
        )
        return (
            named
            and not isinstance(self.probed, MissingAnswer)
            and self.probed.get("provenance") is False
        )

    @cached_property
    def verified(self) -> str | MissingAnswer:
        """What the image's own proof prints."""
        return self._answer((str(self.inside["interpreter"]), str(self.inside["verify"])))

    @property
    def earlier_proofs(self) -> Iterator[tuple[str, str | MissingAnswer]]:
        """The parents of the image's own recipe in order, and the output of the proof of each."""
        if isinstance(self.content, MissingAnswer):
            return
        for proof in self.content.offer.verify.before:
            argv = (str(self.inside["interpreter"]), layout.proof(proof.recipe))
            yield proof.recipe, self._answer(argv)

    @cached_property
    def devices(self) -> str | MissingAnswer:
        """What the image's probe prints of the accelerators that it sees here."""
        argv = (str(self.inside["interpreter"]), layout.PROBE, "devices")
        return self._answer(argv)

    def _answer(self, argv: tuple[str, ...]) -> str | MissingAnswer:
        """Run a program of the image's that may train, on this host's accelerators if it can."""
        try:
            return self._run(argv)
        except CommandFailedError as error:
            completed = error.completed
            return MissingAnswer(
                why=_last_line(completed.stdout + completed.stderr) or str(error),
                next_step=f"see its full output: {self._by_hand(argv)}",
            )
        except CommandTimeoutError as error:
            return MissingAnswer(why=str(error), next_step=next_steps.SLOW)

    def _by_hand(self, argv: tuple[str, ...]) -> str:
        """Return the line that runs a program of the image's as a user would."""
        program = self.context.execution.engine.program.name
        return quote([program, "exec", *self._accelerators, str(self.image), *argv])

    @property
    def _quoted(self) -> str:
        return quote([str(self.image)])

    @cached_property
    def contained(self) -> Containment:
        """How far the image is kept from this host: as far as the engine can."""
        # Without a record, or with that of another image, nobody vouches for it.
        if (
            self.record is not None
            and not self.record.is_contained
            and self.sha256 == self.record.image.sha256
        ):
            return ""
        execution = self.context.execution
        spec = RunSpec(
            image=self.image,
            argv=("/bin/sh", "-c", ":"),
            mode=execution.run_mode,
            contained="alone",
        )
        try:
            execution.runner(
                execution.engine.run_argv(spec),
                env=apptainer.environment(execution.host.environ),
                timeout=_TIMEOUT_S,
            )
        except (CommandFailedError, CommandTimeoutError):
            return "apart"
        return "alone"

    @cached_property
    def surroundings(self) -> HostSurroundings:
        """What the site's jobs and wrappers put around the image, as far as it holds here."""
        if self.site is None:
            return HostSurroundings()
        if self._emulated_arch or self.contained:
            away = "the image is emulated" if self._emulated_arch else "the image is kept apart"
            complete = on_host.here(self.site, self._facts, {})
            return HostSurroundings(left_out=(away,)) if complete.declared() else HostSurroundings()
        host = self.context.execution.host
        applied = on_host.here(self.site, self._facts, host.environ)
        if not applied.words:
            return applied
        # A build host may have another engine than the site's: its refusal is not the image's.
        try:
            self._answered(("/bin/sh", "-c", ":"), applied)
        except CommandFailedError as error:
            return applied.refused(_last_line(error.completed.stderr) or str(error))
        except CommandTimeoutError as error:
            return applied.refused(str(error))
        return applied

    @property
    def _facts(self) -> ImageFacts:
        return on_host.facts_of(self.record.content) if self.record else ImageFacts()

    @property
    def _of_site(self) -> Mapping[str, str]:
        """The site's variables, those that lead to files of the image among them."""
        return {**self.surroundings.inside, **self.surroundings.image_paths}

    @property
    def remark(self) -> str:
        """What is said of the emulator beside a check of what runs."""
        if self._emulated_arch is None:
            return ""
        return "".join([", emulated by qemu", *(f" as {cpu}" for cpu in self._emulator.values())])

    @property
    def _emulated_arch(self) -> Arch | None:
        """The image's architecture, where this host's processor is another."""
        if self.site is None or self.site.arch == self.context.execution.host.arch:
            return None
        return self.site.arch

    @property
    def _emulator(self) -> Mapping[str, str]:
        arch = self._emulated_arch
        return emulation.environment(arch) if arch else {}

    @property
    def _accelerators(self) -> tuple[str, ...]:
        """What lets this node's accelerators in, as the site's wrappers do; none is emulated."""
        if self.site is None or self._emulated_arch:
            return ()
        return gpu_flags.here(self.site)

    def _run(self, argv: tuple[str, ...], stdin: str | None = None) -> str:
        return self._answered(argv, self.surroundings, stdin)

    def _answered(
        self, argv: tuple[str, ...], applied: HostSurroundings, stdin: str | None = None
    ) -> str:
        execution = self.context.execution
        of_site = {**applied.inside, **applied.image_paths}
        spec = RunSpec(
            image=self.image,
            argv=argv,
            mode=execution.run_mode,
            environment={**of_site, **ENVIRONMENT, **self._emulator},
            accelerators=self._accelerators,
            site_words=applied.words,
            contained=self.contained,
        )
        return execution.runner(
            execution.engine.run_argv(spec),
            env={**apptainer.environment(execution.host.environ), **applied.environment},
            stdin=stdin,
            timeout=_EMULATED_TIMEOUT_S if self._emulated_arch else _TIMEOUT_S,
        ).stdout


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")
