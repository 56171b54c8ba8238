"""What tests of terminals share: what each command is typed with, files to read, a terminal."""

import functools
import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.cli import layout, main
from dlcontainer.cli.context import CliContext
from dlcontainer.lab.storm import loads
from dlcontainer.lab.storm.loads import LoadMeasurement
from dlcontainer.lab.storm.repeats import MeasuringNode
from dlcontainer.packages import lockfile
from tests import findings, forecasts, locks, publishing, residents, stepseries, studies, unpacked
from tests.stepseries import Plant
from tests.trees import hand, image_file, put
from tests.unit.bench.analysis.test_session_analysis import RECORDINGS
from tests.unit.proof import cases

ESCAPE = re.compile(r"\x1b\[[0-9;]*[mK]")
# What is copied from the screen, and so is broken nowhere, begins so.
_TYPED = ("$ ", "dlcontainer ", "module ", "reframe ", "sudo ", "/")


@dataclass(frozen=True, kw_only=True)
class Typed:
    """A command with arguments; names in braces are files of `Samples`.

    `verbatim` prints a text for files, which no terminal changes; `runs` starts processes.
    """

    words: str
    verbatim: bool = False
    runs: bool = False


# What each command that reads is typed with. One that is in neither table has no test of what it
# prints: add it here, with arguments for `Samples`, or to WRITES.
READS: Mapping[str, tuple[str | Typed, ...]] = {
    "": ("--version", "--help"),
    "bench forecast": (
        "{facts} --nodes 4 --budget 100",
        "{study}",
        "{facts} --memory 40GB",
        "{nosuch}",
    ),
    "bench nodes": ("{steps}",),
    "lab storm": ("--site lumi --nodes 128 --ranks-per-node 8 --loads {loads}",),
    "build": (Typed(words="pytorch --site local --dry-run", runs=True),),
    "cache list": ("", "-v"),
    "diff": (Typed(words="{image} {other}", runs=True),),
    "scan": (
        Typed(words="{image} --database {empty}", runs=True),
        Typed(words="{image} --database {empty} --sarif", runs=True, verbatim=True),
    ),
    "doctor": (Typed(words="", runs=True),),
    "site environment": ("", "{image}", "--site lumi"),
    "inspect": tuple(
        Typed(words=f"{{image}}{more}", runs=True) for more in ("", " --packages", " --sbom")
    ),
    "lock": ("--diff {old} {new}", "--diff {old} {old}"),
    "modules audit": ("--root {tree}",),
    "modules catalogue": ("--root {tree}",),
    "modules gc": (Typed(words="--root {tree} --dry-run", runs=True),),
    "modules find": ("demo --root {tree}", "nothing --root {tree}"),
    "modules history": ("--root {tree}",),
    "modules list": ("--root {tree}", "--root {tree} -v", "--root {empty}"),
    "plan": (
        "pytorch --site lumi",
        "pytorch --site local -v",
        "pytorch --site nosuch",
        "--all --site lumi",
        "caffe --all",
        "caffe --all -v",
    ),
    "prove": ("{good}", "{bad}"),
    "recipe list": ("",),
    "recipe schema": (Typed(words="", verbatim=True),),
    "recipe show": ("pytorch", "pytorch --site lumi -v", "pytroch"),
    "render": (
        Typed(words="pytorch --site local", verbatim=True),
        Typed(words="pytorch --site lumi --format job", verbatim=True),
    ),
    "report": ("{session}", "{session} {imports} {findings}", "{groups}", "{nosuch}"),
    "site detect": (Typed(words="", runs=True),),
    "site drift": (Typed(words="local --root {tree}", runs=True),),
    "site diff": ("lumi frontier", "summit@2021 summit@2024"),
    "site list": ("", "-v"),
    "site outdated": ("perlmutter", "lum"),
    "site schema": (Typed(words="", verbatim=True),),
    "site show": ("lumi", "lumi -v", "frontier", "lum", "delta --proof {good}"),
    "validate": (
        Typed(words="{image}", runs=True),
        Typed(words="{image} --static --site local", runs=True),
        "{unpacked} --static --site lumi",
        Typed(words="{unpacked} --static --site lumi --sarif", verbatim=True),
        "{unpacked} --static",
    ),
    "evidence verify": (Typed(words="{image}", runs=True),),
}
# What these print comes after their work, in tests of their own.
WRITES = frozenset(
    {
        *(
            "adopt",
            "evidence attest",
            "evidence sign",
            "extend",
            "fetch",
            "publish",
            "pull",
            "push",
        ),
        *("base make", "base pin", "cache prune", "recipe new", "recipe outdated", "setup engine"),
        "site new",
        *("export ecl", "export jupyter", "export reframe", "export threads"),
        *(f"modules {one}" for one in ("alias", "default", "deprecate", "promote", "rollback")),
        "modules unpublish",
        *("bench collectives", "bench convergence", "bench import", "bench input", "bench kernels"),
        *("bench threads", "bench train", "bench transfers", "bench variability"),
        *("lab count", "bench job", "lab probe-fs", "bench import-matrix", "lab slowfs"),
        *("lab slownet", "bench suite", "bench scaling", "bench trace"),
    }
)


