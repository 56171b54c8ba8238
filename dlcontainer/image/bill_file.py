"""A bill of materials as a file: what it lists, and what of it is not free to pass on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dlcontainer.errors import ChecksFailedError
from dlcontainer.image import sbom, sif
from dlcontainer.image.licensing.redistribution import TermsFinding
from dlcontainer.system import foreign_files


def of_image(image: Path) -> bytes | None:
    """Return the bill in a SIF, or the one beside it; None without one.

    Raises ChecksFailedError for one that can't be read.
    """
    inside = [part for part in sif.parts(image) if part.kind == "sbom"]
    if inside:
        return sif.read(image, inside[0])
    path = image.with_suffix(sbom.SUFFIX)
    if not path.exists():
        return None
    try:
        return foreign_files.read(path, sbom.MOST_BYTES)
    except OSError as error:
        raise ChecksFailedError(
            f"can't read {path}: {error.strerror}", next_step="copy the image's files again"
        ) from None


def count(text: str | bytes) -> int:
    """Count the packages that a bill lists; raises ChecksFailedError for what is none."""
    return len(components(text))


def names(text: str | bytes) -> frozenset[str]:
    """Name the packages that a bill lists; raises ChecksFailedError for what is none."""
    return frozenset(
        str(component["name"])
        for component in components(text)
        if isinstance(component, dict) and "name" in component
    )


def restricted(text: str | bytes) -> list[TermsFinding] | None:
    """List the products of a bill that are not free to pass on; None where it can't tell.

    Bills of before 2026-11-27 can't. Raises ChecksFailedError for what is none.
    """
    body = _body(text)
    if f"{sbom.PROPERTY}.{sbom.TERMS_READ}" not in _stated(_part(body, "metadata", "component")):
        return None
    products: dict[tuple[str, str, str], list[str]] = {}
    for component in body["components"]:
        stated = _stated(component)
        key = tuple(stated.get(f"{sbom.PROPERTY}.{name}", "") for name in sbom.TERMS)
        if key[1] and key[1] != "free":
            name = f"{component.get('name', '')} {component.get('version', '')}".strip()
            products.setdefault((key[0], key[1], key[2]), []).append(name)
    return [
        TermsFinding(product=product, verdict=verdict, terms=terms, packages=tuple(names))
        for (product, verdict, terms), names in sorted(products.items())
    ]


def _part(body: object, *keys: str) -> object:
    for key in keys:
        body = body.get(key) if isinstance(body, dict) else None
    return body


def _stated(component: object) -> dict[str, str]:
    """Return a component's properties; what is none is passed over."""
    properties = _part(component, "properties")
    return {
        str(entry["name"]): str(entry["value"])
        for entry in (properties if isinstance(properties, list) else ())
        if isinstance(entry, dict) and {"name", "value"} <= entry.keys()
    }


def components(text: str | bytes) -> Sequence[object]:
    """List the packages of a bill, as it has them; raises ChecksFailedError for what is none."""
    return [
        component
        for component in _body(text)["components"]
        if not isinstance(component, dict) or component.get("type") != "file"
    ]


def _body(text: str | bytes) -> dict[str, Any]:
    """Read a bill: its components are a list."""
    try:
        body = foreign_files.loads(text)
        if body["bomFormat"] != "CycloneDX":
            raise ValueError("its bomFormat is not CycloneDX")
        if not isinstance(body["components"], list):
            raise TypeError("its components are not a list")
    except (ValueError, KeyError, TypeError) as error:
        raise ChecksFailedError(
            f"can't read the bill of materials: {error}", next_step="build the image again"
        ) from None
    return dict(body)
