"""The job of one session of a study: a script that runs `dlcontainer bench` on the job's nodes."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.system import atomic_files

# What a scheduler may hand on or not: where programs, caches and settings of the user's are.
_HANDED = (
    *("PATH", "LD_LIBRARY_PATH", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS"),
    *("DLCONTAINER_PATH", "APPTAINER_USERNS"),
)
_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from dlcontainer.cli.main import run; run()"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPaths:
    """The files of a session's job: its script, and the log that the scheduler writes."""

    script: Path
    log: Path


def paths(folder: Path, title: str) -> JobPaths:
    """Return the files of a job, beside its session."""
    return JobPaths(script=folder / f"{title}.sh", log=folder / f"{title}.log")


def program(python: str, package: Path) -> tuple[str, ...]:
    """Return the words that start this very program on another node: by its folder."""
    return (python, "-I", "-c", _START, str(package))


@dataclass(frozen=True, kw_only=True, slots=True)
class JobCommand:
    """What a job runs: its words, the folder that these were typed in, the environment there."""

    words: Sequence[str]
    cwd: Path
    environ: Mapping[str, str]


def write(script: Path, head: Sequence[str], command: JobCommand) -> Path:
    """Write a job's script: the site's lines, this environment's folders, the command."""
    handed = {name: command.environ[name] for name in _HANDED if command.environ.get(name)}
    lines = [
        "#!/bin/bash",
        *head,
        # Paths of the command may be relative ones.
        f"cd {shlex.quote(str(command.cwd))} || exit 3",
        *(f"export {name}={shlex.quote(value)}" for name, value in handed.items()),
        shlex.join(command.words),
        "code=$?",
        # Grid Engine runs a job again that exits with 99, and other queues may have such codes.
        "exit $((code != 0))",
    ]
    atomic_files.write(script, "\n".join(lines) + "\n")
    return script
