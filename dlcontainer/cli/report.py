"""`dlcontainer report`: what a session's samples say, as HTML, Markdown or JSON."""

from pathlib import Path
from typing import Annotated, get_args

import typer

from dlcontainer.cli import options, output
from dlcontainer.errors import ChecksFailedError, UsageError
from dlcontainer.hints import suggest


def report(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE.jsonl...", help="Sessions, and from three allocations on also together."
        ),
    ],
    target: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE.html", help="Write one page with figures."),
    ] = None,
    fail_on: Annotated[
        str,
        typer.Option(
            "--fail-on",
            metavar="VERDICTS",
            help="Exit with 1 on one of these verdicts, e.g. slower,not-comparable.",
        ),
    ] = "",
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Report measured sessions; a verdict alone is never an error."""
    from dlcontainer.bench import body, results
    from dlcontainer.bench import report as reporting
    from dlcontainer.bench.across import across
    from dlcontainer.bench.analysis import analyse
    from dlcontainer.cli.world import here

    failing = _words(fail_on)
    if target is not None and target.resolve() in {path.resolve() for path in files}:
        raise UsageError("the report would replace its own samples", next_step="-o report.html")
    analyses = [analyse(results.read(path)) for path in files]
    if target is not None:
        templates = here().resources.template_folders()
        reporting.write(reporting.html(analyses, templates), target)
    words = [(str(a.series.path), a.verdict.word) for a in analyses]
    words += [
        (f"across {len(item.members)} allocations", item.word)
        for item in across(analyses)
        if item.word is not None
    ]
    bad = [f"{name}: {word}" for name, word in words if _slug(word) in failing]
    if as_json:
        written = str(target) if target else None
        output.emit("report", {**body.report(analyses), "written": written})
        raise typer.Exit(1 if bad else 0)
    output.say(reporting.markdown(analyses))
    if target is not None:
        output.say(f"\nwrote {target}")
    if bad:
        raise ChecksFailedError(
            f"{len(bad)} of {len(words)} verdicts are of --fail-on",
            why=", ".join(bad),
        )


def _slug(word: str) -> str:
    return word.lower().replace(" ", "-")


def _words(text: str) -> set[str]:
    from dlcontainer.bench.verdict import Word

    known = [_slug(word) for word in get_args(Word)]
    found = {word.strip().lower() for word in text.split(",") if word.strip()}
    for word in sorted(found - set(known)):
        raise UsageError(
            f"--fail-on: no verdict is called '{word}'{suggest(word, known)}",
            next_step=f"the verdicts: {', '.join(known)}",
        )
    return found
