"""Packages -> a software bill of materials: CycloneDX JSON. The same packages, the same bytes.

Formats: cyclonedx.org/docs/1.6/json; package URLs: github.com/package-url/purl-spec,
PURL-SPECIFICATION.rst and PURL-TYPES.rst. Written here rather than by cyclonedx-python-lib, which
brings six packages to every login node; the tests hold the result against the official schema.
"""

import datetime
import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from dlcontainer import __version__
from dlcontainer.image import dependency_graph, layout
from dlcontainer.image.contents import InstalledPackage, TreeContents
from dlcontainer.image.licensing import redistribution, spdx
from dlcontainer.image.licensing.package_license import PackageLicense
from dlcontainer.image.licensing.vendor_terms import READ_ON, VendorTerms

SUFFIX = layout.SBOM_SUFFIX
PROPERTY = "org.dlcontainer"
# Of a bill with all that a large image has.
MOST_BYTES = 64_000_000
# Of a component that is a vendor's product.
TERMS = ("product", "redistribution", "redistribution-terms")
TERMS_READ = "redistribution-read"
# Namespaces that the purl types document; another distribution's ID stands for itself.
_RPM_NAMESPACES = {"rhel": "redhat", "opensuse-leap": "opensuse", "sles": "suse"}
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class BillSubject:
    """The image that a bill is about; `moment` is SOURCE_DATE_EPOCH, s since 1970."""

    name: str
    version: str
    digest: str
    arch: str
    moment: int | None = None


def render(
    subject: BillSubject,
    contents: TreeContents,
    generated: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Write the bill of an image's contents; `generated`: path -> SHA-256 of files made by us."""
    root = f"image:{subject.name}@{subject.version}"
    components = [_component(package, contents) for package in contents.packages]
    components += [_generated(path, sha256) for path, sha256 in generated.items()]
    components += [_unpackaged(*file) for file in redistribution.unpackaged(contents).items()]
    components.sort(key=lambda component: str(component["bom-ref"]))
    metadata: dict[str, Any] = {
        "tools": {
            "components": [{"type": "application", "name": "dlcontainer", "version": __version__}]
        },
        "component": {
            "bom-ref": root,
            "type": "container",
            "name": subject.name,
            "version": subject.version,
            "properties": _properties(
                {
                    "digest": f"sha256:{subject.digest}",
                    "arch": subject.arch,
                    "distribution": f"{contents.distribution} {contents.release}".strip(),
                    TERMS_READ: READ_ON,
                }
            ),
        },
    }
    if subject.moment is not None:
        moment = datetime.datetime.fromtimestamp(subject.moment, datetime.UTC)
        metadata["timestamp"] = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    body: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": metadata,
        "components": components,
        "dependencies": _dependencies(root, components, contents, subject.arch),
        # What steps put in by hand is in no database.
        "compositions": [{"aggregate": "incomplete", "assemblies": [root]}],
    }
    content = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    number = uuid.uuid5(uuid.NAMESPACE_URL, f"sha256:{subject.digest}:{content}")
    body["serialNumber"] = f"urn:uuid:{number}"
    return json.dumps(body, indent=1, sort_keys=True) + "\n"


def with_hashes(
    contents: TreeContents,
    wheels: Iterable[Mapping[str, str]],
    debs: Mapping[tuple[str, str, str], str] = MappingProxyType({}),
) -> TreeContents:
    """Add the SHA-256 of the files that a build took: of wheels by name, version and sha256.

    `debs` are those of a lock: name, version, arch -> SHA-256.
    """
    digests = {(pypi_name(wheel["name"]), wheel["version"]): wheel["sha256"] for wheel in wheels}

    def hashed(package: InstalledPackage) -> InstalledPackage:
        match package.kind:
            case "pypi":
                sha256 = digests.get((pypi_name(package.name), package.version), "")
            case "deb":
                sha256 = debs.get((package.name, package.version, package.arch), "")
            case _:
                sha256 = ""
        is_known = _SHA256.fullmatch(sha256) is not None
        return replace(package, sha256=sha256, sha256_of="") if is_known else package

    return replace(contents, packages=tuple(map(hashed, contents.packages)))


