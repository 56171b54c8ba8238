"""What the distributions that serve as a base are: facts with their sources."""

from dataclasses import dataclass
from typing import Literal

Manager = Literal["apt", "dnf", "yum", "zypper"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Distribution:
    """One release of a distribution: its Python, C library and GCC, and who makes its root tree."""

    name: str
    release: str
    python: str
    glibc: str
    gcc: str
    maker: str
    # The distribution's own image, where the base is to come of a registry (base.kind: oci).
    image: str


# Images: hub.docker.com/_/debian and hub.docker.com/_/ubuntu, "Supported tags". A slim one leaves
# out documentation, as our root trees do.
# Python: the version of the release's package `python3`; glibc: of its `libc6`; GCC: of its `gcc`.
# Sources: packages.debian.org and packages.ubuntu.com, the pages of these packages per release.
_KNOWN = (
    Distribution(
        name="debian",
        release="bookworm",
        python="3.11",
        glibc="2.36",
        gcc="12",
        maker="mmdebstrap",
        image="docker://debian:bookworm-slim",
    ),
    Distribution(
        name="debian",
        release="trixie",
        python="3.13",
        glibc="2.41",
        gcc="14",
        maker="mmdebstrap",
        image="docker://debian:trixie-slim",
    ),
    Distribution(
        name="ubuntu",
        release="jammy",
        python="3.10",
        glibc="2.35",
        gcc="11",
        maker="mmdebstrap",
        image="docker://ubuntu:jammy",
    ),
    Distribution(
        name="ubuntu",
        release="noble",
        python="3.12",
        glibc="2.39",
        gcc="13",
        maker="mmdebstrap",
        image="docker://ubuntu:noble",
    ),
)
DISTRIBUTIONS: dict[tuple[str, str], Distribution] = {(d.name, d.release): d for d in _KNOWN}

# Names as in ID of /etc/os-release.
MANAGERS: dict[str, Manager] = {
    "almalinux": "dnf",
    "centos": "dnf",
    "debian": "apt",
    "fedora": "dnf",
    "opensuse-leap": "zypper",
    "rhel": "dnf",
    "rocky": "dnf",
    "sles": "zypper",
    "ubuntu": "apt",
}


def manager_of(distribution: str, release: str) -> Manager:
    """Name a distribution's package manager; raises KeyError for one that is not known."""
    # Red Hat's releases before 8 have no dnf.
    if distribution in ("centos", "rhel") and release.split(".", maxsplit=1)[0] in ("6", "7"):
        return "yum"
    return MANAGERS[distribution]
