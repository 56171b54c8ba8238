"""A release -> the facts that the catalogue shows of it.

All is read from the release's own folder, and nothing of it is trusted: a file that can't be read
is a fact by itself, never an error, since one damaged release must not hold up the next one. Texts
are cut, and hold nothing that a terminal or a browser would obey.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlcontainer.errors import DlcontainerError
from dlcontainer.image import bill_file, checks_file, record, sbom
from dlcontainer.image.checks_file import CheckRecord
from dlcontainer.publish.open_folder import Folder
from dlcontainer.system import foreign_files

CHECKS, RECORD, BILL = "checks.json", "record.json", f"sbom{sbom.SUFFIX}"
REPORT, VERDICTS = "report.html", "report.json"
_FILES = (RECORD, CHECKS, BILL, "build.log", REPORT)
_MOST_BYTES = 64_000_000
_LONGEST, _MOST = 200, 40
_WRONG = (OSError, ValueError, TypeError, KeyError, AttributeError)
# Packages that users choose an image by; those that its recipe proves come first.
_KEY = (
    *("torch", "tensorflow", "tensorflow-cpu", "jax", "jaxlib", "mxnet", "horovod", "numpy"),
    *("transformers", "mpi4py", "nvidia-nccl-cu12", "rccl", "openmpi", "mpich", "libopenmpi3"),
    *("libmpich12", "cuda-toolkit", "rocm", "python", "python3", "gcc", "g++", "libc6", "glibc"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class CataloguePackage:
    """A package of the bill."""

    name: str
    version: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedCheck:
    """A check that was made before publishing; `state` is ok, not tried or failed."""

    name: str
    state: str
    detail: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseFacts:
    """All that a release's files say; `unknown` names those that can't be read, and why."""

    summary: str = ""
    homepage: str = ""
    license: str = ""
    plan: str = ""
    image: str = ""
    size: int | None = None
    site: str = ""
    commands: tuple[str, ...] = ()
    checked: str = ""
    checks: tuple[PublishedCheck, ...] = ()
    packages: tuple[CataloguePackage, ...] = ()
    count: int | None = None
    reached: tuple[str, ...] = ()
    verdicts: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def plain(value: object, most: int = _LONGEST) -> str:
    """Return a text of somebody else's on one line, cut, and without characters that control."""
    text = " ".join(str(value)[: most * 4].split())
    shown = "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )
    return shown if len(shown) <= most else f"{shown[: most - 1]}\N{HORIZONTAL ELLIPSIS}"


def of(releases: Folder, digest: str, *, brief: bool = False) -> ReleaseFacts:
    """Read the facts of a release; what can't be read is named in them.

    `brief` leaves out its bill and its verdicts, which take long in a tree of many.
    """
    unknown: list[str] = []
    facts: dict[str, Any] = {}
    try:
        release = releases.sub(digest)
    except (OSError, DlcontainerError) as error:
        return ReleaseFacts(unknown=(_why(f"releases/{digest}", error),))
    with release:
        for name, read in _READERS.items():
            # The last two are put there later, if at all.
            if name in (RECORD, CHECKS) or (not brief and release.has_file(name)):
                try:
                    facts |= read(release, name, facts)
                except (*_WRONG, DlcontainerError) as error:
                    unknown.append(_why(name, error))
        size = release.info("image.sif")
        files = tuple(name for name in _FILES if release.has_file(name))
    if size is not None:
        facts["size"] = size.st_size
    key_names = facts.pop("wanted", ())
    listed = facts.pop("listed", ())
    packages = _key(listed, key_names)
    return ReleaseFacts(**facts, packages=packages, files=files, unknown=tuple(unknown))


def _why(name: str, error: Exception) -> str:
    why = getattr(error, "strerror", None) or getattr(error, "what", None) or error
    return plain(f"{name} can't be read: {why}")


def _body(release: Folder, name: str) -> Any:
    with release.open(name) as file:
        return foreign_files.loads(foreign_files.content(file, _MOST_BYTES))


def _record(release: Folder, name: str, _: Mapping[str, Any]) -> dict[str, Any]:
    with release.open(name) as file:
        written = record.of_file(file, Path(name)).record
    offer = written.content.offer
    return {
        "summary": plain(offer.summary),
        "homepage": plain(offer.homepage or ""),
        "license": plain(offer.license or ""),
        "plan": written.digest,
        "image": written.image.sha256,
        "size": written.image.size,
        "site": written.content.site,
        "commands": tuple(map(str, offer.exposes[:_MOST])),
        "wanted": tuple(offer.verify.imports),
    }


def _checks(release: Folder, name: str, _: Mapping[str, Any]) -> dict[str, Any]:
    written = checks_file.of_release(_body(release, name))
    checks = tuple(map(_check, written.checks[:_MOST]))
    reached = tuple(map(plain, written.reached[:_MOST]))
    return {"checked": plain(written.finished), "checks": checks, "reached": reached}


def _check(check: CheckRecord) -> PublishedCheck:
    state = check.state or ("ok" if check.ok else "failed")
    return PublishedCheck(name=plain(check.name), state=state, detail=plain(check.detail or ""))


def _bill(release: Folder, name: str, _: Mapping[str, Any]) -> dict[str, Any]:
    with release.open(name) as file:
        data = foreign_files.content(file, _MOST_BYTES)
    components = foreign_files.loads(data).get("components", [])
    listed = tuple(
        CataloguePackage(
            name=plain(component["name"], 80), version=plain(component.get("version", ""), 80)
        )
        for component in components
        if isinstance(component, dict) and "name" in component
    )
    return {"listed": listed, "count": bill_file.count(data)}


def _key(listed: Iterable[CataloguePackage], names: Sequence[str]) -> tuple[CataloguePackage, ...]:
    """Choose the packages that say what an image is for."""
    order = {name.lower(): i for i, name in reversed(list(enumerate((*names, *_KEY))))}
    by_name: dict[str, CataloguePackage] = {}
    for package in listed:
        if package.name.lower() in order:
            by_name.setdefault(package.name.lower(), package)
    return tuple(by_name[name] for name in sorted(by_name, key=lambda name: order[name]))[:_MOST]


def _verdicts(release: Folder, name: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the verdicts of `report --json`, of sessions of just this image."""
    sessions = [
        session for session in _body(release, name)["sessions"] if isinstance(session, dict)
    ]
    sessions_here = [
        session
        for session in sessions
        if session["declared"].get("image_sha256") == facts.get("image")
    ]
    if len(sessions_here) < len(sessions):
        raise ValueError("one of its sessions belongs to another image")
    return {
        "verdicts": tuple(
            plain(f"{session['declared']['probe']}: {session['verdict']}. {session['headline']}")
            for session in sessions_here[:_MOST]
        )
    }


_READERS = {RECORD: _record, CHECKS: _checks, BILL: _bill, VERDICTS: _verdicts}
