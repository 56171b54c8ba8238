"""`dlcontainer doctor`: what this user can build and run with here, and how to mend the rest."""

from dataclasses import asdict

import typer

from dlcontainer.cli import options, output


def doctor(as_json: options.Json = False, verbose: options.Verbose = False) -> None:
    """Try what building and running needs here; say why, and what to type to mend it."""
    from dlcontainer.cli.context import here
    from dlcontainer.doctor import checks as examining
    from dlcontainer.errors import ChecksFailedError

    world = here()
    console = output.Console(verbose=verbose, quiet=as_json)
    findings = examining.examine(world.host, console.runner(world.environ), world.cache)
    fit = examining.is_fit(findings)
    if as_json:
        output.emit("doctor", {"ok": fit, "findings": [asdict(finding) for finding in findings]})
        raise typer.Exit(0 if fit else 1)
    for finding in findings:
        line = f"{finding.name}: {finding.detail}"
        output.finding(finding.state, line, width=4, then=finding.mend)
    if not fit:
        bad = ", ".join(finding.name for finding in findings if finding.state == "bad")
        raise ChecksFailedError(f"images can't be built and run here: {bad}")
    output.say("images can be built and run here")
