"""`dlcontainer doctor`: what this user can build and run with here, and how to fix the rest."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import options, output
from dlcontainer.engines.engine import EngineKind

if TYPE_CHECKING:
    from dlcontainer.doctor.finding import DoctorFinding

# The schema's first version has these words; they stay.
_IN_JSON = {"ok": "ok", "warning": "poor", "error": "bad"}


def doctor(
    engine: Annotated[
        EngineKind,
        typer.Option("--engine", help="Engine to check; the others are skipped."),
    ] = "apptainer",
    site: options.OptionalSite = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Check whether this host can build and run images; show how to fix each problem."""
    from dlcontainer.cli.context import here
    from dlcontainer.doctor import checks as examining
    from dlcontainer.errors import ChecksFailedError

    world = here()
    console = output.Console(verbose=verbose, quiet=as_json)
    runner = console.runner(world.environ)
    chosen_site = world.site(site).value if site else None
    scope = examining.DoctorScope(engine=engine, site=chosen_site, note=world.note)
    findings = examining.examine(world.host, runner, world.cache, scope)
    fit = examining.is_fit(findings)
    if as_json:
        listed = [asdict(finding) | {"state": _IN_JSON[finding.state]} for finding in findings]
        output.emit("doctor", {"ok": fit, "findings": listed})
        raise typer.Exit(0 if fit else 1)
    for finding in findings:
        line = f"{finding.name}: {finding.detail}"
        output.finding(finding.state, line, width=7, then=finding.mend)
        if verbose and finding.said:
            output.say(f"         output: {finding.said}")
    if not fit:
        bad = ", ".join(finding.name for finding in findings if finding.state == "error")
        raise ChecksFailedError(f"can't build or run images here: {bad}")
    output.say(f"this host can build and run images{_limits(findings)}")


def _limits(findings: list["DoctorFinding"]) -> str:
    """Return what the last line can't promise."""
    without = any(finding.name == "base" and finding.state != "ok" for finding in findings)
    return ", but can't make a distribution's base: see 'base'" if without else ""
