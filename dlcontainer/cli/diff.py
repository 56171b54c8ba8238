"""`dlcontainer diff`: what differs between two images; exit code 0 either way."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import options, output

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dlcontainer.inspection.bitwise import Bits
    from dlcontainer.inspection.changes import ImageChange
    from dlcontainer.inspection.compare import Comparison

_FEW = 12
_SAME_LISTING = (
    "the listing is the same; content of one size, the order of the files or their compression "
    "differs (--bits)"
)
_REBUILT = (
    "two images of one plan, built apart: packages, sizes, environment, labels and sonames are the "
    "same"
)
_WIDTH = 60


def diff(
    one: Annotated[
        Path, typer.Argument(metavar="IMAGE", readable=False, help="An image file (.sif).")
    ],
    other: Annotated[
        Path, typer.Argument(metavar="IMAGE", readable=False, help="Image to compare with.")
    ],
    bits: Annotated[
        bool,
        typer.Option(
            "--bits",
            help="Unpack both and compare them bit by bit; list the parts and files that differ.",
        ),
    ] = False,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Compare two images: packages, sizes, environment, and how they were built."""
    from dlcontainer.cli.context import here

    world = here()
    console = output.Console(verbose=verbose, quiet=as_json)
    runner = console.runner(world.environ)
    images = (options.image_file(one), options.image_file(other))
    named = {"images": [str(image) for image in images]}
    from dlcontainer.inspection import bitwise, compare, summary

    if bits:
        differing = bitwise.compare(*images, world.environ, runner)
        if as_json:
            output.emit("bits", {**named, **asdict(differing)})
        else:
            output.say(_bits_text(differing))
        return
    before, after = (summary.inspect(image, world.environ, runner) for image in images)
    comparison = compare.compare(before, after, bitwise.outline(*images))
    if as_json:
        output.emit("diff", {**named, "same": comparison.same, **asdict(comparison)})
        return
    output.say("\n".join(_lines(comparison)))


def _lines(comparison: "Comparison") -> list[str]:
    lines = ["the same, bit by bit"] if comparison.identical else []
    lines += [_REBUILT] if comparison.is_rebuilt else []
    lines += _group("image", comparison.facts)
    lines += _group("packages", comparison.packages, sized=True)
    lines += _group("folders (MB)", comparison.folders[:_FEW], megabytes=True)
    if len(comparison.folders) > _FEW:
        lines.append(f"  … and {len(comparison.folders) - _FEW} more (--json)")
    lines += _group("environment", comparison.environment)
    lines += _group("labels", comparison.labels)
    lines += _sonames(comparison.sonames or ())
    for head, changes in (
        ("plan", comparison.plan),
        ("provenance", comparison.provenance),
        ("record", comparison.record),
    ):
        lines += _group(head, changes[:_FEW])
        if len(changes) > _FEW:
            lines.append(f"  … and {len(changes) - _FEW} more (--json)")
    lines += _bytes(comparison)
    if comparison.notes:
        lines += ["notes", *(f"  {note}" for note in comparison.notes)]
    return lines


def _bytes(comparison: "Comparison") -> list[str]:
    """Return which parts of the files differ, and how many files of the trees, in what."""
    if comparison.identical:
        return []
    lines = [f"parts of the image file that differ: {', '.join(comparison.parts) or 'none'}"]
    rows = []
    for change in comparison.files:
        more = ", …" if change.count > len(change.examples) else ""
        rows.append([f"  {change.count}", change.how, f"{', '.join(change.examples)}{more}"])
    if rows:
        lines += ["files, by their listing (--bits reads each)", output.table(rows)]
    elif not comparison.same_tree:
        lines.append(f"files: {_SAME_LISTING}")
    return lines


def _group(
    head: str, changes: "Iterable[ImageChange]", *, sized: bool = False, megabytes: bool = False
) -> list[str]:
    rows = []
    for change in changes:
        row = [f"  {change.name}", change.how]
        if megabytes:
            row.append(f"{change.size_before / 1e6:.1f} -> {change.size_after / 1e6:.1f}")
        else:
            row.append(f"{_short(change.before) or '-'} -> {_short(change.after) or '-'}")
        if sized:
            row.append(f"{(change.size_after - change.size_before) / 1e6:+.1f} MB")
        rows.append(row)
    return [head, output.table(rows)] if rows else []


def _sonames(changes: "Iterable[ImageChange]") -> list[str]:
    lines = []
    for change in changes:
        before, after = set(change.before.split()), set(change.after.split())
        change_text = change.how
        if change_text == "changed":
            moved = [f"+{name}" for name in sorted(after - before)]
            moved += [f"-{name}" for name in sorted(before - after)]
            change_text = f"needs {' '.join(moved)}"
        lines.append(f"  {change.name}  {change_text}")
    return ["sonames", *lines] if lines else []


def _short(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}…"


def _bits_text(bits: "Bits") -> str:
    if bits.same:
        return "the same, bit by bit"
    lines = ["parts", *(f"  {part.path}  {', '.join(part.how)}" for part in bits.parts)]
    files = [f"  {file.path}  {', '.join(file.how)}" for file in bits.files]
    return "\n".join([*lines, f"files: {len(files)} differ", *files])
