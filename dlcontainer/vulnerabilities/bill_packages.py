"""The packages of a bill, as OSV names them: by ecosystem, release and source package."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from dlcontainer.image import bill_file, sbom
from dlcontainer.image.contents import TreeContents

_PURL = re.compile(r"pkg:([a-z]+)/(?:([^/@?#]+)/)?([^/@?#]+)@([^/@?#]+)(?:\?([^#]*))?")
# "gcc-12 (12.2.0-14)": the version stands there where the binary package has another.
_SOURCE = re.compile(r"([a-z0-9][a-z0-9+.-]*)(?: \(([^\s()]+)\))?")
_IN_DATABASES = tuple(f"pkg:{kind}/" for kind in ("conda", "deb", "pypi", "rpm"))
_DISTRIBUTIONS = {"debian": "Debian", "ubuntu": "Ubuntu"}
_RELEASE = re.compile(r"[0-9]+(\.[0-9]+)?")
# Python packages there belong to Debian's packages: Debian Python policy, "Module Path".
_OF_DEBIAN = "/usr/lib/python3/dist-packages"


@dataclass(frozen=True, kw_only=True, slots=True)
class BillPackage:
    """A package that records can name; `ecosystem` is PyPI, Debian:12, Ubuntu:22.04 …

    Of a distribution `name` and `version` are the source package's, and `binaries` what is
    installed of it.
    """

    ecosystem: str
    name: str
    version: str
    binaries: tuple[str, ...] = ()

    @property
    def base(self) -> str:
        """The ecosystem without its release."""
        return self.ecosystem.partition(":")[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedPackage:
    """A package as a bill lists it, of any kind; `source` of a distribution's, with its version."""

    kind: str
    name: str
    version: str
    source: str = ""
    source_version: str = ""
    # As its package URL names it, where that differs.
    url_name: str = ""

    def version_of(self, name: str) -> str | None:
        """Return the version under a name of the package or of its source; None for others."""
        if name == self.source != self.name:
            return self.source_version
        names = {self.name, self.url_name}
        if self.kind == "pypi":
            names, name = {sbom.pypi_name(spelling) for spelling in names}, sbom.pypi_name(name)
        return self.version if name in names else None


@dataclass(frozen=True, kw_only=True, slots=True)
class UncheckedPackages:
    """Packages that no record can be held against: of which kind, why, and their names."""

    kind: str
    why: str
    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class BillContents:
    """What a bill lists; `of_debian` counts Python packages that Debian's records decide."""

    packages: tuple[BillPackage, ...] = ()
    unchecked: tuple[UncheckedPackages, ...] = ()
    of_debian: int = 0


@dataclass(kw_only=True, slots=True)
class _Sorting:
    """Packages on their way: sources with their binaries, and why others can't be checked."""

    binaries: dict[tuple[str, str, str], set[str]] = field(default_factory=dict)
    unchecked: dict[tuple[str, str], set[str]] = field(default_factory=dict)

    def leave(self, kind: str, why: str, name: object) -> None:
        self.unchecked.setdefault((kind, why), set()).add(str(name)[:200])


def read(bill: str | bytes) -> BillContents:
    """Read a bill; raises ChecksFailedError for what is none."""
    work = _Sorting()
    components = bill_file.components(bill)
    has_deb = any(_purl(component).startswith("pkg:deb/") for component in components)
    of_debian = 0
    for component in components:
        if not isinstance(component, dict):
            work.leave("unknown", "no component of CycloneDX", component)
        elif has_deb and _is_debian_s(component):
            of_debian += 1
        else:
            _sort(component, work)
    return BillContents(
        packages=tuple(
            BillPackage(
                ecosystem=ecosystem, name=name, version=version, binaries=tuple(sorted(binaries))
            )
            for (ecosystem, name, version), binaries in sorted(work.binaries.items())
        ),
        unchecked=tuple(
            UncheckedPackages(kind=kind, why=why, names=tuple(sorted(names)))
            for (kind, why), names in sorted(work.unchecked.items())
        ),
        of_debian=of_debian,
    )


