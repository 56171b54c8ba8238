"""What `dlcontainer build` says in the end: the image, the reasons, the commands of a dry run."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from dlcontainer.cli import build_refresh, output

if TYPE_CHECKING:
    from dlcontainer.build.build import BuiltImage
    from dlcontainer.build.context import BuildContext
    from dlcontainer.cli.build_refresh import RefreshRun
    from dlcontainer.planning.plan import Plan


def show(
    image: "BuiltImage",
    settled: "Plan",
    console: output.Console,
    run: "RefreshRun | None",
    *,
    as_json: bool,
) -> None:
    """Say what was built, or that it was there; of a refresh, what it changed."""
    outputs = image.places
    if as_json:
        output.emit(
            "build",
            {
                "image": str(outputs.image) if outputs.image else None,
                "name": image.name,
                "pushed": image.pushed,
                "record": str(outputs.record),
                "log": str(outputs.log),
                "sbom": str(outputs.sbom),
                "sha256": image.sha256,
                "size": image.size,
                "seconds": round(image.seconds, 1),
                "digest": settled.digest,
                "found": image.unchanged,
                "age": asdict(image.age),
                "refresh": build_refresh.facts(run, image) if run else None,
            },
        )
        return
    if run is not None:
        build_refresh.show(run, image, console)
    if image.unchanged:
        console.end(f"nothing changed: the image is there already, with {image.age.text}")
        for line in image.age.newer if run is None else ():
            console.note(line)
    else:
        console.end(f"done: {image.size / 1e6:.0f} MB, with {image.age.text}")
    output.copied(str(outputs.image or image.name))
    if image.pushed:
        output.copied(image.pushed)


def show_reasons(
    settled: "Plan", context: "BuildContext", tmpdir: Path | None, *, as_json: bool
) -> None:
    """Say which steps the next build takes from the cache, and why another is run."""
    from dlcontainer.build import dry_run, preflight

    scratch = preflight.choose_tmpdir(settled, context.execution.host, tmpdir)
    reasons = dry_run.reasons(settled, context, scratch)
    if as_json:
        body = [
            {
                "step": reason.step.name,
                "key": reason.step.key,
                "cached": reason.cached,
                "why": reason.why,
            }
            for reason in reasons
        ]
        output.emit("explain", {"digest": settled.digest, "steps": body})
        return
    rows = [
        (reason.step.name, "cache" if reason.cached else "run", reason.why) for reason in reasons
    ]
    output.say(output.table(rows, head=("step", "from", "why")))


def show_dry_run(
    settled: "Plan", context: "BuildContext", target: Path, tmpdir: Path | None, *, as_json: bool
) -> None:
    """Say which commands a build would run."""
    from dlcontainer.build import dry_run, preflight
    from dlcontainer.system.process import quote

    scratch = preflight.choose_tmpdir(settled, context.execution.host, tmpdir)
    commands = dry_run.planned_commands(settled, context, target, scratch)
    if as_json:
        output.emit(
            "dry-run",
            {
                "image": str(target / f"{settled.name}.sif"),
                "tmpdir": str(scratch),
                "digest": settled.digest,
                "commands": commands,
            },
        )
        return
    output.say(f"image   {target / f'{settled.name}.sif'}\ntmpdir  {scratch}")
    for command in commands:
        output.copied(f"$ {quote(command)}")
