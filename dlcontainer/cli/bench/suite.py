"""`dlcontainer bench suite`: a session of each probe that fits, and one report of them all."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dlcontainer.bench.probes.probe import Probe
from dlcontainer.cli import options, output
from dlcontainer.cli.bench import rank_options, session_options

if TYPE_CHECKING:
    from dlcontainer.bench.probes.suite_folder import SuiteSubject
    from dlcontainer.cli.context import CliContext
    from dlcontainer.errors import DlcontainerError

Folder = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="FOLDER",
        help="Folder for the sessions and the report. A second run keeps complete "
        "sessions and resumes interrupted ones.",
    ),
]
Quick = Annotated[
    bool,
    typer.Option(
        "--quick",
        help="Use small sets: about two minutes a probe on two cores, plus the time to "
        "build the native side.",
    ),
]
Only = Annotated[
    str | None,
    typer.Option("--only", metavar="PROBE,...", help="Probes to run. Default: all that fit."),
]
_REPORT = "report.html"
# Of a quick session.
_QUICK_MINUTES = 2
# Pairs of native against native in a quick session of launches that has no small set: half of its
# pairs. They refuse a grossly unsteady machine, and no more is said of them.
_QUICK_CONTROLS = "4"
Outcome = Literal["measured", "was whole", "left out", "failed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Result:
    """What became of a probe."""

    probe: str
    outcome: Outcome
    file: Path | None = None
    why: str = ""
    seconds: float = 0.0

    def as_json(self) -> dict[str, object]:
        return {
            "probe": self.probe,
            "outcome": self.outcome,
            "file": str(self.file) if self.file else None,
            "why": self.why,
            "seconds": round(self.seconds, 1),
        }


def suite(
    site: options.Site,
    image: session_options.Image,
    folder: Folder,
    quick: Quick = False,
    only: Only = None,
    native: session_options.NativeFolder = None,
    timeout: session_options.Timeout = 600.0,
    ranks: rank_options.Ranks = None,
    launcher: rank_options.LauncherWords = None,
    recipe: session_options.RecipeOf = None,
    settings: options.Set = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Measure an image with every probe that fits, one after another, and write one report.

    A probe that the image has nothing for is left out by name; one that fails keeps no other from
    being measured.
    """
    from dlcontainer.bench.measure import bench_image
    from dlcontainer.bench.probes import PROBES
    from dlcontainer.bench.probes import suite_folder as suites
    from dlcontainer.cli.context import here

    console = output.Console(verbose=verbose, quiet=as_json)
    world = here()
    probes = suites.chosen(list(PROBES.values()), only, quick=quick)
    owners = world.site(site).value.owners
    measured_image = bench_image.read(options.image_file(image), world.host.arch, owners)
    subject = suites.SuiteSubject(image_sha256=measured_image.sha256, site=site, quick=quick)
    where = _folder(folder)
    typed: dict[str, Any] = {
        "site": site,
        "image": image,
        "native": native,
        "timeout": timeout,
        "launcher": launcher,
        "recipe": recipe,
        "settings": settings,
        "verbose": verbose,
    }
    console.note(_outlook(probes, quick=quick))
    task = _Suite(
        folder=where, subject=subject, typed=typed, ranks=ranks, world=world, console=console
    )
    results = [
        task.result(probe, f"{number} of {len(probes)}") for number, probe in enumerate(probes, 1)
    ]
    _end(results, where, world, as_json=as_json)


def _folder(folder: Path) -> Path:
    from dlcontainer.errors import UsageError

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"-o {folder}: {error.strerror}", next_step="name a folder that you can create"
        ) from None
    return folder


