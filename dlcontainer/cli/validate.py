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
    from datetime import UTC, datetime

    from dlcontainer.cli.context import here
    from dlcontainer.image import record, sif
    from dlcontainer.proof import judge
    from dlcontainer.validate import validate as validating
    from dlcontainer.validate.inspected import Check, ValidateContext

    world = here()
    path = options.image_file(image)
    loaded = world.site(site).value if site else None
    sif.arch(image)  # what is no image at all needs no engine to say so
    console = output.Console(verbose=verbose, quiet=as_json)

    def show(check: Check) -> None:
        if not as_json:
            console.rest()
            mark = "FAILED" if check.state == "failed" else check.state
            output.finding(mark, f"{check.name}: {check.detail}")

    context = ValidateContext(execution=world.execution(console), on_check=show)
    console.begin(f"check {image.name}")
    with console.beating():
        checks = validating.validate(path, loaded, context)
    if as_json:
        ok = all(check.state != "failed" for check in checks)
        written = record.read(record.beside(image)) if ok else None
        body = {
            "image": str(image),
            "ok": ok,
            "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "plan": written.digest if written else None,
            "sha256": written.image.sha256 if written else None,
            "site": judge.named(loaded) if loaded else None,
            "checks": [asdict(check) for check in checks],
        }
        output.emit("validate", body)
        raise typer.Exit(0 if ok else 1)
    validating.require_ok(checks)
    untried = sum(check.state == "not tried" for check in checks)
    more = f", {untried} not tried here" if untried else ""
    output.say(f"valid: {len(checks) - untried} checks{more}")
