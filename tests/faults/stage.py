"""A command, the files before it, and the oracle: nothing half or left, the next run works."""

import os
import shutil
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.faults.calls import CHANGING, READING, Call, named, one_a_kind
from tests.faults.traced import KILLED, Done, DriftError, Launcher

# Every exit code but 0 that a command may end with: docs, and `dlcontainer --help`.
DOCUMENTED = range(1, 9)
_CHANGES = ("ENOSPC", "EIO", "EDQUOT", "ESTALE")
_READS = ("EIO", "ESTALE")
# Above it, files are linked into a stage: nothing writes into a finished base.
_LARGE = 1_000_000
_TRIES = 12
# Made by the engine itself where it is tried again: a fault may have hit the trial that is kept.
_ENGINES_OWN = "home/.apptainer"


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A command that is stopped; all that it writes lies below one folder, where it runs too."""

    # Make the files before the command; `state` is the folder.
    prepare: Callable[[Path], object]
    argv: Sequence[str]
    # Describe all that others read there; it raises AssertionError for what is half.
    view: Callable[[Path], object]
    entry: str = "tests.faults.entries:run"
    # What serves the command as long as the stage stands; it may write files too.
    served: Callable[[Path], AbstractContextManager[object]] = nullcontext
    # The next command where this one is done and can't be done twice.
    then: Sequence[str] | None = None
    # A view between those before and after is whole too: several things, one after the other.
    many: bool = False
    # The cache is as the first run left it: what the engine can do is known.
    warm: bool = True
    # Paths of which a killed run may leave more; it says who removes them.
    ours: Callable[[str], bool] = lambda path: False


class Stage:
    """A folder that each round begins with again, at the same path."""

    def __init__(self, folder: Path, subject: Subject, launcher: Launcher, held: ExitStack) -> None:
        self.state, self._kept = folder / "state", folder / "kept"
        self.subject, self.launcher = subject, launcher
        for name in ("tmp", "cache", "home"):
            (self.state / name).mkdir(parents=True)
        subject.prepare(self.state)
        held.enter_context(subject.served(self.state))
        shutil.copytree(self.state, self._kept, symlinks=True)
        self.before = subject.view(self.state)
        # Twice: the second run has all imports done, and goes the way of all that follow.
        for _ in range(2):
            self.reset()
            done = self.run()
            assert done.code == 0, done.log
            if subject.warm:
                shutil.rmtree(self._kept / "cache")
                shutil.copytree(self.state / "cache", self._kept / "cache", symlinks=True)
        self.after, self.left = subject.view(self.state), self.listing()

    def reset(self) -> None:
        shutil.rmtree(self.state)
        shutil.copytree(self._kept, self.state, symlinks=True, copy_function=_copied)

    def run(self) -> Done:
        return self.launcher.run(self.subject.entry, self.subject.argv, self.state)

    def calls_of_children(self) -> list[Call]:
        """Trace the command; give the calls of its children, each counted in its process."""
        self.reset()
        subject = self.subject
        return self.launcher.trace_children(subject.entry, subject.argv, self.state, CHANGING)

    def calls(self, names: Sequence[str] = (*CHANGING, *READING)) -> list[Call]:
        """Trace the command; give its calls about files of the stage."""
        self.reset()
        names = tuple(dict.fromkeys(names))
        return self.launcher.trace(self.subject.entry, self.subject.argv, self.state, names)

    def listing(self) -> set[str]:
        """List all paths, but those of which there may be more."""
        paths = (named(str(path.relative_to(self.state))) for path in self.state.rglob("*"))
        return {
            path
            for path in paths
            if not self.subject.ours(path) and not path.startswith(_ENGINES_OWN)
        }

    def killed(self, call: Call) -> None:
        """Kill the command at a call, and ask the oracle."""
        done = self._with(call, "signal=SIGKILL")
        assert done.code == KILLED, (str(call), done)
        self._require_whole(str(call))
        self._require_next(str(call))

    def child_killed(self, call: Call) -> None:
        """Kill each process of the command that comes to such a call, and ask the oracle."""
        self.reset()
        subject, told = self.subject, f"child at {call}"
        done = self.launcher.with_fault_in_children(
            subject.entry, subject.argv, self.state, call, "signal=SIGKILL"
        )
        assert done.code in (0, KILLED, *DOCUMENTED), (told, done)
        self._require_whole(told)
        self._require_next(told)

    def failed(self, call: Call, error: str) -> Done:
        """Let a call of the command fail, and ask the oracle."""
        done, told = self._with(call, f"error={error}"), f"{error} at {call}"
        assert done.code == 0 or done.code in DOCUMENTED, (told, done)
        assert "Traceback" not in done.log, (told, done.log)
        if done.code:
            assert "dlcontainer: " in done.log, (told, done.log)
        self._require_whole(told)
        if done.code == 0 and not self.subject.many:
            assert self.subject.view(self.state) == self.after, (told, done.log)
        self._require_next(told)
        return done

    def _with(self, call: Call, fault: str) -> Done:
        subject = self.subject
        for _ in range(_TRIES):
            self.reset()
            with suppress(DriftError):
                return self.launcher.with_fault(
                    subject.entry, subject.argv, self.state, call, fault
                )
            again = self.calls([call.name])
            call = next(other for other in again if other.kind == call.kind)
        raise DriftError(str(call))

    def _require_whole(self, told: str) -> None:
        """Require that others see all of it or nothing of it, and that nobody goes on."""
        now = self.subject.view(self.state)
        assert self.subject.many or now in (self.before, self.after), (told, now)
        assert self.launcher.left() == {}, told
        assert str(self.state) not in Path("/proc/self/mounts").read_text(), told

    def _require_next(self, told: str) -> None:
        """Require of the next run that it works, and leaves all as if nothing had happened."""
        self._age()
        argv = self.subject.argv
        if self.subject.then is not None and self.subject.view(self.state) == self.after:
            argv = self.subject.then
        done = self.launcher.run(self.subject.entry, argv, self.state)
        assert done.code == 0, (told, done)
        assert self.subject.view(self.state) == self.after, told
        more, fewer = self.listing() - self.left, self.left - self.listing()
        assert (more, fewer) == (set(), set()), (told, more, fewer)

    def _age(self) -> None:
        """Let an hour go by: what is new may be of a process that is just beginning."""
        moment = time.time() - 3600
        for path in self.state.rglob("*"):
            os.utime(path, (moment, moment), follow_symlinks=False)


def environ(state: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Give a user's environment whose folders all lie in the stage."""
    own = {"HOME": "home", "TMPDIR": "tmp", "XDG_CACHE_HOME": "cache"}
    return {
        **{name: given[name] for name in ("PATH", "LANG") if name in given},
        **{name: str(state / path) for name, path in own.items()},
        # All that is fetched comes from this machine; two builds of one moment are the same bits.
        "PIP_NO_INDEX": "1",
        "no_proxy": "127.0.0.1",
        "SOURCE_DATE_EPOCH": "1784678400",
    }


def _copied(source: str, target: str) -> None:
    info = os.lstat(source)
    if stat.S_ISREG(info.st_mode) and info.st_size > _LARGE:
        os.link(source, target)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


def faults(calls: Sequence[Call]) -> list[tuple[Call, str]]:
    """Give each error of each kind of call and place once."""
    return [
        (call, error)
        for call in one_a_kind(calls)
        for error in (_CHANGES if call.changes else _READS)
    ]