def purl(package: InstalledPackage, distribution: str, release: str) -> str:
    """Return the package URL of a package of a distribution."""
    name, version = package.name, package.version
    details = dict(package.details)
    distro = "-".join(filter(None, (distribution, release)))
    match package.kind:
        case "deb":
            path = f"deb/{_quoted(distribution or 'debian')}/{_quoted(name.lower())}"
            qualifiers = {"arch": package.arch, "distro": distro}
        case "rpm":
            space = _RPM_NAMESPACES.get(distribution, distribution) or "rpm"
            path = f"rpm/{_quoted(space)}/{_quoted(name)}"
            epoch = details.get("epoch", "")
            qualifiers = {"arch": package.arch, "epoch": epoch, "distro": distro}
        case "pypi":
            path, qualifiers = f"pypi/{_quoted(pypi_name(name))}", {}
        case "conda":
            path, qualifiers = f"conda/{_quoted(name)}", details
    pairs = [f"{key}={_quoted(value)}" for key, value in sorted(qualifiers.items()) if value]
    return f"pkg:{path}@{_quoted(version)}" + (f"?{'&'.join(pairs)}" if pairs else "")


def _component(package: InstalledPackage, contents: TreeContents) -> dict[str, Any]:
    reference = purl(package, contents.distribution, contents.release)
    size = "" if package.size is None else str(package.size)
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": reference,
        "name": package.name,
        "version": package.version,
        "purl": reference,
    }
    is_hashed = _SHA256.fullmatch(package.sha256) is not None
    terms = redistribution.of_package(package)
    properties = _properties(
        {
            "installed-bytes": size,
            "part": package.part,
            "license-from": package.license.source if package.license else "",
            "sha256-of": (package.sha256_of or "the package's file") if is_hashed else "",
            **_terms(terms),
            **dict(package.details),
        }
    )
    if properties:
        component["properties"] = properties
    if is_hashed:
        component["hashes"] = [{"alg": "SHA-256", "content": package.sha256}]
    if package.license is not None:
        component["licenses"] = _licenses(package.license)
    if package.places:
        places: Sequence[Mapping[str, str]] = [{"location": place} for place in package.places]
        component["evidence"] = {"occurrences": places}
    return component


def _licenses(stated: PackageLicense) -> list[dict[str, Any]]:
    """Write a licence: names alone where none says how they combine."""
    kind = {"acknowledgement": "declared" if stated.is_declared else "concluded"}
    expression = stated.expression
    if expression in spdx.IDS.values():
        return [{"license": {"id": expression, **kind}}]
    if expression:
        return [{"expression": expression, **kind}]
    return [{"license": {"name": name, **kind}} for name in stated.names]


def _terms(terms: VendorTerms | None) -> dict[str, str]:
    if terms is None:
        return {}
    return dict(zip(TERMS, (terms.product, terms.verdict, terms.text), strict=True))


def _dependencies(
    root: str, components: Sequence[Mapping[str, Any]], contents: TreeContents, arch: str
) -> list[dict[str, Any]]:
    """Write who needs whom; a component whose needs nobody tells is below the image alone."""
    graph = {
        purl(package, contents.distribution, contents.release): sorted(
            {purl(target, contents.distribution, contents.release) for target in targets}
        )
        for package, targets in dependency_graph.needed(contents.packages, arch).items()
    }
    needs = {
        str(component["bom-ref"]): graph.get(component["bom-ref"], []) for component in components
    }
    below = {"ref": root, "dependsOn": sorted(dependency_graph.tops(needs))}
    return [below, *({"ref": ref, "dependsOn": graph[ref]} for ref in sorted(graph))]


def _unpackaged(path: str, terms: VendorTerms) -> dict[str, Any]:
    return {
        "type": "file",
        "bom-ref": f"file:{path}",
        "name": path,
        "properties": _properties(_terms(terms)),
    }


def _generated(path: str, sha256: str) -> dict[str, Any]:
    return {
        "type": "file",
        "bom-ref": f"file:{path}",
        "name": path,
        "hashes": [{"alg": "SHA-256", "content": sha256}],
    }


def _properties(properties: Mapping[str, str]) -> list[dict[str, str]]:
    return [
        {"name": f"{PROPERTY}.{name}", "value": value}
        for name, value in sorted(properties.items())
        if value
    ]


def pypi_name(name: str) -> str:
    """Write a Python package's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _quoted(text: str) -> str:
    return quote(text, safe=":~.-_")
