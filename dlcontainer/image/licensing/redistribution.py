"""What of an image may not be passed on without a look: vendors' libraries, and their terms."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dlcontainer.image.contents import InstalledPackage, TreeContents
from dlcontainer.image.licensing import spdx, vendor_terms
from dlcontainer.image.licensing.vendor_terms import VendorTerms

_CLOSED = re.compile(r"propriet|commercial|nvidia|eula|end.?user|all rights reserved", re.I)
_PYTHON_FOLDER = re.compile(r".*/(?:site|dist)-packages/([^/]+)/")
# Where the wheels of the table have their libraries.
_VENDORS_FOLDERS = ("nvidia", "cutensor", "cuquantum")
# Sections of Debian's and components of Ubuntu's archive.
_NOT_FREE = ("non-free", "restricted", "multiverse")


@dataclass(frozen=True, kw_only=True, slots=True)
class TermsFinding:
    """A product, the packages and files that hold it, and what its licence says."""

    product: str
    verdict: str
    terms: str
    packages: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    @property
    def holder(self) -> str:
        """Where the product is: its packages, its first file and the number of the rest."""
        more = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        return ", ".join((*self.packages, *(f"{path}{more}" for path in self.files[:1])))

    @property
    def text(self) -> str:
        """All of it in one line."""
        return f"{self.product} ({self.holder}), {self.verdict}: {self.terms}"


def of_package(package: InstalledPackage) -> VendorTerms | None:
    """Return the terms of a package; None where its licence is open, or nothing says otherwise.

    A text that was read counts more than what metadata say.
    """
    license_ = package.license
    terms = vendor_terms.of_package(package.kind, package.name)
    if terms is not None:
        return terms
    if license_ is not None and spdx.is_open(license_.expression):
        return None
    section = dict(package.details).get("section", "").partition("/")[0]
    texts = (license_.expression, *license_.names) if license_ else ()
    reason = section if section in _NOT_FREE else next(filter(_CLOSED.search, texts), "")
    if not reason:
        return None
    return VendorTerms(product=package.name, verdict="not decided", license=f'"{reason}"')


def unpackaged(contents: TreeContents) -> Mapping[str, VendorTerms]:
    """Return the files of vendors' products that the vendors' packages did not bring, by path.

    They are of products without a package, and copies in the folder of another Python package.
    """
    packaged = {terms.product for package in contents.packages if (terms := of_package(package))}
    files = {path: vendor_terms.of_file(path) for path in contents.vendor_files}
    return {
        path: terms
        for path, terms in files.items()
        if terms and (terms.product not in packaged or _is_copy(path))
    }


def _is_copy(path: str) -> bool:
    match = _PYTHON_FOLDER.match(path)
    return match is not None and match[1] not in _VENDORS_FOLDERS


def findings(contents: TreeContents) -> list[TermsFinding]:
    """List the products that are not free to pass on, in the order of their names."""
    products: dict[str, tuple[VendorTerms, list[str], list[str]]] = {}
    for terms, package, file in _places(contents):
        _, packages, files = products.setdefault(terms.product, (terms, [], []))
        packages += [package] if package else []
        files += [file] if file else []
    return [
        TermsFinding(
            product=product,
            verdict=terms.verdict,
            terms=terms.text,
            packages=tuple(packages),
            files=tuple(files),
        )
        for product, (terms, packages, files) in sorted(products.items())
        if terms.verdict != "free"
    ]


def _places(contents: TreeContents) -> Iterator[tuple[VendorTerms, str, str]]:
    for package in contents.packages:
        if terms := of_package(package):
            yield terms, f"{package.name} {package.version}", ""
    for path, terms in unpackaged(contents).items():
        yield terms, "", path
