"""The files of a report: which are asked for, and that none of them takes another file's place."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from dlcontainer.bench.report import csv_report, html_report, markdown_report
from dlcontainer.bench.report.html_report import Page
from dlcontainer.bench.report.inputs import InputFinding
from dlcontainer.bench.samples.series import Series
from dlcontainer.config.suggestions import suggest
from dlcontainer.errors import UsageError
from dlcontainer.system import report_files
from dlcontainer.system.visible_text import visible

Format = Literal["html", "md", "csv"]
FORMATS: tuple[Format, ...] = get_args(Format)
_SUFFIXES: dict[str, Format] = {".md": "md", ".markdown": "md", ".csv": "csv"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportFile:
    """A file to write, and how."""

    path: Path
    format: Format


def targets(output: Path, formats: str) -> tuple[ReportFile, ...]:
    """Return what is written for `-o`: a page with Markdown and CSV beside it, unless said.

    A name that ends in .md or .csv asks for that alone. Raises UsageError for an unknown format.
    """
    by_suffix = _SUFFIXES.get(output.suffix.lower(), "html")
    words = [word.strip().lower() for word in formats.split(",") if word.strip()]
    for word in words:
        if word not in FORMATS:
            raise UsageError(
                f"--format: unknown format '{word}'{suggest(word, list(FORMATS))}",
                next_step=f"choose from: {', '.join(FORMATS)}",
            )
    chosen = [name for name in FORMATS if name in words] or (
        [by_suffix] if by_suffix != "html" else FORMATS
    )
    return tuple(
        ReportFile(
            path=output if name == by_suffix else output.with_suffix(f".{name}"), format=name
        )
        for name in chosen
    )


def check(targets: Sequence[ReportFile], output: Path, inputs: Sequence[Path]) -> None:
    """Refuse to replace samples, and what is beside `-o` and no report; raises UsageError."""
    read = {path.resolve() for path in inputs}
    for target in targets:
        place = target.path.resolve()
        # Beside the sessions of a study a report may stand, and not in the place of one.
        is_of_study = place.parent in read and place.suffix in {".json", ".jsonl"}
        if place in read or is_of_study:
            raise UsageError(
                "the report would overwrite its own samples",
                next_step="choose another name: -o report.html",
            )
        # Only the file of -o was named by the user.
        if target.path != output and target.path.exists() and not _is_ours(target):
            raise UsageError(
                f"{target.path} exists and is not a dlcontainer report",
                next_step="move the file away, choose another name with -o, or write the page "
                "alone: --format html",
            )


def _is_ours(target: ReportFile) -> bool:
    try:
        with target.path.open(encoding="utf-8", errors="replace", newline="") as file:
            first = file.readline(10_000)
    except OSError:
        return False
    if target.format == "md":
        return first.strip() == markdown_report.MARK
    if target.format == "csv":
        return tuple(next(csv.reader([first]), ())[: len(csv_report.FIRST)]) == csv_report.FIRST
    return first.strip().lower() == "<!doctype html>"


def write(
    targets: Sequence[ReportFile],
    settled: Page,
    sessions: Sequence[Series],
    templates: list[Path],
    findings: Sequence[InputFinding] = (),
) -> None:
    """Write each whole; raises BenchDataError where one can't be."""
    for target in targets:
        if target.format == "csv":
            with report_files.replacing(target.path) as file:
                csv_report.write(sessions, file, findings)
        elif target.format == "md":
            report_files.write(visible(markdown_report.page(settled)), target.path)
        else:
            report_files.write(visible(html_report.render(settled, templates)), target.path)
