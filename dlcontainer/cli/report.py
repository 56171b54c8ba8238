"""`dlcontainer report`: what samples say, as HTML, Markdown, CSV or JSON."""

from pathlib import Path
from typing import Annotated, get_args

import typer

from dlcontainer.cli import options, output
from dlcontainer.errors import ChecksFailedError, UsageError

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...",
        help="Sessions (from three allocations on also together), and what `bench job`, "
        "`bench import-matrix`, `lab count` and `lab storm` wrote with -o.",
    ),
]
Target = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE.html",
        help="Write a page with figures; beside it the same as Markdown, and all raw values as "
        "CSV. A name in .md or .csv: that alone.",
    ),
]
Formats = Annotated[
    str, typer.Option("--format", metavar="html,md,csv", help="Which of these -o writes.")
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
    """Report measured sessions; a verdict alone is never an error."""
    from dataclasses import replace

    from dlcontainer.bench.analysis.across_sessions import across
    from dlcontainer.bench.job import analysis as jobbing
    from dlcontainer.bench.job.records import Job
    from dlcontainer.bench.report import files as written
    from dlcontainer.bench.report import given, json_report
    from dlcontainer.bench.report import html_report as reporting
    from dlcontainer.bench.report.tables import site_tables
    from dlcontainer.cli.context import here
    from dlcontainer.system import report_files

    failing = _words(fail_on)
    if formats and target is None:
        raise UsageError("--format without -o", next_step="name the file: -o report.html")
    wanted = written.targets(target, formats) if target else ()
    if target is not None:
        written.check(wanted, target, files)
        report_files.require(target)
    analyses, found = given.read(files)
    sites = [analysis.series.session.declared.site for analysis in analyses]
    reached = _reached(proofs, sites) if proofs else {}
    if target is not None:
        templates = here().resources.template_folders()
        settled = replace(reporting.page(analyses, found), reached=site_tables.reached(reached))
        written.write(wanted, settled, [a.series for a in analyses], templates, found)
    words = [(str(a.series.path), a.verdict.word) for a in analyses]
    words += [
        (f"across {len(item.members)} allocations", item.word)
        for item in across(analyses)
        if item.word is not None
    ]
    words += [
        (str(one.path), jobbing.read(one.finding).word)
        for one in found
        if isinstance(one.finding, Job)
    ]
    bad = [f"{name}: {word}" for name, word in words if _slug(word) in failing]
    if as_json:
        paths = [str(one.path) for one in wanted]
        said = {"written": str(target) if target else None, "files": paths}
        output.emit("report", {**json_report.report(analyses, found), "reached": reached, **said})
        raise typer.Exit(1 if bad else 0)
    output.say(reporting.markdown(analyses, found))
    for site, lines in reached.items():
        output.say("\n".join([f"\n## How far {site} got", "", *(f"- {line}" for line in lines)]))
    if wanted:
        output.say(f"\nwrote {', '.join(str(one.path) for one in wanted)}")
    if bad:
        raise ChecksFailedError(
            f"{len(bad)} of {len(words)} verdicts are of --fail-on",
            why=", ".join(bad),
        )


def _reached(proofs: list[Path], sites: list[str]) -> dict[str, list[str]]:
    """Say how far the sessions' sites got, by files; raises UsageError without a session."""
    from dlcontainer.cli.context import here
    from dlcontainer.proof import reach

    if not sites:
        raise UsageError(
            "--proof: none of the files is a session, which would name its site",
            next_step="ask for the site: dlcontainer site show SITE --proof PATH",
        )
    found = {}
    for name in dict.fromkeys(sites):
        site = here().site(name).value
        found[name] = reach.lines(reach.read(proofs, site.engine.builders), site)
    return found


def _slug(word: str) -> str:
    return word.lower().replace(" ", "-")


def _words(text: str) -> set[str]:
    from dlcontainer.bench.analysis.verdict import Word
    from dlcontainer.config.suggestions import suggest

    known = [_slug(word) for word in get_args(Word)]
    found = {word.strip().lower() for word in text.split(",") if word.strip()}
    for word in sorted(found - set(known)):
        raise UsageError(
            f"--fail-on: no verdict is called '{word}'{suggest(word, known)}",
            next_step=f"the verdicts: {', '.join(known)}",
        )
    return found
