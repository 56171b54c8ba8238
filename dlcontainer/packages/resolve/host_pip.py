"""pip as the resolver, where the target's Python and machine are those of this interpreter."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from dlcontainer.packages.pip import pip_config, pip_resolver
from dlcontainer.packages.resolve.asking import Answer, NoSolutionError, Question
from dlcontainer.packages.resolve.index_access import IndexAccess
from dlcontainer.packages.resolve.resolution import Target
from dlcontainer.system import foreign_files
from dlcontainer.system.machine import HostMachine
from dlcontainer.system.process import CommandFailedError, CompletedCommand, Runner

if TYPE_CHECKING:
    from dlcontainer.config.field_types import Arch

_MOST_REPORT = 64_000_000
_HANDED_ON = frozenset(
    {"PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME", "LD_LIBRARY_PATH", "PYTHONPATH"}
)
_LOST = re.compile(r"No matching distribution found for (\S+)")
_NONE = "(from versions: none)"
_UNFETCHED = re.compile(r"Could not fetch URL (\S+): (.*?)(?: - skipping)?$", re.MULTILINE)
_YANKED = re.compile(
    r"yanked version: '([^']+)' candidate \(version (\S+).*?\nReason for being yanked: (.*)"
)
_AVAILABLE = re.compile(r"^Available versions: (.*)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class HostPip:
    """pip of this interpreter; `folder` is private."""

    version: str
    target: Target
    access: IndexAccess
    host: HostMachine
    runner: Runner
    folder: Path

    @property
    def title(self) -> str:
        """Return name and version."""
        return f"pip {self.version}"

    def ask(self, question: Question) -> Answer:
        """Choose versions of wheels; raises NoSolutionError with pip's words."""
        return self._install(question, [])

    def newest(self, requirements: Sequence[str], *, wheels: bool) -> Mapping[str, str]:
        """Return the newest versions by themselves; for source archives pip only lists."""
        newest: dict[str, str] = {}
        for text in requirements:
            requirement = Requirement(text)
            name = canonicalize_name(requirement.name)
            version = self._newest_wheel(text) if wheels else self._listed(requirement)
            if version is not None:
                newest[name] = version
        return newest

    def _newest_wheel(self, requirement: str) -> str | None:
        try:
            answer = self._install(Question(requirements=(requirement,)), ["--no-deps"])
        except NoSolutionError:
            return None
        return next(iter(answer.versions.values()), None)

    def _listed(self, requirement: Requirement) -> str | None:
        argv = ["index", "versions", requirement.name, *self._places(())]
        try:
            completed = self._run(argv)
        except CommandFailedError:
            return None
        match = _AVAILABLE.search(completed.stdout)
        versions = [_version(text) for text in match[1].split(",")] if match else []
        fitting = requirement.specifier.filter(filter(None, versions))
        return str(max(fitting, default="")) or None

    def _install(self, question: Question, words: Sequence[str]) -> Answer:
        report = self.folder / "report.json"
        listed, bounds = self.folder / "wishes.txt", self.folder / "constraints.txt"
        listed.write_text("".join(f"{line}\n" for line in question.requirements))
        bounds.write_text("".join(f"{line}\n" for line in question.constraints))
        argv = ["install", "--dry-run", "--ignore-installed", "--report", str(report), *words]
        argv += ["--target", str(self.folder / "target"), "--only-binary=:all:"]
        argv += ["--implementation", "cp", "--python-version", self.target.python]
        arch = cast("Arch", self.target.arch)
        for tag in pip_resolver.platforms(arch, self.target.glibc):
            argv += ["--platform", tag]
        argv += [*self._places(question.folders), "-c", str(bounds), "-r", str(listed)]
        try:
            completed = self._run(argv)
        except CommandFailedError as error:
            raise NoSolutionError(self._complaint(error.completed, argv)) from None
        items = foreign_files.loads(foreign_files.read(report, _MOST_REPORT))["install"]
        answer = _answer(items, completed.stderr)
        _require_releases(answer, question)
        return answer

    def _places(self, folders: Sequence[Path]) -> list[str]:
        settings = pip_config.with_wheels(self.access.settings, tuple(map(str, folders)))
        further = [part for url in self.access.upstreams for part in ("--extra-index-url", url)]
        return [*pip_config.arguments(settings), *further]

    def _run(self, argv: Sequence[str]) -> CompletedCommand:
        environ = {name: text for name, text in self.host.environ.items() if name in _HANDED_ON}
        environ |= {**self.access.environment, "PIP_CONFIG_FILE": os.devnull, "LC_ALL": "C.UTF-8"}
        environ |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
        visible, unseen = pip_resolver.unseen_places(argv)
        command = [sys.executable, "-m", "pip", *visible]
        # Its own folder: `-m` looks into the current one first, which may be a foreign project.
        return self.runner(command, env=environ | unseen, cwd=self.folder)

    def _complaint(self, completed: CompletedCommand, argv: Sequence[str]) -> str:
        """Return pip's words; where it found nothing at all, why it did."""
        text = f"{completed.stdout}\n{completed.stderr}"
        match = _LOST.search(text)
        if match is None or _NONE not in text:
            return text
        try:
            verbose = self._run([*argv, "-vv"])
        except CommandFailedError as error:
            verbose = error.completed
        words = f"{verbose.stdout}\n{verbose.stderr}"
        name = Requirement(match[1]).name
        # An index that has no such name answers 404; all else is a fault of the index.
        for url, reason in _UNFETCHED.findall(words):
            if not reason.startswith("404"):
                return f"Failed to fetch: {url}\n{reason}"
        skipped = re.search(rf"Skipping link: .*/{re.escape(name)}-", words.replace("_", "-"))
        reason = "has no usable wheels" if skipped else "was not found in the package registry"
        return f"Because {name} {reason} and you require {match[1]}."


def _answer(items: Sequence[Mapping[str, object]], stderr: str) -> Answer:
    versions: dict[str, str] = {}
    hashes: dict[str, frozenset[str]] = {}
    for install in items:
        metadata = cast("Mapping[str, str]", install["metadata"])
        info = cast("Mapping[str, Mapping[str, Mapping[str, str]]]", install["download_info"])
        name = canonicalize_name(metadata["name"])
        versions[name] = metadata["version"]
        sha256 = info.get("archive_info", {}).get("hashes", {}).get("sha256")
        hashes[name] = frozenset([sha256] if sha256 else [])
    notes = [
        f"`{name}=={version}` is yanked (reason: {reason})"
        for name, version, reason in _YANKED.findall(stderr)
    ]
    return Answer(versions=versions, hashes=hashes, notes=tuple(notes))


def _require_releases(answer: Answer, question: Question) -> None:
    """Refuse pre-releases that nobody names: pip takes them where there is nothing else."""
    for name, version in answer.versions.items():
        if Version(version).is_prerelease and not question.prereleases:
            raise NoSolutionError(
                f"Because there are no versions of {name} and you require {name}.\n\n"
                f"hint: `{name}` has pre-releases alone ({version})"
            )


def _version(text: str) -> Version | None:
    try:
        return Version(text.strip())
    except InvalidVersion:
        return None
