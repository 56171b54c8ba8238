"""pip as the judge of Python packages: which wheel serves a Python and an architecture; it fetches.

The host's pip works for the image's Python, which need not be here: no emulation.
"""

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pydantic import ValidationError

from dlcontainer.config.field_types import Arch
from dlcontainer.errors import BuildError, MisfitError
from dlcontainer.packages.lockfile import WheelPin
from dlcontainer.system import digests, foreign_files
from dlcontainer.system.machine import HostMachine
from dlcontainer.system.process import CommandFailedError, CompletedCommand, Runner

# The oldest C library that wheels of an architecture were ever made for, and the old names.
# Sources: PEP 513 (manylinux1, x86_64), PEP 571 (manylinux2010), PEP 599 (manylinux2014), PEP 600.
_OLD_NAMES: Mapping[Arch, Mapping[int, str]] = {
    "x86_64": {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"},
    "ppc64le": {17: "manylinux2014"},
    "aarch64": {17: "manylinux2014"},
}
_MOST_REPORT = 64_000_000
_LOST = re.compile(r"^ERROR: No matching distribution found for (\S+)", re.MULTILINE)
_VERSIONS = re.compile(r"^ERROR: Could not find a version .* \(from versions: (.*)\)", re.MULTILINE)
_SKIPPED = re.compile(r"Skipping link: (?:none of the wheel's tags|No (?:sources|binaries)).*")
_FILE = re.compile(r"/([^/\s#?]+\.(?:whl|tar\.gz|zip))(?=[\s#?]|$)")

# Everyone on a machine sees command lines, and an index's address may hold a password.
_UNSEEN = {
    "--index-url": "PIP_INDEX_URL",
    "--extra-index-url": "PIP_EXTRA_INDEX_URL",
    "--find-links": "PIP_FIND_LINKS",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Pip:
    """pip on this host, for another machine's Python; `arguments` say where packages come from."""

    python: str
    arch: Arch
    glibc: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    host: HostMachine
    runner: Runner
    on_line: Callable[[str], None]

    def resolve(self, packages: Sequence[str], upstream: str, folder: Path) -> list[WheelPin]:
        """Choose the wheels of pinned packages; `upstream` is a further index, or empty.

        `folder` is private. Raises MisfitError that names all packages without a wheel for this
        Python and architecture, and what there is of them; BuildError for what else pip reports.
        """
        report = folder / "report.json"
        argv = ["install", "--dry-run", "--ignore-installed", "--report", str(report)]
        argv += ["--target", str(folder / "target"), *self._choice(upstream)]
        lost: list[tuple[str, str]] = []
        remaining = list(packages)
        while remaining:
            try:
                self._run([*argv, *remaining], on_line=self.on_line)
            except CommandFailedError as error:
                requirement = self._lost(error.completed, remaining)
                remaining.remove(requirement)
                lost.append((requirement, self._there(requirement, argv, error.completed)))
                continue
            break
        if lost:
            raise MisfitError(
                f"no wheel for Python {self.python} on {self.arch} (glibc {self.glibc}): "
                + ", ".join(requirement for requirement, _ in lost),
                why="\n    ".join(["", *(f"{name}: {reason}" for name, reason in lost)]),
                next_step="pin versions that have such a wheel, add a folder of wheels "
                "(routing.wheels of the site), or write a variant of the recipe "
                "for this architecture",
            )
        items = foreign_files.loads(foreign_files.read(report, _MOST_REPORT))["install"]
        try:
            return sorted(map(_pin, items), key=lambda pin: pin.name.lower())
        except ValidationError as error:
            raise BuildError(
                "the index lists a wheel with an invalid name",
                why=repr(error.errors()[0]["input"])[:200],
                next_step="check that routing.pip of the site names the right index",
            ) from None

    def download(self, wheels: Sequence[WheelPin], upstreams: Sequence[str], folder: Path) -> None:
        """Fetch wheels whose checksums are known into a folder; pip checks them.

        Raises BuildError for a wrong checksum, a wheel that is gone, a full disk.
        """
        listed = folder / "requirements.txt"
        lines = [f"{pin.name}=={pin.version} --hash=sha256:{pin.sha256}" for pin in wheels]
        listed.write_text("\n".join(lines) + "\n")
        argv = ["download", "--require-hashes", "--dest", str(folder), "--requirement", str(listed)]
        try:
            self._run([*argv, *self._choice(*upstreams)], on_line=self.on_line)
        except CommandFailedError as error:
            raise _not_fetched(error.completed, folder) from None
        finally:
            listed.unlink(missing_ok=True)

    def fetch(self, packages: Sequence[str], upstream: str, folder: Path) -> None:
        """Fetch the wheels of pinned packages into a folder; raises CommandFailedError."""
        argv = ["download", "--dest", str(folder), *self._choice(upstream), *packages]
        self._run(argv, on_line=self.on_line)

    def _choice(self, *upstreams: str) -> list[str]:
        argv = ["--no-deps", "--only-binary=:all:", "--implementation", "cp"]
        argv += ["--python-version", self.python]
        argv += [part for tag in platforms(self.arch, self.glibc) for part in ("--platform", tag)]
        extra = [part for url in upstreams if url for part in ("--extra-index-url", url)]
        return [*argv, *self.arguments, *extra]

    def _run(
        self, argv: Sequence[str], on_line: Callable[[str], None] | None = None
    ) -> CompletedCommand:
        # Only what is given here says where packages come from; no file and variable of the host.
        env = {
            name: value
            for name, value in self.host.environ.items()
            if name in {"PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME", "LD_LIBRARY_PATH", "PYTHONPATH"}
        }
        env |= {**self.environment, "PIP_CONFIG_FILE": os.devnull, "LC_ALL": "C.UTF-8"}
        env |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
        visible, unseen = unseen_places(argv)
        # -P: with -m, Python looks for pip in the current folder first, which others may write to.
        return self.runner(
            [sys.executable, "-P", "-m", "pip", *visible], env=env | unseen, on_line=on_line
        )

    def _lost(self, completed: CompletedCommand, packages: Sequence[str]) -> str:
        match = _LOST.search(completed.stdout)
        if match and match[1] in packages:
            return match[1]
        complaint = _complaints(completed)
        next_step = (
            "check that the index is up, and check routing.pip and routing.proxy of the site"
        )
        if "No module named pip" in complaint or "no such option" in complaint:
            next_step = f"install pip 22.2 or newer: {sys.executable} -m ensurepip --upgrade"
        raise BuildError("pip can't resolve the wheels", why=complaint, next_step=next_step)

    def _there(self, requirement: str, argv: Sequence[str], completed: CompletedCommand) -> str:
        """Return what there is of a package instead."""
        try:
            output = self._run([*argv, "-vv", requirement]).stdout
        except CommandFailedError as error:
            output = error.completed.stdout
        files = skipped_files(output, requirement)
        if files:
            return say_files(files, self.python)
        versions = _VERSIONS.search(completed.stdout)
        if versions and versions[1] not in {"", "none"}:
            return f"the index has these versions for this machine: {versions[1]}"
        return "pip's index has no version of it"


def platforms(arch: Arch, glibc: str) -> list[str]:
    """List the platform tags that an image with this C library takes, the best first."""
    old = _OLD_NAMES[arch]
    tags = []
    for minor in range(int(glibc.split(".")[1]), min(old) - 1, -1):
        tags.append(f"manylinux_2_{minor}_{arch}")
        if minor in old:
            tags.append(f"{old[minor]}_{arch}")
    return [*tags, f"linux_{arch}"]


def skipped_files(output: str, requirement: str) -> list[str]:
    """Pick the files of a pinned version that pip saw and passed over from its `-vv` output."""
    name, version = requirement.split("==")
    stem = re.sub(r"[-_.]+", "_", name.split("[")[0]).lower()
    files = set()
    for line in _SKIPPED.findall(output):
        for file in map(unquote, _FILE.findall(line)):
            parts = re.sub(r"\.(whl|tar\.gz|zip)$", "", file).split("-")
            named = re.sub(r"[-_.]+", "_", parts[0]).lower()
            if named == stem and len(parts) > 1 and parts[1] == version:
                files.add(file)
    return sorted(files)


def say_files(files: Sequence[str], python: str) -> str:
    """Return one line that says for which machines and Pythons there are files."""
    tags = [file.removesuffix(".whl").split("-")[-3:] for file in files if file.endswith(".whl")]
    python_tag = f"cp{python.replace('.', '')}"
    platforms = sorted({platform for tag, _, platform in tags if tag == python_tag})
    tags_besides = sorted({tag for tag, _, _ in tags if tag != python_tag})
    parts = []
    if platforms:
        parts.append(f"wheels of {python_tag} for {', '.join(platforms)}")
    if tags_besides:
        parts.append(f"wheels of {', '.join(tags_besides)}")
    if any(not file.endswith(".whl") for file in files):
        parts.append("a source archive, which the recipe would have to build")
    return "there are " + "; ".join(parts)


def _pin(item: Mapping[str, Any]) -> WheelPin:
    info = item["download_info"]
    path = unquote(urlsplit(info["url"]).path)
    sha256 = info.get("archive_info", {}).get("hashes", {}).get("sha256")
    if not sha256:
        # Older pips report none for a wheel of a folder, and no index has to give one.
        sha256 = _sha256_of(path, info["url"])
    return WheelPin(
        name=item["metadata"]["name"],
        version=item["metadata"]["version"],
        file=path.rsplit("/", 1)[-1],
        sha256=sha256,
    )


def _sha256_of(path: str, url: str) -> str:
    if not url.startswith("file:"):
        raise BuildError(
            f"pip reports no SHA-256 for {path.rsplit('/', 1)[-1]}",
            next_step=f"upgrade pip: {sys.executable} -m pip install --upgrade pip",
        )
    return digests.of_file(Path(path))


def _not_fetched(completed: CompletedCommand, folder: Path) -> BuildError:
    complaint = _complaints(completed)
    whole = completed.stdout
    if "DO NOT MATCH THE HASHES" in whole:
        return BuildError(
            "wrong checksum: a wheel differs from the lock",
            why=complaint,
            next_step="find out whether the index or the lock is right before you use the wheel",
        )
    if "No space left on device" in whole:
        return BuildError(
            f"no space left for {folder}",
            why=complaint,
            next_step="free space, or name another folder with -o",
        )
    return BuildError(
        "cannot fetch a wheel of the lock",
        why=complaint,
        next_step="check that the index is up, and run `dlcontainer lock --check`: it lists "
        "wheels that the index no longer has",
    )


def _complaints(completed: CompletedCommand) -> str:
    lines = [line for line in completed.stdout.splitlines() if line.strip()]
    first = next((n for n, line in enumerate(lines) if line.startswith("ERROR:")), -8)
    return "\n    ".join(["", *lines[first:][:14]])


def unseen_places(argv: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Part a command line from the addresses in it; these become variables."""
    visible: list[str] = []
    unseen: dict[str, list[str]] = {}
    words = iter(argv)
    for word in words:
        if word not in _UNSEEN:
            visible.append(word)
            continue
        place = next(words)
        # pip parts a variable at blanks, which a folder's name may hold; no secret is in one.
        if "://" in place:
            unseen.setdefault(_UNSEEN[word], []).append(place)
        else:
            visible += [word, place]
    return visible, {name: " ".join(places) for name, places in unseen.items()}
