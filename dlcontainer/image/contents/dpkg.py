"""Packages of Debian and its kin: dpkg's own database, one paragraph a package.

Source: manual pages deb-control(5), deb-md5sums(5), dpkg(1) "package states".
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from dlcontainer.image.contents.following import LeavesError, follow
from dlcontainer.image.contents.model import InstalledPackage, size_of
from dlcontainer.image.licensing import debian_copyright
from dlcontainer.image.licensing.package_license import PackageLicense
from dlcontainer.system import digests

STATUS = "/var/lib/dpkg/status"
# Images without dpkg itself ("distroless") have a file for each package here.
STATUS_FOLDER = "/var/lib/dpkg/status.d/"
_INFO = "/var/lib/dpkg/info/"
_SUMS = ".md5sums"
_KIB = 1024


def wanted(path: str) -> bool:
    """Return whether a file of the tree belongs to the database, or states a package's licence."""
    is_sums = path.startswith(_INFO) and path.endswith(_SUMS)
    is_part = is_sums or path.startswith(STATUS_FOLDER)
    return is_part or path == STATUS or debian_copyright.wanted(path)


def packages(files: Mapping[str, Path], links: Mapping[str, str]) -> Iterator[InstalledPackage]:
    """Yield the packages that the status files list as installed.

    `files` are those of `wanted`, by path; `links` those of the tree's folder of documents.
    """
    for path, file in sorted(files.items()):
        if _is_status(path):
            text = file.read_text(encoding="utf-8", errors="replace")
            for paragraph in text.split("\n\n"):
                fields = dict(_fields(paragraph))
                # "want ok state"; a file of its own says no state.
                state = fields.get("Status", "install ok installed").split()[-1:]
                if "Package" in fields and "Version" in fields and state == ["installed"]:
                    yield _package(fields, files, links)


def _package(
    fields: Mapping[str, str], files: Mapping[str, Path], links: Mapping[str, str]
) -> InstalledPackage:
    name, arch = fields["Package"], fields.get("Architecture", "")
    size = size_of(fields.get("Installed-Size"))
    details = {key.lower(): fields[key] for key in ("Section", "Source") if fields.get(key)}
    needs = [fields.get(key, "") for key in ("Pre-Depends", "Depends")]
    sums = _sums(name, arch, files)
    return InstalledPackage(
        kind="deb",
        name=name,
        version=fields["Version"],
        arch=arch,
        size=None if size is None else size * _KIB,
        details=tuple(details.items()),
        sha256=digests.of_file(files[sums]) if sums else "",
        sha256_of=sums,
        license=_license(name, files, links),
        needs=tuple(need.strip() for text in needs for need in text.split(",") if need.strip()),
        provides=tuple(
            provided.split()[0]
            for provided in fields.get("Provides", "").split(",")
            if provided.strip()
        ),
    )


def _sums(name: str, arch: str, files: Mapping[str, Path]) -> str:
    """Return the list of a package's files with their sums, as its .deb brought it."""
    places = (f"{_INFO}{name}", f"{_INFO}{name}:{arch}", f"{STATUS_FOLDER}{name}")
    return next((f"{place}{_SUMS}" for place in places if f"{place}{_SUMS}" in files), "")


def _license(
    name: str, files: Mapping[str, Path], links: Mapping[str, str]
) -> PackageLicense | None:
    try:
        path = follow(debian_copyright.path_of(name), links).end
    except LeavesError:
        return None
    return debian_copyright.license_of(files[path], path) if path in files else None


def _is_status(path: str) -> bool:
    if path.startswith(STATUS_FOLDER):
        return not path.endswith(_SUMS)
    return path == STATUS


def _fields(paragraph: str) -> Iterator[tuple[str, str]]:
    for line in paragraph.splitlines():
        name, colon, value = line.partition(":")
        if colon and not line[0].isspace():
            yield name, value.strip()
