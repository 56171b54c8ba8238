"""`dlcontainer scan`: known vulnerabilities of an image's packages, by records on disk."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import options, output

if TYPE_CHECKING:
    from collections.abc import Callable

    from dlcontainer.cli.context import CliContext
    from dlcontainer.publish.offered import PublishCandidate
    from dlcontainer.sites.site import Site
    from dlcontainer.vulnerabilities.findings import Doubt, Finding, ScanReport
    from dlcontainer.vulnerabilities.image_bill import ImageBill

# Of a state's name in a column.
_WIDTH = 11
_RULES = "Rules"


def scan(
    image: Annotated[
        Path,
        typer.Argument(
            metavar="IMAGE",
            readable=False,
            help="An image file (.sif); or a bill alone (.cdx.json), which is then believed.",
        ),
    ],
    site: options.OptionalSite = None,
    database: Annotated[
        Path | None,
        typer.Option(
            "--database",
            metavar="PATH",
            help="Folder or zip of OSV records. Default: the site's.",
            rich_help_panel=_RULES,
        ),
    ] = None,
    allowed: Annotated[
        Path | None,
        typer.Option(
            "--allowed",
            metavar="FILE",
            help="Allowed vulnerabilities, with reasons. Default: the site's.",
            rich_help_panel=_RULES,
        ),
    ] = None,
    max_age_days: Annotated[
        int | None,
        typer.Option(
            "--max-age-days",
            metavar="N",
            min=1,
            help="Age at which records count as not checked. Default: the site's, or 30.",
            rich_help_panel=_RULES,
        ),
    ] = None,
    sarif: Annotated[
        bool,
        typer.Option("--sarif", help="Print the findings as SARIF 2.1.0, for viewers."),
    ] = False,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Look for known vulnerabilities in an image's bill, by OSV records on disk."""
    from dlcontainer.cli.context import here
    from dlcontainer.errors import ChecksFailedError

    options.require_one_format(as_json=as_json, sarif=sarif)
    world, path = here(), options.image_file(image)
    rules = ScanWords(database=database, allowed=allowed, max_age_days=max_age_days)
    loaded = world.site(site).value if site else None
    console = output.Console(verbose=verbose, quiet=as_json or sarif)
    console.begin(f"read {image.name}")
    with console.beating():
        report = _scanned(_bill(path, world, console), rules.merged(loaded), console)
        console.rest()
    if as_json or sarif:
        _emit(image, report, sarif=sarif)
        raise typer.Exit(0 if report.state == "clean" else 1)
    _show(report)
    if report.state != "clean":
        raise ChecksFailedError(report.why_not_clean, next_step=_next_step(report))
    allowed_count = len(report.findings)
    output.say(
        f"clean: {report.packages} packages, nothing known; allowed: {allowed_count}"
        if allowed_count
        else f"clean: {report.packages} packages, nothing known"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ScanWords:
    """By what to judge, as the command line says; None is the site's."""

    database: Path | None = None
    allowed: Path | None = None
    max_age_days: int | None = None

    def merged(self, site: "Site | None") -> "ScanWords":
        """Return the words with the site's in the place of those that are missing."""
        rules = site.vulnerabilities if site else None
        if rules is None:
            return self
        return ScanWords(
            database=self.database or (Path(rules.database) if rules.database else None),
            allowed=self.allowed or (Path(rules.allowed) if rules.allowed else None),
            max_age_days=self.max_age_days or rules.max_age_days,
        )


def gate(
    name: str, site: "Site", world: "CliContext", console: output.Console
) -> "Callable[[PublishCandidate], None] | None":
    """Return what refuses an image with known vulnerabilities; None where no site asks for it."""
    if site.vulnerabilities.gate != "publish":
        return None

    def refuse(candidate: "PublishCandidate") -> None:
        from dlcontainer.errors import PublishError
        from dlcontainer.system.process import quote
        from dlcontainer.vulnerabilities import image_bill

        console.step(f"scan {candidate.path.name} for known vulnerabilities")
        runner = console.runner(world.environ)
        bill = image_bill.read(candidate.path, world.environ, runner, candidate.bill)
        report = _scanned(bill, ScanWords().merged(site), console)
        if report.state != "clean":
            command = quote(["dlcontainer", "scan", str(candidate.path), "--site", name])
            raise PublishError(
                f"{candidate.path.name} is not published: {report.why_not_clean}",
                why=f"the site {site.name} has vulnerabilities.gate: publish",
                next_step=f"see all: {command}\n        {_next_step(report)}",
            )

    return refuse


def _scanned(bill: "ImageBill", words: ScanWords, console: output.Console) -> "ScanReport":
    from datetime import UTC, datetime

    from dlcontainer.vulnerabilities import allowed, bill_packages
    from dlcontainer.vulnerabilities import scan as scanning
    from dlcontainer.vulnerabilities.rules import ScanRules

    rules = ScanRules(
        database=words.database.absolute() if words.database else None,
        now=datetime.now(UTC),
        max_age_days=words.max_age_days or 30,
        allowed=allowed.load(words.allowed) if words.allowed else None,
        tell=console.phase,
    )
    return scanning.scan(bill_packages.read(bill.text), rules, bill.unlike)


def _bill(path: Path, world: "CliContext", console: output.Console) -> "ImageBill":
    """Read a bill alone, or the one beside an image, else inside it."""
    from dlcontainer.errors import ChecksFailedError
    from dlcontainer.image import sbom
    from dlcontainer.system import foreign_files
    from dlcontainer.vulnerabilities import image_bill

    is_bill = path.name.endswith(sbom.SUFFIX)
    bill = path if is_bill else path.with_suffix(sbom.SUFFIX)
    text = None
    try:
        text = foreign_files.read(bill, sbom.MOST_BYTES)
    except OSError as error:
        if is_bill or not isinstance(error, FileNotFoundError):
            raise ChecksFailedError(f"can't read {bill}: {error.strerror}") from None
    if is_bill and text is not None:
        console.note("a bill alone is believed: no image was held against it")
        return image_bill.ImageBill(text=text, unlike=())
    return image_bill.read(path, world.environ, console.runner(world.environ), text)


def _emit(image: Path, report: "ScanReport", *, sarif: bool) -> None:
    from dlcontainer.vulnerabilities import scan_sarif

    if sarif:
        output.emit_of_standard(scan_sarif.log(image, report))
    else:
        output.emit("vulnerabilities", {"image": str(image), **_body(report)})


def _show(report: "ScanReport") -> None:
    if report.database is not None:
        output.copied(report.database.path, before=f"records: {report.database.records}, of ")
        for part in report.database.ecosystems:
            newest = f", newest of {part.newest:%Y-%m-%d}" if part.newest else ""
            output.say(f"  {part.ecosystem}: {part.records}{newest}")
    if report.of_debian:
        output.say(f"  Python packages of Debian's, which its records decide: {report.of_debian}")
    for finding in report.findings:
        _line("allowed" if finding.is_allowed else "FAILED", _said(finding), _then(finding))
    for doubt in report.doubts:
        allowed = f"; allowed: {doubt.entry.reason}" if doubt.entry and doubt.is_allowed else ""
        expired = f"; {_expired(doubt)}" if doubt.entry and not doubt.is_allowed else ""
        mark = "allowed" if doubt.is_allowed else "not checked"
        _line(mark, f"{doubt.what}: {doubt.why}{allowed}{expired}")
    for entry in report.unused:
        _line("unused", f"allowed entry {entry.title}: nothing needs it")


def _line(mark: str, text: str, then: str | None = None) -> None:
    # On one line each: records' texts may hold line breaks, and would forge findings.
    text, then = (output.printable(part, one_line=True) for part in (text, then or ""))
    output.finding(mark, text, width=_WIDTH, then=then or None)


def _said(finding: "Finding") -> str:
    first, *aliases = finding.ids
    package = finding.package
    also = f" ({', '.join(aliases)})" if aliases else ""
    binaries = f" ({', '.join(package.binaries)})" if package.binaries else ""
    parts = (
        f"{first}{also}: {package.name} {package.version}{binaries}, {package.ecosystem}",
        finding.summary[:200],
        *finding.severity,
    )
    return "; ".join(filter(None, parts))


def _then(finding: "Finding") -> str:
    fixed = f"fixed in {' or '.join(finding.fixed)}" if finding.fixed else "no fix is known"
    if finding.entry is None:
        return fixed
    if finding.is_allowed:
        return f"allowed until {finding.entry.expires}: {finding.entry.reason}; {fixed}"
    return f"{_expired(finding)}; {fixed}"


def _expired(judged: "Finding | Doubt") -> str:
    return f"allowed until {judged.entry.expires}, which is over" if judged.entry else ""


def _next_step(report: "ScanReport") -> str:
    if report.open:
        return (
            "build it again with fixed packages, or allow them with a reason and a last day "
            "(docs/centre/vulnerabilities.md)"
        )
    if report.database is None:
        return "name a database: --database FOLDER (docs/centre/vulnerabilities.md)"
    return "renew the database (docs/centre/vulnerabilities.md)"


def _body(report: "ScanReport") -> dict[str, object]:
    database = report.database
    return {
        "state": report.state,
        "ok": report.state == "clean",
        "packages": report.packages,
        "of_debian": report.of_debian,
        "database": None
        if database is None
        else {
            "path": database.path,
            "records": database.records,
            "unreadable": database.unreadable,
            "ecosystems": [
                {
                    "ecosystem": part.ecosystem,
                    "records": part.records,
                    "newest": part.newest.isoformat() if part.newest else None,
                }
                for part in database.ecosystems
            ],
        },
        "findings": [_as_json(finding) for finding in report.findings],
        "not_checked": [
            {
                "what": doubt.what,
                "why": doubt.why,
                "allowed": doubt.is_allowed,
                "reason": doubt.entry.reason if doubt.entry else None,
            }
            for doubt in report.doubts
        ],
        "unused": [entry.title for entry in report.unused],
    }


def _as_json(finding: "Finding") -> dict[str, object]:
    return {
        "ids": list(finding.ids),
        "ecosystem": finding.package.ecosystem,
        "package": finding.package.name,
        "version": finding.package.version,
        "binaries": list(finding.package.binaries),
        "fixed": list(finding.fixed),
        "severity": list(finding.severity),
        "summary": finding.summary,
        "allowed": finding.is_allowed,
        "reason": finding.entry.reason if finding.entry else None,
        "expires": finding.entry.expires if finding.entry else None,
    }
