"""Packages of Debian and its kin: dpkg's own database, one paragraph a package.

Source: manual page deb-control(5), dpkg(1) "package states".
"""

from collections.abc import Iterator

from dlcontainer.image.contents.model import InstalledPackage, size_of

STATUS = "/var/lib/dpkg/status"
# Images without dpkg itself ("distroless") have a file for each package here.
STATUS_FOLDER = "/var/lib/dpkg/status.d/"
_KIB = 1024


def wanted(path: str) -> bool:
    """Return whether a file of the tree belongs to the database."""
    if path.startswith(STATUS_FOLDER):
        return not path.endswith(".md5sums")
    return path == STATUS


def packages(text: str) -> Iterator[InstalledPackage]:
    """Yield the packages that a status file lists as installed."""
    for paragraph in text.split("\n\n"):
        fields = dict(_fields(paragraph))
        # "want ok state"; a file of its own says no state.
        state = fields.get("Status", "install ok installed").split()[-1:]
        if "Package" not in fields or "Version" not in fields or state != ["installed"]:
            continue
        size = size_of(fields.get("Installed-Size"))
        source = fields.get("Source", "")
        yield InstalledPackage(
            kind="deb",
            name=fields["Package"],
            version=fields["Version"],
            arch=fields.get("Architecture", ""),
            size=None if size is None else size * _KIB,
            details=(("source", source),) if source else (),
        )


def _fields(paragraph: str) -> Iterator[tuple[str, str]]:
    for line in paragraph.splitlines():
        name, colon, value = line.partition(":")
        if colon and not line[0].isspace():
            yield name, value.strip()
