"""What a clone of a cited repository says: when a commit was made, and what changed since it.

A clone may be anybody's: no program that its configuration names is started, no lock is taken.
"""

import datetime
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.errors import UsageError
from dlcontainer.sites.citations import Citation
from dlcontainer.system.process import ProcessRunner
from dlcontainer.system.runner import CommandNotFoundError, CompletedCommand

_TIMEOUT_S = 120
_QUIET = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "--no-optional-locks")


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedFile:
    """A cited file that changed since the commit that was read."""

    path: str
    # Of its newest change.
    commit: str
    day: datetime.date
    # Of the difference, without context: each begins with - or +.
    lines: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Clone:
    """A clone of some repository, bare or not, in a folder."""

    folder: Path
    environ: Mapping[str, str]

    def require(self) -> None:
        """Refuse a folder that is no clone. Raises UsageError."""
        done = self._git("rev-parse", "--git-dir")
        if done is None:
            raise UsageError(
                f"--clone {self.folder}: it is no git repository that you may read",
                why=self._said("rev-parse", "--git-dir") or "no such folder",
                next_step="clone the repository that a source names, and give its folder",
            )

    def has(self, commit: str) -> bool:
        """Whether a commit is in it."""
        return self._git("cat-file", "-e", f"{commit}^{{commit}}") is not None

    def day(self, commit: str) -> datetime.date | None:
        """Return the day on which a commit was made; None for one that is not here."""
        day = (self._git("log", "-1", "--format=%cs", commit, "--") or "").strip()
        return datetime.date.fromisoformat(day) if day else None

    def leads_to(self, commit: str) -> bool:
        """Whether HEAD came after a commit, or is it; not of a later one, nor of another branch."""
        return self._git("merge-base", "--is-ancestor", commit, "HEAD") is not None

    def changed(self, cited: Citation) -> tuple[ChangedFile, ...]:
        """List the cited files that differ at HEAD from what was read; those that are gone too."""
        paths = [f":(literal){path}" for path in cited.paths]
        named = self._git("diff", "--name-only", "-z", *_PLAIN, cited.commit, "HEAD", "--", *paths)
        named = named or ""
        return tuple(self._file(cited.commit, path) for path in named.split("\0") if path)

    def _file(self, commit: str, path: str) -> ChangedFile:
        text = self._git("diff", "-U0", *_PLAIN, commit, "HEAD", "--", f":(literal){path}") or ""
        lines = text.splitlines()
        begin = next((at for at, line in enumerate(lines) if line.startswith("@@")), len(lines))
        last = self._git("log", "-1", "--format=%h %cs", "HEAD", "--", f":(literal){path}") or ""
        short, _, day = last.strip().partition(" ")
        return ChangedFile(
            path=path,
            commit=short,
            day=datetime.date.fromisoformat(day) if day else datetime.date.min,
            lines=tuple(line for line in lines[begin:] if line[:1] in ("-", "+")),
        )

    def _git(self, *words: str) -> str | None:
        done = self._run(words)
        return done.stdout if done.returncode == 0 else None

    def _said(self, *words: str) -> str:
        return self._run(words).stderr.strip().partition("\n")[0]

    def _run(self, words: tuple[str, ...]) -> CompletedCommand:
        argv = ["git", *_QUIET, "-C", str(self.folder), *words]
        try:
            return ProcessRunner(environ=_environment(self.environ))(
                argv, check=False, timeout=_TIMEOUT_S
            )
        except CommandNotFoundError as error:
            raise UsageError("git is not there", next_step="install git") from error


_PLAIN = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    kept = {name: environ[name] for name in ("HOME", "PATH") if name in environ}
    return {
        "PATH": os.defpath,
        **kept,
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
    }
