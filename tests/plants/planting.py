"""Puts a plant of a list in place around a Python tree."""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import yaml

# The item by which each is named; beside it stands whatever else the plant changes.
NAMED = {
    # The first list.
    "malloc-thresholds": "environment.MALLOC_MMAP_THRESHOLD_",
    "primitive-caches-off": "environment.ONEDNN_PRIMITIVE_CACHE_CAPACITY",
    "malloc-fills-memory": "environment.MALLOC_PERTURB_",
    "import-times-printed": "environment.PYTHONPROFILEIMPORTTIME",
    "nice-19": "scheduling.nice",
    "batch-class": "scheduling.policy",
    "idle-io": "scheduling.io",
    "no-huge-pages": "thp_enabled",
    "no-address-randomisation": "personality",
    "stack-without-limit": "limits.stack",
    "cpu-quota": "cgroup.cpu_quota",
    "cpu-shares-above": "cgroup.cpu_weight",
    "seccomp-allows-all": "seccomp",
    "traced": "traced",
    "eager-collector": "collector.thresholds",
    "profile-hook": "hooks.profile",
    "no-byte-code": "byte_code_percent",
    "flush-denormals": "switches.flush_denormal",
    "spinning-thread": "python_threads",
    # The second.
    "no-thread-caches": "environment.GLIBC_TUNABLES",
    "numpy-without-vectors": "environment.NPY_DISABLE_CPU_FEATURES",
    "python-checks-memory": "environment.PYTHONMALLOC",
    "bound-at-load": "environment.LD_BIND_NOW",
    "autogroup-behind": "scheduling.autogroup_nice",
    "slack-timers": "scheduling.timer_slack_ns",
    "one-processor": "affinity",
    "checked-allocator": "environment.LD_PRELOAD",
    "memory-limit": "cgroup.memory_bytes",
    "no-collector": "collector.on",
    "finder-before-all": "hooks.meta_path",
    "no-onednn": "mkldnn_enabled",
    # By rules that came after that list was run.
    "memory-locked": "memory_locked",
    "sampling-timer": "hooks.timers",
    "hook-on-every-module": "switches.module_hooks",
    "byte-code-checked": "byte_code_checked",
}
# Seen by the file that planted them alone: neither the kernel nor Python tells of them.
BY_THEIR_FILE_ALONE = {"audit-hook", "thresholds-set-in-process"}
FOLDER = Path(__file__).resolve().parent
FIRST = FOLDER / "first.yaml"
SECOND = FOLDER / "second.yaml"
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
    """One line of a list; see first.yaml and second.yaml."""

    name: str
    category: str
    by: str
    session: str = "train"
    review: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    wrapper: tuple[str, ...] = ()
    startup: Startup | None = None
    cgroup: Limit | None = None
    beside: tuple[str, ...] = ()
    tree: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Around:
    """What stands before an interpreter's command, joins its environment, and runs beside it."""

    words: tuple[str, ...]
    environment: Mapping[str, str]
    beside: tuple[str, ...] = ()


def load(path: Path) -> tuple[Plant, ...]:
    """Read a list."""
    found = []
    for item in yaml.safe_load(path.read_text()):
        if "startup" in item:
            item["startup"] = Startup(**item["startup"])
        if "cgroup" in item:
            item["cgroup"] = Limit(**item["cgroup"])
        words = {key: tuple(item.get(key, ())) for key in ("wrapper", "beside")}
        found.append(Plant(**{**item, **words}))
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
            _TREES[plant.tree](tree)
        words = _wrapper(plant.wrapper)
        if plant.cgroup:
            group = stack.enter_context(_group(plant.cgroup))
            words = ("/bin/sh", "-c", _ENTER, str(group), *words)
        beside = (sys.executable, str(TREATED), *plant.beside) if plant.beside else ()
        yield Around(words=words, environment=plant.environment, beside=beside)


def wrap(tree: Path, around: Around) -> None:
    """Put a script in the place of a tree's bin/python, so that each start has it around."""
    words, beside = (" ".join(map(shlex.quote, one)) for one in (around.words, around.beside))
    lines = [f"export {name}={shlex.quote(value)}" for name, value in around.environment.items()]
    start = f'{words} {shlex.quote(f"{tree}/bin/python3")} "$@"'
    if beside:
        lines += [f"{beside} & hog=$!", start, "code=$?", 'kill "$hog"', 'exit "$code"']
    else:
        lines.append(f"exec {start}")
    python = tree / "bin" / "python"
    python.unlink()
    python.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    python.chmod(0o755)


def packages(tree: Path) -> Path:
    """Give the folder of a tree's packages."""
    (found,) = tree.glob("lib/python3*/site-packages")
    return found


def _wrapper(words: tuple[str, ...]) -> tuple[str, ...]:
    if words[:1] in (("prctl",), ("seccomp",)):
        return (sys.executable, str(TREATED), words[0], words[-1])
    return words


def _without_byte_code(tree: Path) -> None:
    for folder in list(tree.rglob("__pycache__")):
        shutil.rmtree(folder)


def _checked_byte_code(tree: Path) -> None:
    _without_byte_code(tree)
    words = ("-m", "compileall", "-q", "-j", "2", "--invalidation-mode", "checked-hash")
    # Some packages bring files for other versions of Python, which do not compile.
    subprocess.run([f"{tree}/bin/python3", *words, str(packages(tree))], check=False, timeout=900)


_TREES = {
    "remove every __pycache__": _without_byte_code,
    "check byte code by its hash": _checked_byte_code,
}


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
