"""Compare: what differs between two images, as their own files say, and their records.

Two files that are not the same bytes never count as the same: something is always named.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dlcontainer.image.contents import InstalledPackage, Library
from dlcontainer.inspection import listing, origins
from dlcontainer.inspection.bitwise import Outline
from dlcontainer.inspection.changes import ImageChange, between
from dlcontainer.inspection.listing import FileChange
from dlcontainer.inspection.summary import Inspection


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """All that differs between two images; `sonames` is None where one does not tell.

    `identical`: the two files are the same, bit by bit.
    """

    identical: bool
    same_tree: bool
    facts: tuple[ImageChange, ...]
    packages: tuple[ImageChange, ...]
    folders: tuple[ImageChange, ...]
    environment: tuple[ImageChange, ...]
    labels: tuple[ImageChange, ...]
    sonames: tuple[ImageChange, ...] | None
    plan: tuple[ImageChange, ...]
    provenance: tuple[ImageChange, ...]
    record: tuple[ImageChange, ...]
    parts: tuple[str, ...]
    files: tuple[FileChange, ...]
    notes: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Return whether the files are the same, bit by bit."""
        return self.identical

    @property
    def is_rebuilt(self) -> bool:
        """Return whether both offer the same to programs, and were built apart."""
        offered = (self.packages, self.folders, self.environment, self.labels, self.sonames)
        return not (self.identical or self.plan or any(offered))


def compare(first: Inspection, second: Inspection, bits: Outline) -> Comparison:
    """Compare two images; `bits` compares their files."""
    notes = [
        f"{inspected.image.name}: {note}"
        for inspected in (first, second)
        for note in inspected.notes
    ]
    sonames = None
    if first.libraries is not None and second.libraries is not None:
        sonames = between(_sonames(first.libraries), _sonames(second.libraries))
    else:
        silent = [
            inspected.image.name for inspected in (first, second) if inspected.libraries is None
        ]
        notes.append(f"no list of libraries in {', '.join(silent)}: sonames are not compared")
    alone = [inspected.image.name for inspected in (first, second) if inspected.record is None]
    if alone:
        notes.append(f"no record beside {', '.join(alone)}: records are not compared")
    return Comparison(
        identical=bits.identical,
        same_tree=bits.same_tree,
        facts=between(_facts(first), _facts(second)),
        packages=packages(first.contents.packages, second.contents.packages),
        folders=_sizes(first.contents.folders, second.contents.folders),
        environment=between(first.environment, second.environment),
        labels=between(first.labels, second.labels),
        sonames=sonames,
        plan=origins.plans(first, second),
        provenance=origins.provenances(first, second),
        record=origins.records(first, second),
        parts=bits.parts,
        files=listing.compare(first.entries, second.entries),
        notes=tuple(notes),
    )


def _facts(inspected: Inspection) -> dict[str, str]:
    contents = inspected.contents
    digest = str((inspected.manifest or {}).get("digest", ""))
    return {
        "architecture": inspected.arch,
        "distribution": f"{contents.distribution} {contents.release}".strip(),
        "plan": digest[:12],
        "size": f"{inspected.size / 1e6:.1f} MB",
        "unpacked": f"{contents.size / 1e6:.1f} MB in {contents.files} files",
    }


def packages(
    first: Iterable[InstalledPackage], second: Iterable[InstalledPackage]
) -> tuple[ImageChange, ...]:
    """List the packages that differ in their versions, by name."""
    before, after = _by_name(first), _by_name(second)
    changes = []
    for name in sorted({*before, *after}):
        versions, size = before.get(name, ("", 0))
        later, later_size = after.get(name, ("", 0))
        if versions != later:
            changes.append(
                ImageChange(
                    name=name, before=versions, after=later, size_before=size, size_after=later_size
                )
            )
    return tuple(changes)


def _by_name(packages: Iterable[InstalledPackage]) -> dict[str, tuple[str, int]]:
    """Return all versions of each package, and what they take together."""
    by_name: dict[str, list[InstalledPackage]] = {}
    for package in packages:
        by_name.setdefault(f"{package.kind}:{package.name.lower()}", []).append(package)
    return {
        name: (
            ", ".join(sorted({package.version for package in those})),
            sum(package.size or 0 for package in those),
        )
        for name, those in by_name.items()
    }


def _sizes(first: Mapping[str, int], second: Mapping[str, int]) -> tuple[ImageChange, ...]:
    changes = []
    for name in sorted({*first, *second}):
        before, after = first.get(name), second.get(name)
        if before != after:
            changes.append(
                ImageChange(
                    name=name,
                    before="" if before is None else str(before),
                    after="" if after is None else str(after),
                    size_before=before or 0,
                    size_after=after or 0,
                )
            )
    return tuple(sorted(changes, key=lambda change: -abs(change.size_after - change.size_before)))


def _sonames(libraries: Iterable[Library]) -> dict[str, str]:
    """Return what each library needs, by its own name: another path is no other library."""
    by_soname: dict[str, set[str]] = {}
    for library in libraries:
        name = library.soname or library.path.rpartition("/")[2]
        by_soname.setdefault(name, set()).update(library.needed)
    return {name: " ".join(sorted(needed)) or "nothing" for name, needed in by_soname.items()}
