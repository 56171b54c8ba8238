"""No password or token of a build's routing stays: not in the image, its log or what is said."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.build.backends.backend import BuildBackend
from dlcontainer.errors import BuildError, DlcontainerError
from dlcontainer.image.contents import search
from dlcontainer.packages import credentials
from dlcontainer.packages.credentials import Credential
from dlcontainer.system.progress import Progress, StepProgress

_NAMED = 5
# The inodes' clock runs in ticks: it may be this much behind the one that is asked here.
_TICK_NS = 50_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class LeakGuard:
    """What may not stay; without credentials nothing is read."""

    credentials: tuple[Credential, ...]
    plan: str

    def planned(self, content: Mapping[str, object]) -> None:
        """Refuse a plan that says one: its variables and texts are in the image, and in labels."""
        encoded = json.dumps(content, ensure_ascii=False).encode()
        self._refuse_bytes(encoded, "the plan (text of the recipe or the site)")

    def after_step(self, backend: BuildBackend, step: str, began_ns: int) -> None:
        """Refuse a step that wrote one down, before its result is kept; raises BuildError.

        `began_ns` is its beginning, s since 1970 in ns.
        """
        if self.credentials:
            self._refuse(backend, f"step {step!r} left", began_ns - _TICK_NS)

    def finished(self, backend: BuildBackend) -> None:
        """Refuse a finished tree that holds one; raises BuildError."""
        if self.credentials:
            self._refuse(backend, "there is", 0)

    def beside(self, files: Sequence[Path]) -> None:
        """Refuse what lies beside an image, and says of it, where it holds one."""
        for path in files if self.credentials else ():
            self._refuse_bytes(path.read_bytes(), path.name)

    @contextlib.contextmanager
    def hidden(self, log: Path, steps: StepProgress) -> Iterator[None]:
        """Hide them in the log, in all that is shown meanwhile, and in errors."""
        if not self.credentials:
            yield
            return
        steps.progress = _MaskingProgress(progress=steps.progress, credentials=self.credentials)
        try:
            yield
        except DlcontainerError as error:
            error.what = credentials.masked(error.what, self.credentials)
            error.why = error.why and credentials.masked(error.why, self.credentials)
            raise
        finally:
            self._hide(log)

    def _refuse(self, backend: BuildBackend, what: str, since_ns: int) -> None:
        tree = backend.files()
        leaking = search.search(tree, credentials.shortest(self.credentials), since_ns)
        if leaking:
            origins = ", ".join(credential.origin for credential in self.credentials)
            raise self._error(f"{what} a credential from {origins} in the image", leaking)

    def _refuse_bytes(self, data: bytes, name: str) -> None:
        for credential in self.credentials:
            if any(form in data for form in credential.forms):
                raise self._error(f"it contains a credential from {credential.origin}", [name])

    def _error(self, what: str, leaking: Sequence[str]) -> BuildError:
        named = [credentials.masked(path, self.credentials) for path in leaking[:_NAMED]]
        more = len(leaking) - len(named)
        return BuildError(
            f"{self.plan}: {what}",
            why="".join(f"\n    {path}" for path in named)
            + (f"\n    and {more} more" if more else ""),
            next_step="remove the file in the recipe's step that writes it; an image must "
            "not contain proxies or credentials of its build host "
            "(docs/why/security.md)",
        )

    def _hide(self, log: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            data = log.read_bytes()
            clean = credentials.hidden(data, self.credentials)
            if clean != data:
                log.write_bytes(clean)


@dataclass(frozen=True, kw_only=True, slots=True)
class _MaskingProgress:
    """A progress that shows no credential."""

    progress: Progress
    credentials: tuple[Credential, ...]

    def step(self, title: str) -> None:
        """Begin a step."""
        self.progress.step(title)

    def expect(self, count: int) -> None:
        """Count the steps that are to come."""
        self.progress.expect(count)

    def phase(self, title: str) -> None:
        """Say what of the step runs now."""
        self.progress.phase(credentials.masked(title, self.credentials))

    def line(self, text: str) -> None:
        """Take one line of a tool's output."""
        self.progress.line(credentials.masked(text, self.credentials))

    def note(self, text: str) -> None:
        """Say something worth knowing."""
        self.progress.note(credentials.masked(text, self.credentials))
