"""uv as the resolver: for any target, from any host; it builds nothing and reads no settings."""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from dlcontainer.packages.pip import pip_config
from dlcontainer.packages.resolve import lock_files
from dlcontainer.packages.resolve.asking import Answer, NoSolutionError, Question
from dlcontainer.packages.resolve.index_access import IndexAccess
from dlcontainer.packages.resolve.resolution import Target
from dlcontainer.packages.resolve.target_rules import platform_of
from dlcontainer.system.machine import HostMachine
from dlcontainer.system.process import CommandFailedError, CompletedCommand, Runner

# No UV_* of the host, no VIRTUAL_ENV, no CONDA_PREFIX: these would name a Python to run.
_HANDED_ON = frozenset({"PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME", "LD_LIBRARY_PATH"})
_WARNING = re.compile(r"^warning: (.+)$", re.MULTILINE)
_UNKNOWN = re.compile(r"Because ([A-Za-z0-9._-]+) was not found in the package registry")
_REFUSAL = re.compile(r"could not be queried|returned a 403 Forbidden")
# Said of each target with another Python than the host's: nothing is ever built.
_NO_NEWS = "will be used to build dependencies"


@dataclass(frozen=True, kw_only=True, slots=True)
class Uv:
    """uv on this host, for a target; `folder` is private, `cache` keeps what indexes told."""

    program: Path
    version: str
    target: Target
    access: IndexAccess
    host: HostMachine
    runner: Runner
    folder: Path
    cache: Path

    @property
    def title(self) -> str:
        """Return name and version."""
        return f"uv {self.version}"

    def ask(self, question: Question) -> Answer:
        """Choose versions of wheels; raises NoSolutionError with uv's words."""
        answer = self._compile(question, _WHEELS)
        return (
            replace(answer, hashes=self._hashes(question, answer))
            if question.exact_hashes
            else answer
        )

    def newest(self, requirements: Sequence[str], *, wheels: bool) -> Mapping[str, str]:
        """Return the newest versions by themselves; without dependencies uv builds nothing."""
        words = ["--no-deps", *(_WHEELS if wheels else [])]
        try:
            return self._compile(Question(requirements=tuple(requirements)), words).versions
        except NoSolutionError:
            return {}

    def _hashes(self, question: Question, answer: Answer) -> dict[str, frozenset[str]]:
        """Return the SHA-256 of the file that pip takes of each version; empty where unknown."""
        lines = tuple(f"{name}=={version}" for name, version in answer.versions.items())
        words = ["--no-deps", *_WHEELS, "--format", "pylock.toml"]
        exact = Question(requirements=lines, folders=question.folders, prereleases=True)
        try:
            text = self._run(exact, words).stdout
        except NoSolutionError:
            return {}
        return lock_files.hashes_of(text, self.target)

    def _compile(self, question: Question, words: Sequence[str]) -> Answer:
        completed = self._run(question, words)
        return _read(completed.stdout, completed.stderr)

    def _run(self, question: Question, words: Sequence[str]) -> CompletedCommand:
        listed, bounds, liked = (
            self.folder / name for name in ("wishes.txt", "constraints.txt", "chosen.txt")
        )
        for path, lines in (
            (listed, question.requirements),
            (bounds, question.constraints),
            (liked, question.preferences),
        ):
            path.write_text("".join(f"{line}\n" for line in lines))
        # What stands in the file of an earlier answer is preferred.
        preferring = ["--output-file", str(liked)] if question.preferences else []
        argv = [str(self.program), "pip", "compile", *_QUIET, *words, *preferring]
        argv += ["--python", sys.executable, "--cache-dir", str(self.cache)]
        argv += ["--python-version", self.target.python]
        argv += ["--python-platform", platform_of(self.target)]
        argv += ["--prerelease", "explicit" if question.prereleases else "disallow"]
        argv += ["--no-index"] if self.access.settings.no_index else []
        for name in self.access.settings.trusted_hosts:
            argv += ["--allow-insecure-host", name]
        # Of an empty file uv warns.
        argv += ["--constraints", str(bounds)] if question.constraints else []
        argv += [str(listed)]
        try:
            return self.runner(argv, env=self._environ(question.folders), cwd=self.folder)
        except CommandFailedError as error:
            raise NoSolutionError(self._complaint(error.completed, argv)) from None

    def _complaint(self, completed: CompletedCommand, argv: Sequence[str]) -> str:
        """Return uv's words; of a name that no index has, whether one of them refused to tell.

        Where uv may take the best of all indexes it says nothing of one that answers 401 or 403.
        """
        text = completed.stderr.strip()
        match = _UNKNOWN.search(text)
        if match is None:
            return text
        alone = self.folder / "alone.txt"
        alone.write_text(f"{match[1]}\n")
        words = [word for word in argv[:-1] if word != _BEST_MATCH]
        again = self.runner(
            [*words, "--no-deps", str(alone)],
            env=self._environ(()),
            cwd=self.folder,
            check=False,
        )
        return again.stderr.strip() if _REFUSAL.search(again.stderr) else text

    def _environ(self, folders: Sequence[Path]) -> dict[str, str]:
        """Return uv's variables: addresses stand here, for all users see a command line."""
        settings = self.access.settings
        environ = {name: text for name, text in self.host.environ.items() if name in _HANDED_ON}
        environ |= {**self.access.environment, "LC_ALL": "C.UTF-8"}
        # Parted at blanks and commas: neither is left in an address.
        indexes = _addresses([*settings.extra_indexes, *self.access.upstreams])
        links = _addresses([*map(str, folders), *settings.find_links])
        default = _addresses([settings.index] if settings.index else [])
        for name, text in (
            ("UV_DEFAULT_INDEX", "".join(default)),
            ("UV_INDEX", " ".join(indexes)),
            ("UV_FIND_LINKS", ",".join(links)),
            ("UV_HTTP_TIMEOUT", settings.timeout or ""),
            ("UV_HTTP_RETRIES", settings.retries or ""),
        ):
            if text:
                environ[name] = text
        return environ


_WHEELS = ("--only-binary", ":all:")
# pip takes the best of all indexes at the build.
_BEST_MATCH = "--index-strategy=unsafe-best-match"
_QUIET = (
    "--no-config",
    "--no-python-downloads",
    "--no-sources",
    "--no-header",
    "--annotation-style=line",
    "--no-progress",
    "--color=never",
    _BEST_MATCH,
)


def _addresses(places: Sequence[str]) -> list[str]:
    addresses = [pip_config.address(place) for place in places]
    return [address.replace(",", "%2C").replace(" ", "%20") for address in addresses if address]


def _read(stdout: str, stderr: str) -> Answer:
    versions: dict[str, str] = {}
    needed_by: dict[str, tuple[str, ...]] = {}
    for line in stdout.splitlines():
        text, _, remark = line.partition("#")
        try:
            requirement = Requirement(text.strip())
            (specifier,) = requirement.specifier
        except (InvalidRequirement, ValueError):
            continue  # an empty line or a remark
        name = canonicalize_name(requirement.name)
        versions[name] = specifier.version
        sources = remark.strip().removeprefix("via ").split(", ")
        # `-r wishes.txt` and `-c constraints.txt` are no packages.
        needed_by[name] = tuple(source for source in sources if source and source[0] != "-")
    notes = tuple(text for text in _WARNING.findall(stderr) if _NO_NEWS not in text)
    return Answer(versions=versions, needed_by=needed_by, notes=notes)
