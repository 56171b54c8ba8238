"""Puts a plant of a list in place around a Python tree."""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import yaml

FOLDER = Path(__file__).resolve().parent
FIRST = FOLDER / "first.yaml"
TREATED = FOLDER / "treated.py"
# Where version 1's controllers are usually mounted.
CGROUPS = Path("/sys/fs/cgroup")
_ENTER = 'echo $$ > "$0/tasks" && exec "$@"'


@dataclass(frozen=True, kw_only=True, slots=True)
class Startup:
    """A file that Python runs at its start."""

    name: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """A file of a cgroup, and what is written to it; `above`: not to that of the process itself."""

    controller: str
    file: str
    value: str
    above: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Plant:
    """One line of a list; see first.yaml."""

    name: str
    category: str
    by: str
    review: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    wrapper: tuple[str, ...] = ()
    startup: Startup | None = None
    cgroup: Limit | None = None
    beside: str = ""
    tree: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Around:
    """What stands before an interpreter's command, and joins its environment."""

    words: tuple[str, ...]
    environment: Mapping[str, str]


def load(path: Path) -> tuple[Plant, ...]:
    """Read a list."""
    found = []
    for item in yaml.safe_load(path.read_text()):
        if "startup" in item:
            item["startup"] = Startup(**item["startup"])
        if "cgroup" in item:
            item["cgroup"] = Limit(**item["cgroup"])
        found.append(Plant(**{**item, "wrapper": tuple(item.get("wrapper", ()))}))
    return tuple(found)


@contextmanager
def planted(plant: Plant, tree: Path) -> Iterator[Around]:
    """Put a plant in place; all but what was done to the tree is gone at the end."""
    with ExitStack() as stack:
        if plant.startup:
            path = packages(tree) / plant.startup.name
            path.write_text(plant.startup.text + "\n")
            stack.callback(path.unlink)
        if plant.tree:
            for folder in list(tree.rglob("__pycache__")):
                shutil.rmtree(folder)
        words = _wrapper(plant.wrapper)
        if plant.cgroup:
            group = stack.enter_context(_group(plant.cgroup))
            words = ("/bin/sh", "-c", _ENTER, str(group), *words)
        if plant.beside:
            hog = subprocess.Popen([sys.executable, str(TREATED), "hog"])
            stack.callback(hog.wait)
            stack.callback(hog.kill)
        yield Around(words=words, environment=plant.environment)


def packages(tree: Path) -> Path:
    """Give the folder of a tree's packages."""
    (found,) = tree.glob("lib/python3*/site-packages")
    return found


def _wrapper(words: tuple[str, ...]) -> tuple[str, ...]:
    if words[:1] in (("prctl",), ("seccomp",)):
        return (sys.executable, str(TREATED), words[0], words[-1])
    return words


@contextmanager
def _group(limit: Limit) -> Iterator[Path]:
    above = CGROUPS / limit.controller / f"dlc-plant-{uuid4().hex[:8]}"
    own = above / "own"
    own.mkdir(parents=True)
    try:
        ((above if limit.above else own) / limit.file).write_text(limit.value)
        yield own
    finally:
        own.rmdir()
        above.rmdir()
