"""`dlcontainer inspect`: what is in an image, from its files; nothing of it runs."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dlcontainer.cli import options, output

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dlcontainer.image.licensing.redistribution import TermsFinding
    from dlcontainer.inspection.summary import Inspection

_BIGGEST = 6


def inspect(
    image: Annotated[
        Path, typer.Argument(metavar="IMAGE", readable=False, help="An image file (.sif).")
    ],
    packages: Annotated[bool, typer.Option("--packages", help="List every package.")] = False,
    sbom: Annotated[
        bool, typer.Option("--sbom", help="Print the image's bill of materials (CycloneDX).")
    ] = False,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Show what is in an image and where it comes from."""
    from dlcontainer.cli.context import here
    from dlcontainer.inspection import summary

    world = here()
    console = output.Console(verbose=verbose, quiet=as_json)
    inspection = summary.inspect(
        options.image_file(image), world.environ, console.runner(world.environ)
    )
    if sbom:
        output.write(f"{output.printable(summary.require_sbom(inspection)).rstrip()}\n")
    elif as_json:
        output.emit("inspect", _body(inspection))
    elif packages:
        output.say(_packages(inspection))
    else:
        for line in _lines(inspection):
            output.say(line)


def _body(inspection: "Inspection") -> dict[str, object]:
    body = asdict(replace(inspection, entries=()))
    del body["entries"]  # as many as there are files
    body["image"] = str(inspection.image)
    body["sbom"] = inspection.sbom is not None
    body["redistribution"] = [asdict(finding) for finding in _terms(inspection)]
    return body


def _lines(inspection: "Inspection") -> list[str]:
    contents = inspection.contents
    biggest = sorted(contents.folders.items(), key=lambda folder_size: -folder_size[1])[:_BIGGEST]
    kinds: dict[str, int] = {}
    for package in contents.packages:
        kinds[package.kind] = kinds.get(package.kind, 0) + 1
    counted = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    folders = ", ".join(f"{name} {size / 1e6:.0f}" for name, size in biggest)
    rows = [
        ("image", f"{inspection.image.name}, {inspection.size / 1e6:.1f} MB, {inspection.arch}"),
        *_origin(inspection),
        ("packages", counted or "none in a database that can be read"),
        ("unpacked", f"{contents.size / 1e6:.0f} MB in {contents.files} files; MB: {folders}"),
        ("sbom", _sbom(inspection)),
        ("parts", ", ".join(f"{part.name or part.kind} {part.size}" for part in inspection.parts)),
    ]
    if inspection.libraries is not None:
        rows.append(
            ("libraries", f"{len(inspection.libraries)} that no package of the base brought")
        )
    lines = [output.table(rows)]
    lines += _named("environment", inspection.environment)
    lines += _named("labels", inspection.labels)
    lines += _steps(inspection.record)
    if terms := _terms(inspection):
        lines += ["not free to pass on", *(f"  {finding.text}" for finding in terms)]
    if inspection.notes:
        lines += ["notes", *(f"  {note}" for note in inspection.notes)]
    return lines


def _terms(inspection: "Inspection") -> "list[TermsFinding]":
    from dlcontainer.image.licensing import redistribution

    return redistribution.findings(inspection.contents)


def _origin(inspection: "Inspection") -> list[tuple[str, str]]:
    if inspection.manifest is None:
        return [
            (
                "base",
                f"{inspection.contents.distribution} {inspection.contents.release}".strip() or "?",
            )
        ]
    content = inspection.manifest.get("content", {})
    if "adopted" in content:
        return _adopted(inspection, content)
    if "extended" in content:
        return _extended(inspection, content)
    recipe = content.get("recipe", {})
    plan = f"{recipe.get('name')} {recipe.get('version')} for {content.get('site')}"
    rows = [("plan", f"{plan}, sha256:{inspection.manifest.get('digest')}")]
    provenance: Mapping[str, Any] = inspection.provenance or {}
    base = provenance.get("base") or {}
    digest = base.get("image") or f"sha256:{base.get('sha256')}"
    release = f"{inspection.contents.distribution} {inspection.contents.release}"
    rows.append(("base", f"{release}, {digest}" if base else release))
    if provenance:
        tools = [f"{name} {version}" for name, version in provenance["tools"].items() if version]
        rows.append(("made with", "; ".join(tools)))
        rows.append(("recipe", _checkout((provenance.get("recipe") or {}).get("git"))))
        if "pack" in provenance:
            rows.append(("pack", _pack(provenance["pack"])))
        rows += [
            ("slim", f"{name}: {_removed(removed)}")
            for name, removed in provenance.get("slim", {}).items()
        ]
    return rows


