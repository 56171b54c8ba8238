"""What apt says of packages that a mirror does not hold, and what it says of other failures."""

import pytest

from dlcontainer.packages.apt import mirror_faults

URL = "http://user:secret@m.example/debian/pool/main/g/glibc/libc6_2.41-12%2bdeb13u5_ppc64el.deb"


@pytest.mark.parametrize(
    "said",
    [
        # As apt 2.6 said it on 2026-11-25, of trixie for ppc64el; the others as apt's own texts.
        "404  Not Found [IP: 203.0.113.80 80]",
        "410  Gone [IP: 203.0.113.80 80]",
        "File has unexpected size (720 != 1108). Mirror sync in progress? [IP: 203.0.113.80 80]",
        "Hash Sum mismatch",
    ],
)
def test_packages_that_are_not_there(said: str) -> None:
    lines = f"I: chroot\nE: Failed to fetch {URL}  {said}\nE: Unable to fetch some archives\n"
    assert mirror_faults.missing(lines) == (URL,)
    assert mirror_faults.missing(lines + lines) == (URL,)


@pytest.mark.parametrize(
    "said",
    [
        "",
        f"E: Failed to fetch {URL}  Could not resolve 'm.example'",
        f"E: Failed to fetch {URL}  407  Proxy Authentication Required",
        f"E: Failed to fetch {URL}  503  Service Unavailable [IP: 203.0.113.80 80]",
        f"W: Failed to fetch {URL}  404  Not Found",
        "E: Failed to fetch http://m.example/debian/dists/trixie/InRelease  404  Not Found",
        f"+ echo 'E: Failed to fetch {URL}  404'",
    ],
)
def test_other_failures_are_not_the_mirror_s(said: str) -> None:
    assert mirror_faults.missing(said) == ()


def test_how_they_are_named() -> None:
    urls = [URL, *(f"http://n.example/pool/p{number}_1_arm64.deb" for number in range(4))]
    assert mirror_faults.named(urls[:1]) == "libc6_2.41-12+deb13u5_ppc64el.deb"
    assert mirror_faults.named(urls).endswith("p0_1_arm64.deb, p1_1_arm64.deb and 2 more")
    assert mirror_faults.hosts(urls) == "m.example, n.example"
