"""`dlcontainer validate`: checks of an image, one line each; the exit code says all."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from dlcontainer.cli import options, output


def validate(
    image: Annotated[
        Path, typer.Argument(metavar="IMAGE", readable=False, help="An image file (.sif).")
    ],
    site: options.OptionalSite = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Check that an image is what its record says, keeps the host out, and works."""
    from dlcontainer.cli.context import here
    from dlcontainer.image import sif
    from dlcontainer.validate import validate as validating
    from dlcontainer.validate.inspected import Check, ValidateContext

    world = here()
    loaded = world.site(site).value if site else None
    sif.arch(image)  # what is no image at all needs no engine to say so
    console = output.Console(verbose=verbose, quiet=as_json)

    def show(check: Check) -> None:
        if not as_json:
            mark = "FAILED" if check.state == "failed" else check.state
            output.say(f"{mark:<6}  {check.name}: {check.detail}")

    context = ValidateContext(execution=world.execution(console), on_check=show)
    checks = validating.validate(image.absolute(), loaded, context)
    if as_json:
        ok = all(check.state != "failed" for check in checks)
        body = {"image": str(image), "ok": ok, "checks": [asdict(check) for check in checks]}
        output.emit("validate", body)
        raise typer.Exit(0 if ok else 1)
    validating.require_ok(checks)
    untried = sum(check.state == "not tried" for check in checks)
    more = f", {untried} not tried here" if untried else ""
    output.say(f"valid: {len(checks) - untried} checks{more}")
