"""One mount for many ranks: an instance of the image that the session holds, and others join.

The session starts it and stops it. It lives below one command of the session's runner, which
waits on a pipe that only the session holds open: when the session ends, however it ends, the pipe
and the runner's lifeline close, and the supervisor ends every process of the instance, and with
the last of them its mount.
"""

import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dlcontainer.bench.measure.context import BenchContext
from dlcontainer.engines import apptainer
from dlcontainer.engines.engine import Binds, Containment, RunSpec
from dlcontainer.engines.execution import Execution
from dlcontainer.system.process import (
    CommandFailedError,
    CommandNotFoundError,
    CommandTimeoutError,
    Runner,
)

_READY = "dlc-instance-ready"
# "$@" starts the instance, which stays below this shell; the pipe's end ends the waiting.
_HOLD = f'pipe=$1; shift; "$@" && echo {_READY} && read -r _ < "$pipe"'
_START_S = 120.0
_STOP_S = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Instance:
    """A running instance: its name, and where the engine keeps its state."""

    name: str
    state: Path


class CannotShareError(Exception):
    """No instance could be started here; the text says why."""


@dataclass(slots=True)
class _InstanceHolder:
    """The command that holds the instance, in a thread of its own."""

    runner: Runner
    argv: list[str]
    environment: dict[str, str]
    ready: threading.Event = field(default_factory=threading.Event)
    lines: list[str] = field(default_factory=list)
    up: bool = False

    def line(self, text: str) -> None:
        self.lines.append(text)
        if text == _READY:
            self.up = True
            self.ready.set()

    def run(self) -> None:
        try:
            self.runner(self.argv, env=self.environment, on_line=self.line)
        except (CommandFailedError, CommandNotFoundError, OSError) as error:
            self.lines.append(str(error))
        finally:
            self.ready.set()


def starting(
    context: BenchContext, image: Path, binds: Binds = (), contained: Containment = ""
) -> RunSpec:
    """Return what starts an instance, in the site's surroundings.

    With `binds` the joiners are the ranks of one launch, who share the host's /tmp and memory.
    """
    return RunSpec(
        image=image,
        argv=(),
        mode=context.execution.run_mode,
        binds=binds,
        together=bool(binds),
        accelerators=context.accelerators,
        site_words=context.surroundings.words,
        contained=contained,
    )


def environment(context: BenchContext, state: Path) -> dict[str, str]:
    """Return the engine's own environment for an instance."""
    # Where nothing can mount, the engine unpacks the image: into a folder that is removed for it.
    environ = apptainer.environment(
        context.execution.host.environ, tmpdir=context.work, state=state
    )
    return {**environ, **context.surroundings.environment}


@contextmanager
def shared(
    context: BenchContext, image: Path, binds: Binds = (), contained: Containment = ""
) -> Iterator[Instance]:
    """Mount an image once for the ranks that join; raises CannotShareError where that fails."""
    execution, name = context.execution, f"dlc-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    instance = Instance(name=name, state=context.work / "state")
    instance.state.mkdir()
    pipe = context.work / "hold"
    os.mkfifo(pipe, 0o600)
    environ = environment(context, instance.state)
    spec = starting(context, image, binds, contained)
    start = execution.engine.start_argv(spec, instance.name)
    holder = _InstanceHolder(
        execution.runner, ["/bin/sh", "-c", _HOLD, "sh", str(pipe), *start], environ
    )
    # Read and write: a pipe without a reader would keep us waiting here.
    handle = os.open(pipe, os.O_RDWR | os.O_CLOEXEC)
    # The supervisor dies with the thread that started it (prctl(2), PR_SET_PDEATHSIG): this one
    # lives as long as the instance.
    thread = threading.Thread(target=holder.run, name="dlcontainer-instance")
    thread.start()
    try:
        holder.ready.wait(_START_S)
        if not holder.up:
            raise CannotShareError(_last(holder.lines) or "the engine said nothing")
        yield instance
    finally:
        _stop(execution, instance, environ)
        os.close(handle)
        thread.join(_STOP_S)


def _stop(execution: Execution, instance: Instance, environment: dict[str, str]) -> None:
    try:
        execution.runner(
            execution.engine.stop_argv(instance.name), env=environment, timeout=_STOP_S
        )
    except (CommandFailedError, CommandNotFoundError, CommandTimeoutError):
        return  # it never started, or ended by itself; the supervisor ends what is left


def _last(lines: list[str]) -> str:
    return next((line for line in reversed(lines) if line.strip()), "")
