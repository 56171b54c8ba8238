"""The keys of another distribution's archive: of its own package, pinned, unpacked privately."""

from dataclasses import dataclass
from pathlib import Path

from dlcontainer.errors import BuildError
from dlcontainer.packages.apt import debs
from dlcontainer.system import digests


@dataclass(frozen=True, kw_only=True, slots=True)
class Archive:
    """A distribution's own archive: addresses by architecture, and the package with its keys.

    `sha256` is of the package at `package`; `keyring` is a path in it, and where a host has it.
    """

    x86: str
    non_x86: str
    components: tuple[str, ...]
    package: str
    sha256: str
    keyring: str


# Distribution -> its archive. Addresses: help.ubuntu.com/community/Repositories and
# wiki.ubuntu.com/ARM (ports). The package is jammy's (its tars are xz, which Python unpacks);
# its sum was computed of the file from there on 2026-11-22, and is the one in jammy's own list.
# noble's InRelease verifies by its key 871920D1991BC93C (gpgv).
ARCHIVES = {
    "ubuntu": Archive(
        x86="http://archive.ubuntu.com/ubuntu",
        non_x86="http://ports.ubuntu.com/ubuntu-ports",
        components=("main", "universe"),
        package="http://archive.ubuntu.com/ubuntu/pool/main/u/ubuntu-keyring/"
        "ubuntu-keyring_2021.03.26_all.deb",
        sha256="0d0e7ed6b112f5d03eabf3c7eb01ebdacf9c57714b279e90495cfc58c8c4520f",
        keyring="usr/share/keyrings/ubuntu-archive-keyring.gpg",
    )
}


def of_host(distribution: str, root: Path = Path("/")) -> Path | None:
    """Return the keyring of a distribution's archive where this host has it."""
    path = root / ARCHIVES[distribution].keyring
    return path if path.is_file() else None


def unpack(distribution: str, package: Path, keyring: Path) -> None:
    """Write the keyring of a fetched package; raises BuildError for another than the pinned one."""
    archive = ARCHIVES[distribution]
    fetched = digests.of_file(package)
    if fetched != archive.sha256:
        raise BuildError(
            f"wrong checksum: the archive keys of {distribution} differ from the pinned keys",
            where=archive.package,
            why=f"fetched {fetched[:12]}…, pinned {archive.sha256[:12]}…",
            next_step="use another mirror, and do not build from this one: it changes files",
        )
    keyring.write_bytes(debs.content(package, archive.keyring))
    keyring.chmod(0o644)