def listed(bill: str | bytes) -> Iterator[ListedPackage]:
    """Yield every package of a bill, also of kinds without records.

    Raises ChecksFailedError for what is none.
    """
    for component in bill_file.components(bill):
        if not isinstance(component, dict):
            continue
        match = _PURL.fullmatch(_purl(component))
        name, version = str(component.get("name", "")), str(component.get("version", ""))
        source = _SOURCE.fullmatch(_property(component, "source") or "")
        yield ListedPackage(
            kind=match[1] if match else "unknown",
            name=name,
            version=version,
            source=source[1] if source else "",
            source_version=(source[2] or version) if source else "",
            url_name=unquote(match[3]) if match else name,
        )


def named(ecosystem: str, name: str) -> str:
    """Write a package's name as it is compared in an ecosystem."""
    return sbom.pypi_name(name) if ecosystem == "PyPI" else name


def differences(bill: str | bytes, contents: TreeContents) -> Sequence[str]:
    """Name the packages that only the image's own databases have, or only the bill.

    Raises ChecksFailedError for what is no bill.
    """
    written = {
        (_purl(component), _property(component, "source") or "")
        for component in bill_file.components(bill)
        if _purl(component).startswith(_IN_DATABASES) and isinstance(component, dict)
    }
    present = {
        (
            sbom.purl(package, contents.distribution, contents.release),
            dict(package.details).get("source", ""),
        )
        for package in contents.packages
    }
    missing = (f"not in the bill: {_titled(*pair)}" for pair in sorted(present - written))
    return [
        *missing,
        *(f"not in the image: {_titled(*pair)}" for pair in sorted(written - present)),
    ]


def _titled(purl: str, source: str) -> str:
    return f"{purl} of {source}" if source else purl


def _sort(component: Mapping[str, Any], work: _Sorting) -> None:
    name = str(component.get("name", ""))
    match = _PURL.fullmatch(_purl(component))
    if match is None:
        work.leave("unknown", "no package URL with a version", name)
        return
    kind, space, quoted, version = (unquote(part or "") for part in match.groups()[:4])
    if version != component.get("version") or quoted.lower() not in _as_purl(name):
        work.leave(kind, "name or version is another in the package URL", name)
    elif kind == "pypi":
        work.binaries.setdefault(("PyPI", named("PyPI", quoted), version), set())
    elif kind == "deb":
        _sort_deb(component, space, _release(space, match[5] or ""), work)
    else:
        work.leave(kind, "no records of this kind are read", name)


def _sort_deb(component: Mapping[str, Any], space: str, release: str, work: _Sorting) -> None:
    name, version = str(component["name"]), str(component["version"])
    if space not in _DISTRIBUTIONS:
        work.leave(f"deb/{space}", "no records of this distribution are read", name)
    elif not _RELEASE.fullmatch(release):
        work.leave("deb", "the bill says no release of the distribution", name)
    else:
        source = _SOURCE.fullmatch(_property(component, "source") or name)
        if source is None:
            work.leave("deb", "its source package can't be read", name)
            return
        key = (f"{_DISTRIBUTIONS[space]}:{release}", source[1], source[2] or version)
        work.binaries.setdefault(key, set()).add(name)


def _purl(component: object) -> str:
    return str(component.get("purl", "")) if isinstance(component, dict) else ""


def _as_purl(name: object) -> Iterable[str]:
    return (str(name).lower(), sbom.pypi_name(str(name)))


def _release(space: str, qualifiers: str) -> str:
    pairs = dict(pair.partition("=")[::2] for pair in qualifiers.split("&"))
    return unquote(pairs.get("distro", "")).removeprefix(f"{space}-")


def _property(component: Mapping[str, Any], name: str) -> str | None:
    properties = component.get("properties")
    for pair in properties if isinstance(properties, list) else ():
        if isinstance(pair, dict) and pair.get("name") == f"{sbom.PROPERTY}.{name}":
            return str(pair.get("value", ""))
    return None


def _is_debian_s(component: Mapping[str, Any]) -> bool:
    evidence = component.get("evidence")
    places = evidence.get("occurrences") if isinstance(evidence, dict) else None
    if not _purl(component).startswith("pkg:pypi/") or not isinstance(places, list) or not places:
        return False
    return all(isinstance(place, dict) and place.get("location") == _OF_DEBIAN for place in places)
