"""`dlcontainer validate`: checks of an image, one line each; the exit code says all."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import options, output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dlcontainer.cli.context import CliContext
    from dlcontainer.image.checks_file import ValidationFile
    from dlcontainer.sites.site import Site
    from dlcontainer.validate.inspected import CheckResult
    from dlcontainer.validate.static.finding import StaticFinding


# Of a level's name in a column.
_WIDTH = 11

Static = Annotated[
    bool,
    typer.Option(
        "--static",
        help="Read the image's files alone, of any image: would it run at --site? Nothing runs.",
    ),
]

Sarif = Annotated[
    bool,
    typer.Option("--sarif", help="Print the findings of --static as SARIF 2.1.0, for viewers."),
]


def validate(
    image: Annotated[
        Path,
        typer.Argument(
            metavar="IMAGE",
            readable=False,
            help="An image file (.sif); with --static also an OCI archive or layout, or a tree.",
        ),
    ],
    site: options.OptionalSite = None,
    static: Static = False,
    sarif: Sarif = False,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Check that an image matches its record, is isolated from the host, and works."""
    from dlcontainer.cli.context import here
    from dlcontainer.errors import UsageError
    from dlcontainer.image import sif
    from dlcontainer.validate import validate as validating
    from dlcontainer.validate.inspected import ValidateContext

    world = here()
    if static:
        _static(world, image, site, as_json=as_json, sarif=sarif, verbose=verbose)
        return
    if sarif:
        raise UsageError("--sarif needs --static", next_step="add --static, or take --json")
    path = options.image_file(image)
    loaded = _site(world, site, path) if site else None
    sif.arch(image)  # what is no image at all needs no engine to say so
    console = output.Console(verbose=verbose, quiet=as_json)

    def show(check: "CheckResult") -> None:
        if not as_json:
            console.rest()
            mark = "FAILED" if check.state == "failed" else check.state
            then = check.next_step or None
            output.finding(mark, f"{check.name}: {check.detail}", then=then)

    context = ValidateContext(
        execution=world.execution(console), on_check=show, on_begin=console.phase
    )
    console.begin(f"check {image.name}")
    with console.beating():
        checks = validating.validate(path, loaded, context)
    if as_json:
        report = _report(image, loaded, checks)
        output.emit("validate", report.body)
        raise typer.Exit(0 if report.ok else 1)
    validating.require_ok(checks)
    untried = sum(check.state == "not tried" for check in checks)
    more = f", {untried} not tried here" if untried else ""
    output.say(f"valid: {len(checks) - untried} checks{more}")


def _report(image: Path, site: "Site | None", checks: "Sequence[CheckResult]") -> "ValidationFile":
    from datetime import UTC, datetime

    from dlcontainer.image import checks_file, record
    from dlcontainer.planning import built_for

    ok = all(check.state != "failed" for check in checks)
    written = record.read(record.beside(image)) if ok else None
    return checks_file.ValidationFile(
        image=str(image),
        ok=ok,
        date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        plan=written.digest if written else None,
        sha256=written.image.sha256 if written else None,
        site=built_for.named(site) if site else None,
        checks=tuple(check.record for check in checks),
    )


def _site(world: "CliContext", site_name: str, image: Path) -> "Site":
    """Load a site: in the epoch and on the kind of node that the image was built for, if it was
    built for this site and no other is named.
    """
    from dlcontainer.errors import ConfigError
    from dlcontainer.image import record
    from dlcontainer.planning import built_for
    from dlcontainer.sites.site import USUAL, read_target

    name, target = read_target(site_name)
    loaded = world.site(site_name).value
    written = record.read(record.beside(image))
    if target != USUAL or written is None or written.content.site != loaded.name:
        return loaded
    try:
        return world.site(name, built_for.target(written.content)).value
    except ConfigError:
        return loaded  # it has no such epoch or node type any more, which the check then says


def _static(
    world: "CliContext",
    image: Path,
    site_name: str | None,
    *,
    as_json: bool,
    sarif: bool,
    verbose: bool,
) -> None:
    from dlcontainer.errors import UsageError
    from dlcontainer.validate.static import static

    options.require_one_format(as_json=as_json, sarif=sarif)
    if site_name is None:
        raise UsageError(
            "--static needs a site", next_step=f"dlcontainer validate {image} --static --site SITE"
        )
    path = image.absolute()
    site = _site(world, site_name, path)
    console = output.Console(verbose=verbose, quiet=as_json or sarif)
    console.begin(f"read {image.name}")
    with console.beating():
        findings = static.validate(
            path, site, world.environ, console.runner(world.environ), console.phase
        )
        console.rest()
    if as_json or sarif:
        _emit(image, site, findings, sarif=sarif)
        raise typer.Exit(1 if any(finding.level == "error" for finding in findings) else 0)
    for finding in findings:
        # On one line each: an image's names may hold line breaks, and would forge findings.
        text, then = (
            output.printable(part, one_line=True)
            for part in (f"{finding.rule}: {finding.what}; {finding.why}", finding.fix)
        )
        output.finding(finding.level, text, width=_WIDTH, then=then or None)
    static.require_ok(findings)
    output.say(f"may run there: {static.counted(findings)}; nothing of it ran")


def _emit(image: Path, site: "Site", findings: "Sequence[StaticFinding]", *, sarif: bool) -> None:
    from dlcontainer.planning import built_for
    from dlcontainer.validate.static import sarif as logs

    if sarif:
        output.emit_of_standard(logs.log(image, findings))
        return
    body = {
        "image": str(image),
        "site": built_for.named(site),
        "ok": all(finding.level != "error" for finding in findings),
        "findings": [asdict(finding) for finding in findings],
    }
    output.emit("validate-static", body)