def _outlook(probes: Sequence[Probe], *, quick: bool) -> str:
    names = ", ".join(probe.name for probe in probes)
    if quick:
        minutes = _QUICK_MINUTES * len(probes)
        return f"{len(probes)} probes, about {minutes} minutes plus the native side: {names}"
    return f"{len(probes)} probes; each prints an estimate of its time after its warm-up: {names}"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Suite:
    """A suite under way: what was typed for all of its sessions."""

    folder: Path
    subject: "SuiteSubject"
    typed: Mapping[str, Any]
    ranks: int | None
    world: "CliContext"
    console: output.Console

    def result(self, probe: Probe, place: str) -> _Result:
        """Measure what is left of a probe's session; a failure is a result."""
        from dlcontainer.bench.probes import suite_folder as suites
        from dlcontainer.cli.bench import sessions
        from dlcontainer.errors import ChecksFailedError, DlcontainerError, InterruptedByUserError

        path = suites.file_of(self.folder, probe)
        began = time.monotonic()
        try:
            state = suites.state(path, probe, self.subject)
            if state == "whole":
                self.console.step(f"{probe.name}, {place}: complete already")
                return _Result(probe=probe.name, outcome="was whole", file=path)
            self.console.step(f"{probe.name}, {place}{': resumed' if state == 'cut' else ''}")
            if state == "begun":
                aside = suites.set_aside(path)
                self.console.note(
                    f"interrupted before its first sample; its file is now {aside.name}"
                )
            typed = self._options(probe, path, goes_on=state == "cut")
            typed.check()
            try:
                ready = sessions.settled(probe, typed, self.world, self.console)
            except ChecksFailedError as error:
                self.console.note(f"left out: {_in_short(error)}")
                return _Result(probe=probe.name, outcome="left out", why=_in_short(error))
            sessions.run(ready, self.world, self.console)
        except InterruptedByUserError:
            raise
        except DlcontainerError as error:
            self.console.note(f"failed: {_in_short(error)}")
            return _Result(probe=probe.name, outcome="failed", file=path, why=_in_short(error))
        seconds = time.monotonic() - began
        return _Result(probe=probe.name, outcome="measured", file=path, seconds=seconds)

    def _options(
        self, probe: Probe, path: Path, *, goes_on: bool
    ) -> session_options.SessionOptions:
        from dlcontainer.bench.probes.probe import QUICK, UNIT
        from dlcontainer.bench.samples.schedule import FEWEST

        has_set = QUICK in probe.options
        is_short = self.subject.quick and not has_set and not goes_on
        is_ranked = probe.in_suite.ranks > 0
        return session_options.SessionOptions(
            **{**self.typed, "launcher": self.typed["launcher"] if is_ranked else None},
            values={
                **{option.name: None for option in probe.options},
                **({QUICK.name: True} if has_set and self.subject.quick else {}),
            },
            # A session that goes on has its looks.
            pairs=FEWEST if is_short else None,
            # Groups are their own controls.
            controls=_QUICK_CONTROLS if is_short and UNIT not in probe.options else None,
            ranks=(self.ranks or probe.in_suite.ranks) if is_ranked else None,
            target=None if goes_on else path,
            resume=path if goes_on else None,
        )


def _in_short(error: "DlcontainerError") -> str:
    return f"{error.what} ({error.why})" if error.why else error.what


def _line(text: str) -> str:
    """Return the first line of what a launch said: a table has one for each probe."""
    first, _, rest = text.partition("\n")
    return f"{first} …" if rest else first


def _end(results: Sequence[_Result], folder: Path, world: "CliContext", *, as_json: bool) -> None:
    """Write the report and say what became of each; raises ChecksFailedError where one failed."""
    from dlcontainer.errors import ChecksFailedError

    files = [
        session.file
        for session in results
        if session.file is not None and session.outcome in {"measured", "was whole"}
    ]
    page = _report(files, folder / _REPORT, world) if files else None
    failed = [session for session in results if session.outcome == "failed"]
    if as_json:
        body = {"folder": str(folder), "report": str(page) if page else None}
        output.emit("bench-suite", {**body, "probes": [session.as_json() for session in results]})
        raise typer.Exit(ChecksFailedError.exit_code if failed else 0)
    rows = [
        (
            session.probe,
            session.outcome,
            f"{session.seconds:.0f} s" if session.seconds else "",
            _line(session.why),
        )
        for session in results
    ]
    output.say(output.table(rows, head=("probe", "outcome", "time", "why")))
    if page:
        output.say(f"\nwrote {page}")
    if failed:
        raise ChecksFailedError(
            f"{len(failed)} of {len(results)} probes failed",
            where=str(folder),
            why="; ".join(f"{session.probe}: {session.why}" for session in failed),
            next_step="fix the cause, then run the same command again; complete sessions are kept",
        )


def _report(files: Sequence[Path], page: Path, world: "CliContext") -> Path:
    from dlcontainer.bench.report import given
    from dlcontainer.bench.report import html_report as reporting
    from dlcontainer.bench.report import output_files as written

    targets = written.targets(page, "")
    written.check(targets, page, files)
    analyses, findings = given.read(files)
    settled = reporting.page(analyses, findings)
    series = [analysis.series for analysis in analyses]
    written.write(targets, settled, series, world.resources.template_folders(), findings)
    return page