def _adopted(inspection: "Inspection", content: "Mapping[str, Any]") -> list[tuple[str, str]]:
    adoption = content["adopted"]
    return [
        ("adopted", f"{adoption.get('name')} {adoption.get('version')} for {content.get('site')}"),
        ("source", str(adoption.get("source"))),
        ("recipe", "unknown"),
        ("trusted", _trusted(inspection)),
        (
            "base",
            f"{inspection.contents.distribution} {inspection.contents.release}".strip() or "?",
        ),
    ]


def _extended(inspection: "Inspection", content: "Mapping[str, Any]") -> list[tuple[str, str]]:
    """Say what is the base's and what is the layer's."""
    extension = content["extended"]
    base, layer = extension.get("base") or {}, extension.get("layer") or {}
    written = (inspection.record or {}).get("base") or {}
    release = f"{inspection.contents.distribution} {inspection.contents.release}".strip()
    packages = [
        f"{wheel.get('name')}=={wheel.get('version')}" for wheel in layer.get("python_packages", ())
    ]
    plan = f"{extension.get('name')} {extension.get('version')} for {content.get('site')}"
    manifest = inspection.manifest or {}
    rows = [
        ("plan", f"{plan}, sha256:{manifest.get('digest')}"),
        ("base", f"{base.get('name')} {base.get('version')} ({release or '?'})"),
        ("  file", f"{written.get('path') or '?'}, sha256:{base.get('sha256')}"),
        ("  system", f"sha256:{base.get('tree_sha256')}"),
        ("  made by", f"dlcontainer, plan {base['digest']}" if base.get("digest") else "others"),
        ("layer", ", ".join(packages)),
        ("  asked for", ", ".join(map(str, layer.get("wishes", ())))),
    ]
    if not base.get("digest"):
        rows.append(("trusted", _trusted(inspection)))
    return rows


def _trusted(inspection: "Inspection") -> str:
    record = inspection.record or {}
    trust = record.get("trust") or {}
    # Trust holds for the bytes that it was given for.
    if not trust or trust.get("sha256") != (record.get("image") or {}).get("sha256"):
        return "by nobody: runs contained"
    return f"by {trust['by']}, {trust['at']}"


def _checkout(git: "Mapping[str, Any] | None") -> str:
    if git is None:
        return "in no git checkout"
    return f"git {git['commit']}" + (", changed since" if git["dirty"] else "")


def _pack(pack: "Mapping[str, Any]") -> str:
    size = f"{pack['modules']} modules of {pack['folders']} folders, {pack['bytes'] / 1e6:.1f} MB"
    failed = ", ".join(sorted(pack["failed"]))
    return f"{size}, sha256:{pack['sha256']}" + (f"; not imported: {failed}" if failed else "")


def _removed(removed: "Mapping[str, Any]") -> str:
    return f"{removed['files']} files removed, {removed['bytes'] / 1e6:.1f} MB unpacked"


def _sbom(inspection: "Inspection") -> str:
    if inspection.sbom is None:
        return "none"
    part = any(part.kind == "sbom" for part in inspection.parts)
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


def _packages(inspection: "Inspection") -> str:
    rows = [
        (package.kind, package.name, package.version, package.arch, " ".join(package.places))
        for package in inspection.contents.packages
    ]
    return output.table(rows, head=("kind", "name", "version", "arch", "in"))
