"""The judge of mirrors: a mirror that lies, one that is whole, and faults that are ours."""

import hashlib
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import mirrors
from tests.fakeregistry import FakeRegistry, Reply, serving
from tests.mirrors import Suite, Verdict

INDEX = """\
Package: libc6
Priority: optional
Filename: pool/main/g/glibc/libc6_2.41-12+deb13u5_ppc64el.deb
Size: 9

Package: dpkg
Essential: yes
Pre-Depends: libc6 (>= 2.34), none | other
Filename: pool/main/d/dpkg/dpkg_1.22_ppc64el.deb
Size: 4

Package: python3
Depends: libc6:any
Filename: pool/main/p/python3_3.13_ppc64el.deb
Size: 5

Package: unwanted
Filename: pool/main/u/unwanted_1_ppc64el.deb
Size: 7
"""
LIBC = "pool/main/g/glibc/libc6_2.41-12+deb13u5_ppc64el.deb"
DPKG, PYTHON = "pool/main/d/dpkg/dpkg_1.22_ppc64el.deb", "pool/main/p/python3_3.13_ppc64el.deb"


@dataclass(frozen=True, kw_only=True, slots=True)
class Mirror:
    """A mirror on loopback: its index names four packages, three of which are in its pool."""

    fake: FakeRegistry
    suite: Suite

    def put(self, path: str, body: bytes) -> None:
        self.fake.replies[f"/debian/{path.replace('+', '%2B')}"] = Reply(body=body)
        self.fake.replies[f"/debian/{path}"] = Reply(body=body)

    def take(self, path: str) -> None:
        for name in (path, path.replace("+", "%2B")):
            self.fake.replies.pop(f"/debian/{name}", None)

    def said(self, *paths: str) -> str:
        """Say what apt says of packages that it could not fetch."""
        lines = ["Get:1 http://m trixie InRelease", "W: Failed to fetch http://m/x.deb  404"]
        for path in paths:
            url = f"{self.suite.uri}/{path.replace('+', '%2b')}"
            lines.append(f"E: Failed to fetch {url}  404  Not Found [IP: 192.0.2.1 80]")
        return "\n".join([*lines, "E: Unable to fetch some archives\n"])


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving() as fake:
        suite = Suite(
            uri=f"http://{fake.address}/debian", suite="trixie", component="main", arch="ppc64el"
        )
        one = Mirror(fake=fake, suite=suite)
        name, packed = "main/binary-ppc64el/Packages.xz", lzma.compress(INDEX.encode())
        release = f"SHA256:\n {hashlib.sha256(packed).hexdigest()} {len(packed)} {name}\n"
        one.put("dists/trixie/InRelease", release.encode())
        one.put(f"dists/trixie/{name}", packed)
        for path, size in ((LIBC, 9), (DPKG, 4), (PYTHON, 5)):
            one.put(path, b"x" * size)
        yield one


def test_a_mirror_that_lacks_what_its_index_names(mirror: Mirror) -> None:
    mirror.take(LIBC)
    verdict = mirrors.judge([mirror.suite], mirror.said(LIBC))
    assert verdict.mirror == (
        f"the mirror's index names what it does not hold: {mirror.suite.uri}/{LIBC} (404)"
    )
    assert not verdict.again
    assert verdict.mirror == mirrors.hole(mirror.suite, ["python3"])


def test_a_mirror_that_has_all(mirror: Mirror) -> None:
    assert mirrors.hole(mirror.suite, ["python3"]) == ""
    # Nobody knows why it failed: it is there, and may be asked for again.
    assert mirrors.judge([mirror.suite], mirror.said(LIBC)) == Verdict(again=True)


def test_a_file_of_another_size(mirror: Mirror) -> None:
    mirror.put(DPKG, b"<html>")
    expected = f"{mirror.suite.uri}/{DPKG} (6 bytes, named are 4)"
    assert mirrors.judge([mirror.suite], mirror.said(DPKG)).mirror.endswith(expected)


def test_a_list_that_is_not_the_release_s(mirror: Mirror) -> None:
    mirror.put("dists/trixie/main/binary-ppc64el/Packages.xz", lzma.compress(b""))
    assert "is not the one" in mirrors.judge([mirror.suite], mirror.said(LIBC)).mirror


@pytest.mark.parametrize(
    "path",
    [
        "pool/main/g/glibc/libc6_2.41-12+deb13u5_amd64.deb",
        "pool/main/n/nobody/names-it_1_ppc64el.deb",
        f"../debian/{LIBC}",
    ],
)
def test_what_no_index_names_is_our_fault(mirror: Mirror, path: str) -> None:
    mirror.take(LIBC)
    assert mirrors.judge([mirror.suite], mirror.said(path)) == Verdict()
    assert mirrors.judge([mirror.suite], mirror.said(LIBC, path)) == Verdict()


@pytest.mark.parametrize("said", ["", "E: mmdebstrap failed to run", "no space left on device"])
def test_another_failure_is_never_the_mirror_s(mirror: Mirror, said: str) -> None:
    mirror.take(LIBC)
    assert mirrors.judge([mirror.suite], said) == Verdict()


def test_an_architecture_that_the_suite_has_not_is_our_fault(mirror: Mirror) -> None:
    wrong = Suite(uri=mirror.suite.uri, suite="trixie", component="main", arch="ppc64le")
    mirror.take(LIBC)
    assert mirrors.judge([wrong], mirror.said(LIBC)) == Verdict()


def test_deb_lines(tmp_path: Path) -> None:
    lines = ["deb [signed-by=/k.gpg] http://m/debian/ trixie main contrib", "deb http://n x y"]
    assert mirrors.suites(lines, "arm64") == [
        Suite(uri="http://m/debian", suite="trixie", component="main", arch="arm64"),
        Suite(uri="http://m/debian", suite="trixie", component="contrib", arch="arm64"),
        Suite(uri="http://n", suite="x", component="y", arch="arm64"),
    ]
