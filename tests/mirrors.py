"""A mirror's fault told from ours, by asking the mirror itself for the files that its index names.

Nothing here is the product's code: what is judged must not be the judge.
"""

import hashlib
import lzma
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import requests

_PATIENCE_S = 120.0
_FAILED = re.compile(r"^E: Failed to fetch (\S+\.deb)\s", re.MULTILINE)
_GONE = (404, 410)
# An answer that comes from a cache before the mirror says nothing of the mirror.
_FRESH = {"Cache-Control": "no-cache", "Accept-Encoding": "identity"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Suite:
    """A component of a suite at a mirror, as a line of a sources.list names it."""

    uri: str
    suite: str
    component: str
    arch: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Package:
    """A package of an index: where its file is, and what it needs."""

    url: str
    size: int
    needs: tuple[str, ...]
    is_required: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """Whose fault it is that packages did not come: `mirror` says what the mirror lacks.

    `again`: all of them are there now. Neither: it is ours, or nobody can tell.
    """

    mirror: str = ""
    again: bool = False


def suites(lines: Iterable[str], arch: str) -> list[Suite]:
    """Read deb lines."""
    found = []
    for line in lines:
        words = [word for word in line.split() if not word.startswith("[")]
        _, uri, suite, *components = words
        found += [
            Suite(uri=uri.rstrip("/"), suite=suite, component=component, arch=arch)
            for component in components
        ]
    return found


def judge(asked: Sequence[Suite], said: str) -> Verdict:
    """Say whose fault it is that apt could not fetch what it says that it could not."""
    urls = sorted({unquote(url) for url in _FAILED.findall(said)})
    if not urls:
        return Verdict()
    named: dict[str, Package] = {}
    for suite in asked:
        packages, fault = index(suite)
        if fault:
            return Verdict(mirror=fault)
        named |= {package.url: package for package in packages.values()}
    if not set(urls) <= named.keys():
        return Verdict()  # we asked for what no index names
    lacking = holes(named[url] for url in urls)
    return Verdict(mirror=_said(lacking), again=not lacking)


def hole(suite: Suite, roots: Iterable[str]) -> str:
    """Say what a mirror lacks of a minimal tree with some packages; empty: nothing."""
    packages, fault = index(suite)
    if fault:
        return fault
    wanted = [*roots, *(name for name, package in packages.items() if package.is_required)]
    needed: dict[str, Package] = {}
    while wanted:
        name = wanted.pop()
        if name in packages and name not in needed:
            needed[name] = packages[name]
            wanted += packages[name].needs
    return _said(holes(needed.values()))


def holes(packages: Iterable[Package]) -> list[str]:
    """Name the packages that their mirror answers with "not found", or in another size."""
    found = []
    with requests.Session() as session:
        for package in packages:
            answer = session.head(
                package.url, headers=_FRESH, timeout=_PATIENCE_S, allow_redirects=True
            )
            if answer.status_code in _GONE:
                found.append(f"{package.url} ({answer.status_code})")
                continue
            answer.raise_for_status()
            size = answer.headers.get("Content-Length", "")
            if size.isdigit() and int(size) != package.size:
                found.append(f"{package.url} ({size} bytes, named are {package.size})")
    return found


def index(suite: Suite) -> tuple[Mapping[str, Package], str]:
    """Give the packages of a suite, or say what is wrong with the list of them."""
    folder = f"{suite.uri}/dists/{suite.suite}"
    name = f"{suite.component}/binary-{suite.arch}/Packages.xz"
    release = _get(f"{folder}/InRelease").decode(errors="replace")
    listed = re.search(rf"^ ([0-9a-f]{{64}}) +(\d+) {re.escape(name)}$", release, re.MULTILINE)
    if listed is None:
        return {}, ""  # it does not have this architecture, and does not say so
    packed = _get(f"{folder}/{name}")
    if hashlib.sha256(packed).hexdigest() != listed[1]:
        return {}, f"{folder}/{name} is not the one that its InRelease names"
    text = lzma.decompress(packed).decode()
    return dict(_package(suite.uri, stanza) for stanza in text.split("\n\n") if stanza.strip()), ""


def _package(uri: str, stanza: str) -> tuple[str, Package]:
    fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", stanza, re.MULTILINE))
    needs = ",".join(fields.get(name, "") for name in ("Pre-Depends", "Depends"))
    # Of alternatives the first, as apt takes it.
    names = [part.split("|")[0].split("(")[0].split(":")[0].strip() for part in needs.split(",")]
    return fields["Package"], Package(
        url=f"{uri}/{fields['Filename']}",
        size=int(fields["Size"]),
        needs=tuple(filter(None, names)),
        is_required=fields.get("Essential") == "yes" or fields.get("Priority") == "required",
    )


def _get(url: str) -> bytes:
    answer = requests.get(url, headers=_FRESH, timeout=_PATIENCE_S)
    answer.raise_for_status()
    return answer.content


def _said(lacking: Sequence[str]) -> str:
    if not lacking:
        return ""
    return f"the mirror's index names what it does not hold: {', '.join(lacking)}"