def typed() -> Iterator[Typed]:
    """List all command lines that read, whole."""
    for name, lines in READS.items():
        for line in lines:
            one = line if isinstance(line, Typed) else Typed(words=line)
            yield replace(one, words=f"{name} {one.words}".strip())


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Files that commands are typed with, by name; `home` is an empty one."""

    home: Path
    files: Mapping[str, str]

    def words(self, line: str) -> list[str]:
        """Fill in the files of a command line."""
        found: list[str] = []
        for word in line.split():
            name = word.removeprefix("{").removesuffix("}")
            found += self.files[name].split("\n") if name != word else [word]
        return found


def samples(folder: Path) -> Samples:
    """Write the files that READS names."""
    home = folder / "home"
    cache = home / ".cache/dlcontainer"
    cache.mkdir(parents=True)
    (cache / f"trial-{'a-host' * 9}-0.json").write_text("{}")
    made = {"a proof": ("good", {}), "another": ("bad", {"network": "socket"})}
    proofs = {}
    for name, (state, nccl) in made.items():
        there = cases.image(site="delta", node_type="a100x4")
        ranks = [cases.rank(number, **({"nccl": nccl} if nccl else {})) for number in range(8)]
        proofs[state] = cases.write(folder / f"{name}.json", cases.content(ranks, image=there))
    lockfile.write(folder / "old.json", locks.lock())
    base = locks.lock().base.model_copy(update={"packages": (locks.deb("mawk", "2"),)})
    lockfile.write(folder / "new.json", locks.lock(base=base))
    kept = LoadMeasurement(
        loads=findings.LOADS,
        image_mb=330.0,
        profile="lustre",
        subject="torch",
        node=MeasuringNode(cores=64, load_1min=0.4),
        timings={},
    )
    loads.write(kept, folder / "loads.json")
    slow = Plant(nodes=tuple(f"nid{number:06}" for number in range(12)), slow={"nid000007": 1.2})
    nodes = stepseries.write(folder / "steps.jsonl", slow)
    (folder / "found").mkdir()
    found = "\n".join(map(str, findings.all_of(folder / "found")))
    files = {
        **{name: str(path) for name, path in proofs.items()},
        **{name: str(folder / f"{name}.json") for name in ("old", "new", "loads")},
        "steps": str(nodes),
        "facts": str(forecasts.write(folder)),
        "study": str(studies.write(folder / "study", studies.plan())),
        "findings": found,
        "session": str(RECORDINGS / "other-torch.jsonl"),
        "imports": str(RECORDINGS / "import.jsonl"),
        "groups": str(residents.write(folder / "groups.jsonl", residents.Truth())),
        "nosuch": str(folder / "no such session, as its name says.jsonl"),
        "image": str(publishing.image_of(folder / "images")),
        "other": str(publishing.image_of(folder / "others", b"another")),
        "tree": str(_tree(folder)),
        "unpacked": str(unpacked.broken(folder / "unpacked")),
        "empty": str(_empty(folder)),
    }
    return Samples(home=home, files=files)


def _tree(folder: Path) -> Path:
    """Publish two versions, one of them the default, the other deprecated."""
    root, by = folder / "sw", hand()
    root.mkdir()
    put(root, image_file(folder / "one"), by=by)
    put(root, image_file(folder / "two", b"another"), "2.0", by=by)
    return root


def _empty(folder: Path) -> Path:
    root = folder / "nothing"
    root.mkdir()
    return root


def read_once(patch: pytest.MonkeyPatch) -> None:
    """Settle each site and each matrix once: the tests are of what is shown of them."""
    kept: dict[str, Any] = {}

    def once(name: str, usual: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(usual)
        def read(world: CliContext, *words: Any, **named: Any) -> Any:
            key = repr((name, words, named, world.user_folder))
            if key not in kept:
                found = usual(world, *words, **named)
                kept[key] = list(found) if name == "matrix" else found
            return kept[key]

        return read

    for name in ("site", "matrix"):
        patch.setattr(CliContext, name, once(name, getattr(CliContext, name)))


class Terminal(io.StringIO):
    """A stream that says it is a terminal; its width is that of COLUMNS."""

    def isatty(self) -> bool:
        return True


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What a command showed, without colours, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return [*self.out.splitlines(), *self.err.splitlines()]


def show(words: list[str], monkeypatch: pytest.MonkeyPatch, columns: int | None) -> Shown:
    """Run a command in this process, on a terminal so wide; None is a pipe."""
    out, err = (Terminal(), Terminal()) if columns else (io.StringIO(), io.StringIO())
    with monkeypatch.context() as patch:
        patch.setenv("COLUMNS", str(columns or ""))
        patch.setenv("TERM", "xterm")
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        code = main._run(words, as_json=False)
    return Shown(code=code, out=ESCAPE.sub("", out.getvalue()), err=ESCAPE.sub("", err.getvalue()))


def too_wide(text: str, columns: int) -> list[str]:
    """List the lines that don't fit, but for what is copied: one word alone, or a command."""
    return [
        line
        for line in text.splitlines()
        if layout.cells(line) > columns
        and len(line.split()) > 1
        and not line.lstrip().startswith(_TYPED)
    ]
