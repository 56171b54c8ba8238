"""The bills of all releases of a tree: of those that are live, and of those that are kept."""

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.errors import DlcontainerError
from dlcontainer.image import sbom
from dlcontainer.publish.catalogue.facts import BILL
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.tree import contents, generation, layout, reading
from dlcontainer.publish.tree.layout import GENERATIONS, RELEASES
from dlcontainer.system import foreign_files, guarded_files
from dlcontainer.vulnerabilities import bill_packages
from dlcontainer.vulnerabilities.bill_packages import BillPackage, ListedPackage, UncheckedPackages


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseBill:
    """What a release's bill lists; `why` says what could not be read of it.

    `modules` are the NAME/VERSION under which it is live, or was published.
    """

    digest: str
    modules: tuple[str, ...]
    is_live: bool
    listed: tuple[ListedPackage, ...] = ()
    # Those that records can name.
    packages: tuple[BillPackage, ...] = ()
    unchecked: tuple[UncheckedPackages, ...] = ()
    why: str = ""


@reading.retried
def read(root: Path) -> tuple[ReleaseBill, ...]:
    """Read all bills, the live releases' first; takes no lock. Raises PublishError."""
    with reading.opened(root) as top:
        live: dict[str, list[str]] = {}
        number = layout.current(top)
        if number is not None:
            with top.sub(GENERATIONS) as generations:
                for entry in generation.read(generations, number).entries:
                    for release in entry.releases:
                        named = entry.named(release)
                        module = entry.module if release == entry.newest else named
                        live.setdefault(release.digest, []).append(module)
        if top.info(RELEASES) is None:
            return ()
        with top.sub(RELEASES) as releases:
            kept = sorted(set(guarded_files.names(releases.number)) - live.keys())
            bills = [
                *(_bill(releases, digest, modules) for digest, modules in live.items()),
                *(_bill(releases, digest, None) for digest in kept),
            ]
    return tuple(sorted(bills, key=lambda bill: (not bill.is_live, bill.modules)))


def _bill(releases: Folder, digest: str, modules: list[str] | None) -> ReleaseBill:
    titles = tuple(modules or [f"{RELEASES}/{digest}"])
    try:
        with releases.sub(digest) as release:
            if modules is None:
                description = contents.described(release)
                version, number = description.version, description.number
                name = generation.numbered(version, number) if number is not None else version
                titles = (f"{description.name}/{name}",)
            with release.open(BILL) as file:
                text = foreign_files.content(file, sbom.MOST_BYTES)
        checkable = bill_packages.read(text)
        return ReleaseBill(
            digest=digest,
            modules=titles,
            is_live=modules is not None,
            listed=tuple(bill_packages.listed(text)),
            packages=checkable.packages,
            unchecked=checkable.unchecked,
        )
    except FileNotFoundError:
        why = "it has no bill"
    except OSError as error:
        if error.errno == errno.ESTALE:
            raise  # read again: the release may be gone
        why = f"its bill can't be read: {error.strerror}"
    except DlcontainerError as error:
        why = error.what
    return ReleaseBill(digest=digest, modules=titles, is_live=modules is not None, why=why)


def packages_of(bills: tuple[ReleaseBill, ...]) -> Iterator[BillPackage]:
    """Yield what records can name in any of the bills, each once."""
    yield from dict.fromkeys(package for bill in bills for package in bill.packages)
