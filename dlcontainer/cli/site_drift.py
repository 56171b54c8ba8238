"""`dlcontainer site drift`: what moved on a machine, and which published images it concerns."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import completion, options, output
from dlcontainer.cli.modules import tree_options
from dlcontainer.cli.modules.tree_options import Root
from dlcontainer.cli.site_detect import JobOutput
from dlcontainer.cli.site_new import Detected

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dlcontainer.detection.concerns import MoveConcerns
    from dlcontainer.detection.moves import DriftComparison
    from dlcontainer.detection.node_report import Detection
    from dlcontainer.detection.published_image import PublishedImage
    from dlcontainer.sites.site import Site


def drift(
    site: Annotated[
        str,
        typer.Argument(metavar="SITE", help=options.SITE_HELP, autocompletion=completion.sites),
    ],
    root: Root = None,
    detected: Detected = None,
    job_output: JobOutput = None,
    before: Annotated[
        Path | None,
        typer.Option(
            "--before",
            metavar="FILE",
            readable=False,
            help="An earlier output of `site detect -o`, for what a site file does not hold.",
        ),
    ] = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Show what moved since a site's file was written, and the published images it concerns.

    Exit code 0: nothing moved; 1: something did.
    """
    from dlcontainer.cli import site_detect
    from dlcontainer.cli.context import here
    from dlcontainer.detection import concerns, moves, node_report

    world, console = here(), output.Console(verbose=verbose, quiet=as_json)
    loaded = world.site(site).value
    detection = node_report.read(detected) if detected else site_detect.this_node(world, console)
    if job_output is not None:
        detection = site_detect.with_output(detection, job_output)
    earlier = node_report.read(before) if before else None
    images, apart = _published(tree_options.chosen(root, site).root, loaded)
    comparison = moves.between(loaded, detection, earlier)
    answers = concerns.of(comparison, images)
    if as_json:
        output.emit("site-drift", _body(loaded, detection, comparison, answers, images, apart))
    else:
        _tell(comparison, answers, images, apart, every=verbose)
    raise typer.Exit(1 if answers else 0)


def _published(root: Path, site: "Site") -> "tuple[tuple[PublishedImage, ...], dict[str, str]]":
    """Read the live images of a tree: those of the site, and why others are not judged."""
    from dataclasses import replace

    from dlcontainer.detection import published_image
    from dlcontainer.errors import ChecksFailedError
    from dlcontainer.image import record
    from dlcontainer.publish.tree import changes, layout

    images, apart = [], {}
    for live in changes.listing(root):
        module, folder = live.module, live.folder
        try:
            written = record.opened(folder / "record.json")
        except ChecksFailedError as error:
            apart[module] = error.what
            continue
        if written is None:
            apart[module] = "it has no record"
            continue
        image = published_image.of_record(module, written.body, written.record)
        if image.site != site.name:
            apart[module] = f"it was built for {image.site}"
        elif image.node_type not in (None, site.node_type):
            apart[module] = f"it was built for nodes of type {image.node_type}"
        else:
            unpacked, job = (folder / layout.UNPACKED).is_dir(), (folder / "job").is_dir()
            images.append(replace(image, is_unpacked=unpacked, has_job=job))
    return tuple(images), apart


def _body(
    site: "Site",
    detection: "Detection",
    comparison: "DriftComparison",
    answers: "Sequence[MoveConcerns]",
    images: "Sequence[PublishedImage]",
    apart: "Mapping[str, str]",
) -> dict[str, object]:
    listed = [
        {
            **{name: part for name, part in asdict(answer.move).items() if name != "content"},
            "images": [asdict(concern) for concern in answer.images],
        }
        for answer in answers
    ]
    return {
        "site": site.target,
        "detected": detection.taken,
        "moves": listed,
        "not_compared": [asdict(skipped) for skipped in comparison.skipped],
        "images": [{"module": image.module, "doubt": image.doubt} for image in images],
        "not_judged": [{"module": module, "why": why} for module, why in apart.items()],
    }


def _tell(
    comparison: "DriftComparison",
    answers: "Sequence[MoveConcerns]",
    images: "Sequence[PublishedImage]",
    apart: "Mapping[str, str]",
    *,
    every: bool,
) -> None:
    for answer in answers:
        move = answer.move
        output.title(f"{move.key}: {move.old} -> {move.new}")
        if every:
            output.say(f"  now: {move.how}; before: {move.old_in}")
        for concern in answer.images:
            output.finding(concern.grade, f"{concern.module}: {concern.why}")
        if not answer.images:
            output.say(f"  concerns none of {_count(len(images))}")
    concerned = {concern.module for answer in answers for concern in answer.images}
    moved = f"{len(answers)} facts moved" if len(answers) != 1 else "1 fact moved"
    skipped = len(comparison.skipped)
    left = f", {skipped} not compared" if skipped else ""
    output.say(f"\n{moved}{left}; concerned: {len(concerned)} of {_count(len(images))}")
    doubts = {image.module: image.doubt for image in images if image.doubt}
    for title, rows in (
        ("judged in part", doubts),
        ("not judged", apart),
        ("not compared", {skipped.key: skipped.why for skipped in comparison.skipped}),
    ):
        if rows:
            output.title(f"\n{title}")
            output.say(output.table(rows.items()))


def _count(number: int) -> str:
    return "1 published image" if number == 1 else f"{number} published images"
