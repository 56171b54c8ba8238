"""`dlcontainer report`: what samples say, as HTML, Markdown, CSV or JSON."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from dlcontainer.cli import options, output
from dlcontainer.errors import ChecksFailedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dlcontainer.bench.analysis.session_analysis import Analysis
    from dlcontainer.bench.report.html_report import Brief
    from dlcontainer.bench.report.inputs import InputFinding

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...",
        help="Session files (three or more allocations are also analysed together), folders of "
        "`bench scaling`, and files that `bench job`, `bench trace` (its trace.json), `bench "
        "import-matrix`, `lab count` and `lab storm` wrote with -o.",
    ),
]
Target = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE.html",
        help="Write an HTML page with figures and, beside it, the same as Markdown and "
        "all raw values as CSV. A name in .md or .csv: only that file.",
    ),
]
Formats = Annotated[
    str, typer.Option("--format", metavar="html,md,csv", help="Formats that -o writes.")
]
FailOn = Annotated[
    str,
    typer.Option(
        "--fail-on",
        metavar="VERDICTS",
        help="Exit with 1 on one of these verdicts, e.g. slower,not-comparable.",
    ),
]


def report(
    files: Files,
    target: Target = None,
    formats: Formats = "",
    fail_on: FailOn = "",
    proofs: options.Proofs = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Report measured sessions; a verdict is an error only with --fail-on."""
    from dataclasses import replace

    from dlcontainer.bench.report import given, json_report, markdown_report
    from dlcontainer.bench.report import html_report as reporting
    from dlcontainer.bench.report import output_files as written
    from dlcontainer.bench.report.sections import scaling_inputs
    from dlcontainer.bench.report.tables import site_tables
    from dlcontainer.cli.context import here
    from dlcontainer.system import report_files

    failing = _words(fail_on)
    if formats and target is None:
        raise UsageError("--format requires -o", next_step="name the file: -o report.html")
    targets = written.targets(target, formats) if target else ()
    if target is not None:
        written.check(targets, target, files)
        report_files.require(target)
    analyses, findings = given.read(files)
    sites = [analysis.series.session.declared.site for analysis in analyses]
    reached = _reached(proofs, sites) if proofs else {}
    if target is not None:
        templates = here().resources.template_folders()
        settled = replace(reporting.page(analyses, findings), reached=site_tables.reached(reached))
        every = [*analyses, *scaling_inputs.sessions(findings)]
        written.write(targets, settled, [a.series for a in every], templates, findings)
    words = _verdicts(analyses, findings)
    bad = [f"{name}: {word}" for name, word in words if _slug(word) in failing]
    paths = [str(report_file.path) for report_file in targets]
    if as_json:
        body = {"written": str(target) if target else None, "files": paths}
        output.emit(
            "report", {**json_report.report(analyses, findings), "reached": reached, **body}
        )
        raise typer.Exit(1 if bad else 0)
    if output.is_terminal():
        _show(reporting.briefs(analyses, findings), reached, paths)
    else:
        _say(markdown_report.summary(analyses, findings), reached, paths)
    if bad:
        raise ChecksFailedError(
            f"{len(bad)} of {len(words)} verdicts match --fail-on",
            why=", ".join(bad),
        )


def _verdicts(
    analyses: "Sequence[Analysis]", findings: "Sequence[InputFinding]"
) -> list[tuple[str, str]]:
    """Return what each verdict is about, and its word."""
    from dlcontainer.bench.analysis.across_sessions import across
    from dlcontainer.bench.job import job_analysis as jobbing
    from dlcontainer.bench.job.job_records import JobSession
    from dlcontainer.bench.study.judged_study import JudgedStudy

    words: list[tuple[str, str]] = [(str(a.series.path), a.verdict.word) for a in analyses]
    words += [
        (f"across {len(item.members)} allocations", item.word)
        for item in across(analyses)
        if item.word is not None
    ]
    words += [
        (str(finding.path), jobbing.read(finding.finding).word)
        for finding in findings
        if isinstance(finding.finding, JobSession)
    ]
    words += [
        (str(judged.study.folder / point.plan.file), verdict.word)
        for judged in (finding.finding for finding in findings)
        if isinstance(judged, JudgedStudy)
        for point in judged.study.points
        if (verdict := judged.verdict(point)) is not None and verdict.word is not None
    ]
    return words


def _say(text: str, reached: "Mapping[str, Sequence[str]]", paths: "Sequence[str]") -> None:
    """Print a summary as Markdown, for issues and logs."""
    output.say(text)
    for site, lines in reached.items():
        output.say("\n".join([f"\n## How far {site} got", "", *(f"- {line}" for line in lines)]))
    if paths:
        output.say(f"\nwrote {', '.join(paths)}")


def _show(
    briefs: "Sequence[Brief]", reached: "Mapping[str, Sequence[str]]", paths: "Sequence[str]"
) -> None:
    """Print the same as text, laid out in the terminal's width."""
    for number, brief in enumerate(briefs):
        if number:
            output.say("")
        output.title(_line(brief.title))
        output.title(_line(brief.headline))
        for text in brief.paragraphs:
            output.say("")
            output.paragraph(_line(text))
        _show_details(brief)
    for site, lines in reached.items():
        output.title(f"\nHow far {site} got")
        output.listed(lines)
    for number, path in enumerate(paths):
        output.copied(path, before="wrote " if number else "\nwrote ")


def _line(text: str) -> str:
    """Set a text on one line: a hostile name must not begin a line of its own."""
    return " ".join(text.splitlines())


def _show_details(brief: "Brief") -> None:
    if brief.notes:
        output.say("")
        output.listed(brief.notes)
    if brief.figures:
        output.say("")
        output.say(output.table(brief.figures))
    for table in brief.tables:
        if table.rows:
            output.title(f"\n{table.name}")
            output.say(output.table(table.rows, head=table.head))
        if table.note:
            output.say(table.note)
    if brief.file:
        output.copied(brief.file, before="\nfile  ")
        output.copied(brief.seal, before="seal  ")


def _reached(proofs: list[Path], sites: list[str]) -> dict[str, list[str]]:
    """Return how far the sessions' sites got, by files; raises UsageError without a session."""
    from dlcontainer.cli.context import here
    from dlcontainer.proof import reach

    if not sites:
        raise UsageError(
            "--proof requires a session among the files, to know the site",
            next_step="run dlcontainer site show SITE --proof PATH",
        )
    stages = {}
    for name in dict.fromkeys(sites):
        site = here().site(name).value
        stages[name] = reach.lines(reach.read(proofs, site.engine.builders), site)
    return stages


def _slug(word: str) -> str:
    return word.lower().replace(" ", "-")


def _words(text: str) -> set[str]:
    from dlcontainer.bench.analysis.verdict import Word
    from dlcontainer.config.suggestions import suggest

    words = [_slug(word) for word in get_args(Word)]
    chosen = {word.strip().lower() for word in text.split(",") if word.strip()}
    for word in sorted(chosen - set(words)):
        raise UsageError(
            f"--fail-on: no verdict is called '{word}'{suggest(word, words)}",
            next_step=f"use one or more of: {', '.join(words)}",
        )
    return chosen
