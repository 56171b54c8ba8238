"""Compare: what differs between two images, as their own files say, and their records.

Two files that are not the same bytes never count as the same: something is always named.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dlcontainer.image.contents import Library, Package
from dlcontainer.inspection import listing, origins
from dlcontainer.inspection.bitwise import Outline
from dlcontainer.inspection.changes import Change, between
from dlcontainer.inspection.listing import FileChange
from dlcontainer.inspection.summary import Inspection


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """All that differs between two images; `sonames` is None where one does not tell.

    `identical`: the two files are the same, bit by bit.
    """

    identical: bool
    same_tree: bool
    facts: tuple[Change, ...]
    packages: tuple[Change, ...]
    folders: tuple[Change, ...]
    environment: tuple[Change, ...]
    labels: tuple[Change, ...]
    sonames: tuple[Change, ...] | None
    plan: tuple[Change, ...]
    provenance: tuple[Change, ...]
    record: tuple[Change, ...]
    parts: tuple[str, ...]
    files: tuple[FileChange, ...]
    notes: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Tell whether the files are the same, bit by bit."""
        return self.identical

    @property
    def is_rebuilt(self) -> bool:
        """Tell whether both offer the same to programs, and were built apart."""
        offered = (self.packages, self.folders, self.environment, self.labels, self.sonames)
        return not (self.identical or self.plan or any(offered))


def compare(one: Inspection, other: Inspection, bits: Outline) -> Comparison:
    """Compare two images; `bits` compares their files."""
    notes = [f"{seen.image.name}: {note}" for seen in (one, other) for note in seen.notes]
    sonames = None
    if one.libraries is not None and other.libraries is not None:
        sonames = between(_sonames(one.libraries), _sonames(other.libraries))
    else:
        silent = [seen.image.name for seen in (one, other) if seen.libraries is None]
        notes.append(f"no list of libraries in {', '.join(silent)}: sonames are not compared")
    alone = [seen.image.name for seen in (one, other) if seen.record is None]
    if alone:
        notes.append(f"no record beside {', '.join(alone)}: records are not compared")
    return Comparison(
        identical=bits.identical,
        same_tree=bits.same_tree,
        facts=between(_facts(one), _facts(other)),
        packages=_packages(one.contents.packages, other.contents.packages),
        folders=_sizes(one.contents.folders, other.contents.folders),
        environment=between(one.environment, other.environment),
        labels=between(one.labels, other.labels),
        sonames=sonames,
        plan=origins.plans(one, other),
        provenance=origins.provenances(one, other),
        record=origins.records(one, other),
        parts=bits.parts,
        files=listing.compare(one.entries, other.entries),
        notes=tuple(notes),
    )


def _facts(seen: Inspection) -> dict[str, str]:
    found = seen.contents
    digest = str((seen.manifest or {}).get("digest", ""))
    return {
        "architecture": seen.arch,
        "distribution": f"{found.distribution} {found.release}".strip(),
        "plan": digest[:12],
        "size": f"{seen.size / 1e6:.1f} MB",
        "unpacked": f"{found.size / 1e6:.1f} MB in {found.files} files",
    }


def _packages(one: Iterable[Package], other: Iterable[Package]) -> tuple[Change, ...]:
    before, after = _by_name(one), _by_name(other)
    found = []
    for name in sorted({*before, *after}):
        versions, size = before.get(name, ("", 0))
        later, later_size = after.get(name, ("", 0))
        if versions != later:
            found.append(
                Change(
                    name=name, before=versions, after=later, size_before=size, size_after=later_size
                )
            )
    return tuple(found)


def _by_name(packages: Iterable[Package]) -> dict[str, tuple[str, int]]:
    """Give all versions of each package, and what they take together."""
    found: dict[str, list[Package]] = {}
    for package in packages:
        found.setdefault(f"{package.kind}:{package.name.lower()}", []).append(package)
    return {
        name: (
            ", ".join(sorted({package.version for package in those})),
            sum(package.size or 0 for package in those),
        )
        for name, those in found.items()
    }


def _sizes(one: Mapping[str, int], other: Mapping[str, int]) -> tuple[Change, ...]:
    found = []
    for name in sorted({*one, *other}):
        before, after = one.get(name), other.get(name)
        if before != after:
            found.append(
                Change(
                    name=name,
                    before="" if before is None else str(before),
                    after="" if after is None else str(after),
                    size_before=before or 0,
                    size_after=after or 0,
                )
            )
    return tuple(sorted(found, key=lambda one: -abs(one.size_after - one.size_before)))


def _sonames(libraries: Iterable[Library]) -> dict[str, str]:
    """Give what each library needs, by its own name: another path is no other library."""
    found: dict[str, set[str]] = {}
    for library in libraries:
        name = library.soname or library.path.rpartition("/")[2]
        found.setdefault(name, set()).update(library.needed)
    return {name: " ".join(sorted(needed)) or "nothing" for name, needed in found.items()}
