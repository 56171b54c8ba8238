"""`dlcontainer inspect`: what is in an image, from its files; nothing of it runs."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dlcontainer.cli import options, output

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dlcontainer.inspection.summary import Inspection

_BIGGEST = 6


def inspect(
    image: Annotated[
        Path, typer.Argument(metavar="IMAGE", readable=False, help="An image file (.sif).")
    ],
    packages: Annotated[bool, typer.Option("--packages", help="List every package.")] = False,
    sbom: Annotated[
        bool, typer.Option("--sbom", help="Print the bill of materials inside (CycloneDX).")
    ] = False,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Show what is in an image and where it comes from."""
    from dlcontainer.cli.context import here
    from dlcontainer.inspection import summary

    world = here()
    console = output.Console(verbose=verbose, quiet=as_json)
    seen = summary.inspect(options.image_file(image), world.environ, console.runner(world.environ))
    if sbom:
        output.write(f"{output.printable(summary.require_sbom(seen)).rstrip()}\n")
    elif as_json:
        output.emit("inspect", _body(seen))
    elif packages:
        output.say(_packages(seen))
    else:
        for line in _lines(seen):
            output.say(line)


def _body(seen: "Inspection") -> dict[str, object]:
    body = asdict(replace(seen, entries=()))
    del body["entries"]  # as many as there are files
    body["image"] = str(seen.image)
    body["sbom"] = seen.sbom is not None
    return body


def _lines(seen: "Inspection") -> list[str]:
    found = seen.contents
    biggest = sorted(found.folders.items(), key=lambda one: -one[1])[:_BIGGEST]
    kinds: dict[str, int] = {}
    for package in found.packages:
        kinds[package.kind] = kinds.get(package.kind, 0) + 1
    counted = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    folders = ", ".join(f"{name} {size / 1e6:.0f}" for name, size in biggest)
    rows = [
        ("image", f"{seen.image.name}, {seen.size / 1e6:.1f} MB, {seen.arch}"),
        *_origin(seen),
        ("packages", counted or "none in a database that can be read"),
        ("unpacked", f"{found.size / 1e6:.0f} MB in {found.files} files; MB: {folders}"),
        ("sbom", _sbom(seen)),
        ("parts", ", ".join(f"{part.name or part.kind} {part.size}" for part in seen.parts)),
    ]
    if seen.libraries is not None:
        rows.append(("libraries", f"{len(seen.libraries)} that no package of the base brought"))
    lines = [output.table(rows)]
    lines += _named("environment", seen.environment)
    lines += _named("labels", seen.labels)
    lines += _steps(seen.record)
    if seen.notes:
        lines += ["notes", *(f"  {note}" for note in seen.notes)]
    return lines


def _origin(seen: "Inspection") -> list[tuple[str, str]]:
    if seen.manifest is None:
        return [("base", f"{seen.contents.distribution} {seen.contents.release}".strip() or "?")]
    content = seen.manifest.get("content", {})
    if "adopted" in content:
        return _adopted(seen, content)
    recipe = content.get("recipe", {})
    plan = f"{recipe.get('name')} {recipe.get('version')} for {content.get('site')}"
    rows = [("plan", f"{plan}, sha256:{seen.manifest.get('digest')}")]
    made: Mapping[str, Any] = seen.provenance or {}
    base = made.get("base") or {}
    digest = base.get("image") or f"sha256:{base.get('sha256')}"
    release = f"{seen.contents.distribution} {seen.contents.release}"
    rows.append(("base", f"{release}, {digest}" if base else release))
    if made:
        tools = [f"{name} {said}" for name, said in made["tools"].items() if said]
        rows.append(("made with", "; ".join(tools)))
        rows.append(("recipe", _checkout((made.get("recipe") or {}).get("git"))))
        if "pack" in made:
            rows.append(("pack", _pack(made["pack"])))
        rows += [("slim", f"{name}: {_removed(one)}") for name, one in made.get("slim", {}).items()]
    return rows


def _adopted(seen: "Inspection", content: "Mapping[str, Any]") -> list[tuple[str, str]]:
    told = content["adopted"]
    record = seen.record or {}
    known = record.get("trust") or {}
    # Trust holds for the bytes that it was given for.
    if known.get("sha256") != (record.get("image") or {}).get("sha256"):
        known = {}
    return [
        ("adopted", f"{told.get('name')} {told.get('version')} for {content.get('site')}"),
        ("source", str(told.get("source"))),
        ("recipe", "unknown"),
        ("trusted", f"by {known['by']}, {known['at']}" if known else "by nobody: runs contained"),
        ("base", f"{seen.contents.distribution} {seen.contents.release}".strip() or "?"),
    ]


def _checkout(git: "Mapping[str, Any] | None") -> str:
    if git is None:
        return "in no git checkout"
    return f"git {git['commit']}" + (", changed since" if git["dirty"] else "")


def _pack(pack: "Mapping[str, Any]") -> str:
    size = f"{pack['modules']} modules of {pack['folders']} folders, {pack['bytes'] / 1e6:.1f} MB"
    failed = ", ".join(sorted(pack["failed"]))
    return f"{size}, sha256:{pack['sha256']}" + (f"; not imported: {failed}" if failed else "")


def _removed(one: "Mapping[str, Any]") -> str:
    return f"{one['files']} files removed, {one['bytes'] / 1e6:.1f} MB unpacked"


def _sbom(seen: "Inspection") -> str:
    if seen.sbom is None:
        return "none"
    part = any(part.kind == "sbom" for part in seen.parts)
    where = "inside and as a part of the image" if part else "inside"
    return f"CycloneDX, {where}; --sbom prints it"


def _named(head: str, values: "Mapping[str, str]") -> list[str]:
    return [head, *(f"  {name}={value}" for name, value in sorted(values.items()))]


def _steps(record: "Mapping[str, Any] | None") -> list[str]:
    if record is None:
        return ["steps", "  no record beside the image"]
    rows = [
        (f"  {step['name']}", "kept" if step["seconds"] is None else f"{step['seconds']:.1f} s")
        for step in record.get("work", [])
    ]
    return ["steps", output.table(rows)]


def _packages(seen: "Inspection") -> str:
    rows = [
        (package.kind, package.name, package.version, package.arch, " ".join(package.places))
        for package in seen.contents.packages
    ]
    return output.table(rows, head=("kind", "name", "version", "arch", "in"))
