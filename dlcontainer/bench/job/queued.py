"""A job of the site's scheduler: submitted, followed by a name of its own, cancelled."""

import re
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.bench.job.submit import JobEnding
from dlcontainer.errors import BenchDataError
from dlcontainer.schedulers.scheduler import BatchQueue, QueuedJob, SchedulerEnding
from dlcontainer.system.process import (
    CommandFailedError,
    CommandNotFoundError,
    CommandTimeoutError,
    Runner,
    quote,
)

# A controller or a node may be away for a while; a cancelled job takes its KillWait and more.
_PATIENCE_S, _CANCEL_S = 300.0, 90.0
# A controller that answers at all does so within that; a job that it took is listed within that.
_ANSWER_S, _LISTED_S = 60.0, 30.0
_ASK_S, _MOST_ASK_S, _ASK_AWAY_S = 0.5, 5.0, 60.0
# Nobody tells: the stamps of the job's ranks speak for it.
_UNKNOWN = SchedulerEnding(state="UNKNOWN", cause="none")
_TROUBLE = (CommandFailedError, CommandTimeoutError)


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueSubmitter:
    """A job of the site's scheduler; the times come from its ranks, never from asking."""

    runner: Runner
    queue: BatchQueue

    def run(self, frame: Path, log: Path) -> JobEnding:
        """Submit a frame and follow it by a name that no other job has."""
        self._require_fit(log)
        # 15 characters, as old releases of PBS allow.
        name = f"dlc-{uuid.uuid4().hex[:11]}"
        submitted = time.time()
        try:
            job = self._submitted(frame, log, name)
            ending = self._followed(name, job)
        except BaseException:
            # By its name the job is found after Ctrl-C in the middle of a submission too, and
            # after one that failed when the scheduler had taken it.
            self._cancelled(name)
            raise
        ending = ending or self._ending(job)
        return JobEnding(job=job, submitted=submitted, state=ending.state, cause=ending.cause)

    def _require_fit(self, log: Path) -> None:
        unfit = sorted(
            {character for character in str(log) if character in self.queue.unfit_in_log}
        )
        if unfit:
            raise BenchDataError(
                f"the scheduler can't write to a path that has {' or '.join(map(repr, unfit))}",
                where=str(log),
                why=f"{self.queue.submit[0]} gives these characters a special meaning",
                next_step="name a file in another folder: -o FILE",
            )

    def _submitted(self, frame: Path, log: Path, name: str) -> str:
        queue = self.queue
        argv = _filled(queue.submit, name=name, log=str(log))
        try:
            if queue.script_on_stdin:
                stdout = self.runner(argv, stdin=frame.read_text()).stdout
            else:
                stdout = self.runner([*argv, str(frame)]).stdout
        except CommandNotFoundError as error:
            raise BenchDataError(
                f"no {argv[0]} here",
                why=str(error),
                next_step="run this on a host that can submit jobs, or load the scheduler's module",
            ) from None
        except CommandFailedError as error:
            raise BenchDataError(
                "the scheduler refused the job",
                why=_words(error),
                next_step="check --account, --partition, --time and --nodes; to see the script's "
                "directives: dlcontainer render --format job",
            ) from None
        match = re.search(queue.number, stdout)
        if match is None:
            raise BenchDataError(
                f"`{quote(argv)}` named no job", why=stdout.strip() or "it printed nothing"
            )
        return match["job"]

    def _followed(self, name: str, job: str) -> SchedulerEnding | None:
        """Wait until the job is gone, or its node for good; raises BenchDataError.

        It does where nobody tells for long, and where the job can't go on by itself.
        """
        pause, begun = _ASK_S, time.monotonic()
        heard_at, node, was_listed = begun, _Node(asked_at=begun), False
        while True:
            time.sleep(pause)
            pause = min(_MOST_ASK_S, pause * 1.1)
            try:
                listed = self._listed(name)
                heard_at = time.monotonic()
                away = bool(listed) and self._is_away(name, node)
            except (*_TROUBLE, CommandNotFoundError) as error:
                if time.monotonic() - heard_at > _PATIENCE_S:
                    argv = _filled(self.queue.listing, name=name)
                    raise BenchDataError(
                        f"`{quote(argv)}` has failed for {_PATIENCE_S:.0f} s", why=_words(error)
                    ) from None
                continue
            if away:
                self._cancelled(name)
                return SchedulerEnding(state="its node does not answer", cause="outside")
            for listed_job in listed:
                if listed_job.state in self.queue.stuck:
                    raise self._stuck(listed_job)
            was_listed = was_listed or bool(listed)
            # One that was never listed may have ended already, or be on its way into the list.
            late = time.monotonic() - begun > _LISTED_S
            if not listed and (was_listed or late or self._told(job) is not None):
                return None

    def _listed(self, name: str) -> tuple[QueuedJob, ...]:
        return self._read(self.queue.listing, self.queue.read, name)

    def _read(
        self, words: Sequence[str], read: Callable[[str, str], tuple[QueuedJob, ...]], name: str
    ) -> tuple[QueuedJob, ...]:
        try:
            stdout = self.runner(_filled(words, name=name), timeout=_ANSWER_S).stdout
        except CommandFailedError as error:
            none = self.queue.none_listed
            if none and re.search(none, error.completed.stderr + error.completed.stdout):
                return ()
            raise
        return read(stdout, name)

    def _is_away(self, name: str, node: "_Node") -> bool:
        """Return whether the job's node has been away for long; asked now and then."""
        now = time.monotonic()
        if not self.queue.away or now - node.asked_at < _ASK_AWAY_S:
            return False
        node.asked_at = now
        if not self._read(self.queue.away, self.queue.read_away, name):
            node.since = None
            return False
        node.since = now if node.since is None else node.since
        return now - node.since > _PATIENCE_S

    def _stuck(self, listed_job: QueuedJob) -> BenchDataError:
        explanation = ""
        with suppress(*_TROUBLE, CommandNotFoundError):
            explanation = self.runner(
                _filled(self.queue.explain, job=listed_job.number), timeout=_ANSWER_S
            ).stdout
        return BenchDataError(
            f"the scheduler holds the job in state {listed_job.state}",
            why="\n".join(re.findall(self.queue.reason, explanation)) if self.queue.reason else "",
            next_step="fix the cause and measure into a new file; dlcontainer cancels this job",
        )

    def _cancelled(self, name: str) -> None:
        """Cancel the job, and see it gone: it may be known a moment after its submission ended."""
        deadline = time.monotonic() + _CANCEL_S
        gone = 0
        while gone < 2 and time.monotonic() < deadline:
            try:
                gone = 0 if self._left(name) else gone + 1
            except CommandNotFoundError:
                return  # nor could it be submitted
            except _TROUBLE:
                pass
            time.sleep(_ASK_S)

    def _left(self, name: str) -> bool:
        """Cancel all jobs of a name; tell whether one is left."""
        words = self.queue.cancel
        one_by_one = any("{job}" in word for word in words)
        for listed_job in self._listed(name) if one_by_one else (QueuedJob(number=""),):
            argv = _filled(words, name=name, job=listed_job.number)
            self.runner(argv, check=False, timeout=_ANSWER_S)
        return bool(self._listed(name))

    def _ending(self, job: str) -> SchedulerEnding:
        deadline = time.monotonic() + self.queue.told_within_s
        while True:
            ending = self._told(job)
            if ending is not None or time.monotonic() >= deadline:
                return ending or _UNKNOWN
            time.sleep(_MOST_ASK_S / 2)

    def _told(self, job: str) -> SchedulerEnding | None:
        try:
            argv = _filled(self.queue.ended, job=job)
            return self.queue.ending(self.runner(argv, timeout=_ANSWER_S).stdout)
        except (*_TROUBLE, CommandNotFoundError):
            return None


@dataclass(kw_only=True, slots=True)
class _Node:
    """When a job's node was asked for last, and since when it is away."""

    asked_at: float
    since: float | None = None


def _filled(words: Sequence[str], **values: str) -> list[str]:
    return [word.format(**values) for word in words]


def _words(error: Exception) -> str:
    if isinstance(error, CommandFailedError):
        text = (error.completed.stderr or error.completed.stdout).strip()
        return text or str(error)
    return str(error)
