"""`dlcontainer modules find`: which releases have a package, or are concerned by OSV records."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import options, output
from dlcontainer.cli.modules import tree_options
from dlcontainer.cli.modules.tree_options import Root
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dlcontainer.publish.catalogue.bills import ReleaseBill
    from dlcontainer.vulnerabilities.reading import DatabaseReading

# What a match says of a package, beside its release.
_KEYS = ("package", "version", "kind", "id", "remark")


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageMatch:
    """A package of a release that was looked for; `id` is the OSV record's that concerns it."""

    bill: "ReleaseBill"
    package: str
    version: str
    kind: str
    id: str = ""
    remark: str = ""

    @property
    def cells(self) -> dict[str, str]:
        """What it says of the package, by key."""
        return {key: getattr(self, key) for key in _KEYS}

    @property
    def body(self) -> dict[str, object]:
        """All that it says, for JSON."""
        bill = self.bill
        release = {"modules": list(bill.modules), "live": bill.is_live, "digest": bill.digest}
        return {**release, **self.cells}


def find(
    package: Annotated[
        str | None,
        typer.Argument(
            metavar="PACKAGE", help="A package of any kind, or a distribution's source package."
        ),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="VERSION", help="Only what is older than this."),
    ] = None,
    osv: Annotated[
        Path | None,
        typer.Option(
            "--osv",
            metavar="PATH",
            help="OSV record, or folder or zip of them: list what they concern.",
        ),
    ] = None,
    root: Root = None,
    site: options.OptionalSite = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Find a package in the bills of all releases, live and kept."""
    from dlcontainer.errors import ChecksFailedError
    from dlcontainer.publish.catalogue import bills

    _require_words(package, older_than, osv)
    where = tree_options.chosen(root, site, as_json=as_json, verbose=verbose)
    releases = bills.read(where.root)
    if not releases:
        # An empty answer would be taken for a good one.
        raise ChecksFailedError(
            f"{where.root} has no release: nothing can be said",
            next_step="name your published tree: --root DIR, or --site SITE",
        )
    unread = [f"{title}: {bill.why}" for bill in releases for title in bill.modules if bill.why]
    unchecked: list[str] = []
    if osv is None:
        matches = list(_having(releases, package or "", older_than))
    else:
        records = _records(osv, releases, where.console.phase)
        matches = list(_concerned(releases, records, package))
        unread += _unread(osv, records)
        unchecked = list(_unchecked(releases))
    if as_json:
        body = {"root": str(where.root), "releases": len(releases), "complete": not unread}
        listed = [match.body for match in matches]
        body |= {"matches": listed, "unread": unread, "not_checked": unchecked}
        output.emit("modules-find", body)
        raise typer.Exit(1 if unread else 0)
    _show(matches, releases, None if osv else package)
    for mark, lines in (("not checked", unchecked), ("FAILED", unread)):
        for line in lines:
            output.finding(mark, output.printable(line, one_line=True), width=11)
    if unread:
        raise ChecksFailedError(
            f"the answer is incomplete: {len(unread)} bills or records were not read",
            next_step="publish these images again with their bills, or renew the records",
        )


def _unread(path: Path, records: "DatabaseReading") -> "Iterator[str]":
    for record in records.unreadable:
        yield f"{record.name}: {record.why}"
    if records.unreadable_count > len(records.unreadable):
        yield f"{path}: {records.unreadable_count} records can't be read"
    if not records.records and not records.unreadable_count:
        yield f"{path}: it holds no record"


def _unchecked(releases: "Sequence[ReleaseBill]") -> "Iterator[str]":
    """Say of which kinds of packages no record is read, and in how many releases they are."""
    counts: dict[str, int] = {}
    for bill in releases:
        for kind in bill.unchecked:
            line = f"packages of kind {kind.kind}: {kind.why}"
            counts[line] = counts.get(line, 0) + 1
    for line, count in sorted(counts.items()):
        yield f"{line} (releases: {count})"


def _require_words(package: str | None, older_than: str | None, osv: Path | None) -> None:
    if package is None and osv is None:
        raise UsageError(
            "neither a package nor --osv is named",
            next_step="dlcontainer modules find PACKAGE, or: dlcontainer modules find --osv PATH",
        )
    if older_than is not None and (package is None or osv is not None):
        raise UsageError(
            "--older-than takes a PACKAGE, and no --osv",
            why="OSV records say which versions they mean",
            next_step="leave one of them out",
        )


def _having(
    releases: "Sequence[ReleaseBill]", name: str, older_than: str | None
) -> "Iterator[PackageMatch]":
    from dlcontainer.vulnerabilities import orders

    for bill in releases:
        for listed in bill.listed:
            # No distribution has names that differ by case alone.
            version = listed.version_of(name) or listed.version_of(name.lower())
            if version is None:
                continue
            older = older_than and orders.is_older(listed.kind, version, older_than)
            if older is False:
                continue
            remark = "not compared" if older_than and older is None else ""
            yield PackageMatch(
                bill=bill,
                package=listed.name,
                version=version,
                kind=listed.kind,
                remark=remark,
            )


def _records(
    path: Path, releases: "tuple[ReleaseBill, ...]", tell: "Callable[[str], None]"
) -> "DatabaseReading":
    from datetime import UTC, datetime

    from dlcontainer.publish.catalogue import bills
    from dlcontainer.vulnerabilities import reading

    return reading.read(path.absolute(), bills.packages_of(releases), datetime.now(UTC), tell)


def _concerned(
    releases: "Sequence[ReleaseBill]", records: "DatabaseReading", name: str | None
) -> "Iterator[PackageMatch]":
    from dlcontainer.vulnerabilities import bill_packages

    remarks = [
        *((hit.package, hit.record.id, _fix(hit.fixed)) for hit in records.hits),
        *(
            (undecided.package, undecided.record.id, f"not decided: {undecided.why}")
            for undecided in records.undecided
        ),
    ]
    for bill in releases:
        packages = set(bill.packages)
        for package, record, remark in remarks:
            names = {package.name, *package.binaries}
            is_meant = name is None or bill_packages.named(package.base, name) in names
            if package in packages and is_meant:
                yield PackageMatch(
                    bill=bill,
                    package=package.name,
                    version=package.version,
                    kind=package.ecosystem,
                    id=record,
                    remark=remark,
                )


def _fix(fixed: str | None) -> str:
    return f"fixed in {fixed}" if fixed else "no fix is known"


def _show(
    matches: "Sequence[PackageMatch]", releases: "Sequence[ReleaseBill]", name: str | None
) -> None:
    count = len(releases)
    if not matches:
        output.say(f"in none of {count} releases{_known(releases, name) if name else ''}")
        return
    keys = [key for key in _KEYS if any(match.cells[key] for match in matches)]
    table = [
        (
            ", ".join(match.bill.modules),
            "live" if match.bill.is_live else "kept",
            *(match.cells[key] for key in keys),
        )
        for match in matches
    ]
    output.say(output.table(table, head=("module", "state", *keys)))
    digests = {match.bill.digest for match in matches}
    output.say(f"in {len(digests)} of {count} releases")


def _known(releases: "Sequence[ReleaseBill]", name: str) -> str:
    """Say whether a package is there in other versions, or unknown: a name may be mistyped."""
    import difflib

    holding = sum(
        any(listed.version_of(name) or listed.version_of(name.lower()) for listed in bill.listed)
        for bill in releases
    )
    if holding:
        return f"; {holding} hold {name}, in versions that are not older"
    names = sorted({listed.name for bill in releases for listed in bill.listed})
    close = difflib.get_close_matches(name, names, n=3)
    return f"; no release has a package of that name{f': {_or(close)}?' if close else ''}"


def _or(names: "Sequence[str]") -> str:
    return " or ".join(names)
