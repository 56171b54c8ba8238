"""Work beside the work: threads whose processes end with them, and that end with a build."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from dlcontainer.system.process import ProcessRunner, Runner

T = TypeVar("T")


@dataclass(kw_only=True, slots=True)
class BackgroundTask(Generic[T]):
    """One call in a thread of its own."""

    _call: Callable[[], T]
    _done: list[T] = field(default_factory=list)
    _error: BaseException | None = None
    _thread: threading.Thread | None = None
    # Not the thread's own join alone: Python 3.11 takes a thread for ended once a signal's
    # exception has interrupted a join (bpo-45274).
    _ended: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Begin; a thread that hangs does not keep the program from ending."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def runs(self) -> bool:
        """Return whether it has not ended yet."""
        return self._thread is not None and not self._ended.is_set()

    def join(self) -> None:
        """Wait for its end, whatever that is."""
        if self._thread is not None:
            self._ended.wait()
            self._thread.join()

    def result(self) -> T:
        """Wait for what it gives, or raise what it raised."""
        self.join()
        if self._error is not None:
            raise self._error
        return self._done[0]

    def _run(self) -> None:
        try:
            self._done.append(self._call())
        except BaseException as error:  # noqa: BLE001  raised again by `result`
            self._error = error
        finally:
            self._ended.set()


@dataclass(kw_only=True, slots=True)
class BackgroundWork:
    """Starts work beside the work; `runner` is the build's, which ends with it."""

    runner: Runner
    _tasks: list[BackgroundTask[object]] = field(default_factory=list)

    def start(self, call: Callable[[Runner], T]) -> BackgroundTask[T]:
        """Begin a call in a thread; the runner that it gets is ended with this."""
        task = BackgroundTask(_call=lambda: call(self.runner))
        self._tasks.append(task)  # type: ignore[arg-type]
        task.start()
        return task

    def join(self) -> None:
        """Wait for all that was started."""
        for task in self._tasks:
            task.join()


@contextlib.contextmanager
def beside(runner: Runner) -> Iterator[BackgroundWork]:
    """Hand out what starts work beside the work; when this ends, none of it runs any more.

    What is not done then is ended: its commands raise CommandEndedError. Python's own work
    (a checksum, a file that settles) is waited for.
    """
    reading_end, ending = os.pipe()
    try:
        endable = (
            replace(runner, ending=reading_end) if isinstance(runner, ProcessRunner) else runner
        )
        work = BackgroundWork(runner=endable)
        try:
            yield work
        finally:
            os.write(ending, b"!")
            work.join()
    finally:
        os.close(reading_end)
        os.close(ending)
