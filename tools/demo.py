#!/usr/bin/env python3
"""The demo, from a bare machine to a report: set up, build, validate, publish, load, compare.

Says beforehand how long it takes and how much it keeps, in the first minute what is impossible
here, and at the end what was left out for that reason.
"""

import argparse
import json
import os
import shlex
import shutil
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tools  # noqa: F401  first: an older Python is refused there
from dlcontainer.engine_setup import aptget
from dlcontainer.engine_setup.commands import root_argv, run
from dlcontainer.engine_setup.programs import WAYS_TO_A_BASE, search_path
from dlcontainer.engine_setup.set_up import TITLES as ENGINE_TITLES
from dlcontainer.engine_setup.surroundings import note, say
from dlcontainer.errors import EngineError
from tools import setup_engine, setup_tests, setup_venv
from tools.console import CONSOLE, run_steps, verbose_by
from tools.processes import pass_through
from tools.setup_venv import LOG, PROJECT

# The demo's own folder, and what stays of set-up and cache: docs/start/bare-machines.md.
_CHECKOUT_MB, _CACHE_MB = 1500, 600
_TAKES = "10 to 13 minutes on two idle cores, three times that on busy ones"
_LMOD = Path("/usr/share/lmod/lmod/init/sh")
# Resident groups: their ratio scatters by 1.5 to 3 % a group on two idle cores (pairs of launches:
# 4 to 17 %), so that 8 of them, the fewest that a verdict takes, decide 5 %. In a noisy hour it
# takes 16 (of 50 sessions 13 went on, 11 of them to 16: docs/measurements/verdict.md). The image
# has no GPU's libraries. On a machine that is too busy to decide, each takes one look and says so.
_ONE_LOOK = "--one-look-if-busy"
_LOOKS = "8,16"
# Simulated: how often training is decided where nothing differs, at 2 to 3 and at 4.3 % a group.
_DECIDES = (
    "it ends after 8 groups of processes, or after 16; on idle cores that decides in 99 of 100 "
    "sessions, in a noisy hour in 86"
)
_TRAIN = ("--margin", "5%", "--looks", _LOOKS, "--threads", "1", "--device", "cpu", _ONE_LOOK)
_IMPORTS = ("--pairs", "8", "--controls", "4", _ONE_LOOK)
# What a session declares that was not cut short.
_WHOLE: Mapping[str, Mapping[str, object]] = {
    "import": {"control_pairs": 4},
    "training": {"looks": [8, 16]},
}
# From the distribution, where it may be installed: a module system, what the native side needs,
# what mounts a stand-in for a shared file system.
_PACKAGES = ("lmod", "libgomp1", "fuse3")
_FUSE = Path("/dev/fuse")
_MATRIX = "benchmarks/demo-shared.yaml"
# The steps, as they are numbered.
_SET_UP = (setup_venv.TITLE, *ENGINE_TITLES, setup_tests.TITLE)
_LOOK, _BUILD, _VALIDATE, _PUBLISH = "this machine", "build", "validate", "publish"
_LOAD, _IMPORT, _TRAINING, _REPORT = "load", "measure import", "measure training", "report"
_SHARED = "measure import from a shared file system"


@dataclass(kw_only=True, slots=True)
class Demo:
    """One run: where its programs are, how it builds, and what it had to leave out."""

    bin: Path
    extras: str
    build_options: tuple[str, ...]
    left_out: list[str] = field(default_factory=list)

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self.bin), os.environ.get("PATH", os.defpath)])
        return {"PATH": path, **CONSOLE.environment()}

    def call(self, *argv: str) -> None:
        """Run a command of dlcontainer's or a script, its output shown as it comes."""
        code = pass_through(argv, cwd=PROJECT, env=self._environment())
        if code != 0:
            # It has said why, and what to do next.
            raise SystemExit(code)

    def dlcontainer(self, *argv: str) -> None:
        """Run dlcontainer."""
        self.call(str(self.bin / "dlcontainer"), *argv)

    def answer(self, *argv: str) -> dict[str, Any]:
        """Return dlcontainer's JSON; an error of its ends the demo with its exit code."""
        command = [str(self.bin / "dlcontainer"), *argv, "--json"]
        done = run(command, cwd=PROJECT, env=self._environment(), check=False)
        try:
            body = dict(json.loads(done.stdout))
        except ValueError:
            raise EngineError(f"failed: {' '.join(command)}", why=done.stderr) from None
        if "exit_code" in body:
            print(done.stderr, end="", file=sys.stderr, flush=True)
            raise SystemExit(int(body["exit_code"]))
        return body


def titles() -> list[str]:
    """List the steps that this run will take."""
    may_install = aptget.available() and root_argv() is not None
    may_load = _LMOD.is_file() or may_install
    may_share = why_not_shared() is None or (
        may_install and os.access(_FUSE, os.R_OK | os.W_OK) and not shutil.which("fusermount3")
    )
    own = (_LOOK, _BUILD, _VALIDATE, _PUBLISH, *((_LOAD,) if may_load else ()))
    measured = (_IMPORT, *((_SHARED,) if may_share else ()), _TRAINING)
    return [*_SET_UP, *own, *measured, _REPORT]


def why_not_shared() -> str | None:
    """Return why no stand-in for a shared file system can be mounted here; None where one can."""
    if not _FUSE.exists():
        return "no /dev/fuse"
    if not os.access(_FUSE, os.R_OK | os.W_OK):
        return f"this user may not open {_FUSE}"
    program = shutil.which("fusermount3")
    if program is None:
        return "no fusermount3: an administrator types: apt-get install fuse3"
    if os.geteuid() != 0 and not Path(program).stat().st_mode & stat.S_ISUID:
        return (
            f"{program} is not setuid root, so users can't mount: an administrator types: "
            "apt-get install --reinstall fuse3"
        )
    return None


def free_mb(folder: Path) -> int:
    """Return the free space for this user, MB, at the nearest folder that is there."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free // 1_000_000


def require_room(checkout: Path, cache: Path) -> None:
    """Stop before anything is written where the disk is too small or read-only."""
    if not os.access(checkout, os.W_OK):
        raise EngineError(
            f"can't write to {checkout}",
            why="the environment, the engine and the demo's files go there",
            next_step="clone the repository into a folder of your own and type make demo there",
        )
    needs = {checkout: _CHECKOUT_MB, cache: _CACHE_MB}
    if _device(checkout) == _device(cache):
        needs = {checkout: _CHECKOUT_MB + _CACHE_MB}
    for folder, needed in needs.items():
        free = free_mb(folder)
        if free < needed:
            raise EngineError(
                f"only {free} MB free at {folder}",
                why=f"the demo keeps {needed} MB there",
                next_step="free some, clone the repository onto a larger disk, or point "
                "XDG_CACHE_HOME to one",
            )


def _device(folder: Path) -> int:
    while not folder.exists():
        folder = folder.parent
    return folder.stat().st_dev


def before(demo: Demo) -> None:
    """Say what is ahead, and stop here where it can't end well."""
    path = search_path(demo.bin)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    CONSOLE.print(
        f"the demo takes {_TAKES}, and keeps {_CHECKOUT_MB + _CACHE_MB} MB "
        f"({_CHECKOUT_MB} here, {_CACHE_MB} in {cache})"
    )
    CONSOLE.print(f"its {len(CONSOLE.titles)} steps: {', '.join(CONSOLE.titles)}")
    require_room(PROJECT, cache)
    if not (demo.build_options or aptget.available() or shutil.which("mmdebstrap", path=path)):
        raise EngineError(
            "the demo's base can't be made here",
            why="no mmdebstrap, and no apt-get to fetch it with",
            next_step=f"{WAYS_TO_A_BASE}\n        and then: make demo BUILD='--offline BUNDLE' "
            "(make setup brings dlcontainer itself)",
        )


def set_up(demo: Demo) -> None:
    """Make the environment, the engine, and what of the rest may be installed."""
    prefix = PROJECT / ".tools"
    setup_venv.step(demo.bin.parent, demo.extras)
    # The look at this machine says what is missing for this user's ids and devices.
    setup_engine.steps(prefix, demo.bin, judged=True)
    setup_tests.step(_PACKAGES, prefix, demo.bin)


def look_ahead(demo: Demo) -> str:
    """Return what is impossible here, before the first long step, and return the image's name.

    EngineError where nothing is possible.
    """
    CONSOLE.step(_LOOK, "a tiny image is built and run")
    answer = demo.answer("doctor")
    findings = answer["findings"]
    _tell(findings)
    states = {each["name"]: each["state"] for each in findings}
    if states.get("base") != "ok" and not demo.build_options:
        raise EngineError(
            "the demo's base can't be made here",
            why="the line 'base', above",
            next_step=f"{WAYS_TO_A_BASE}\n        and then: make demo BUILD='--offline BUNDLE'",
        )
    if not answer.get("ok", True):
        raise EngineError("can't build or run images here", why="the lines above")
    plan = demo.answer("plan", "pytorch", "--site", "local")
    for text in plan["notes"]:
        if text.startswith("no native twin"):
            demo.left_out.append(f"an installation on this machine to compare with ({text})")
        else:
            note(text)
    if not _LMOD.is_file():
        demo.left_out.append("module load (no lmod: an administrator types: apt-get install lmod)")
    if why := why_not_shared():
        demo.left_out.append(f"import from a shared file system: not measured ({why})")
    if states.get("/dev/fuse") != "ok":
        demo.left_out.append("mounting the image: it was unpacked for each run (no /dev/fuse)")
    for text in demo.left_out:
        note(f"not possible here, the rest goes on: {text}")
    return str(plan["name"])


def _tell(findings: list[dict[str, Any]]) -> None:
    """Print what doctor found amiss, and how much was well."""
    for each in findings:
        if each["state"] != "ok":
            mend = f"\n        {each['mend']}" if each.get("mend") else ""
            note(f"{each['name']}: {each.get('detail', '')}{mend}")
        elif CONSOLE.verbose:
            say(f"ok: {each['name']}: {each.get('detail', '')}")
    well = sum(each["state"] == "ok" for each in findings)
    say(f"{well} of {len(findings)} checks are well (dlcontainer doctor names them)")


def go(demo: Demo, name: str) -> None:
    """Build, validate, publish, go back, load, compare and report."""
    folder = Path("demo")
    image = str(folder / f"{name}.sif")
    local = ("--site", "local")
    CONSOLE.step(_BUILD)
    more = ("-v",) if CONSOLE.verbose else ()
    demo.dlcontainer("build", "pytorch", *local, "-o", str(folder), *more, *demo.build_options)
    CONSOLE.step(_VALIDATE)
    demo.dlcontainer("validate", image, *local)
    shutil.rmtree(PROJECT / folder / "software", ignore_errors=True)
    CONSOLE.step(_PUBLISH, "publish, take back, go back, publish again")
    publish(demo, image, folder / "software")
    if _LMOD.is_file():
        CONSOLE.step(_LOAD)
        modules = str(folder / "software/modules/lmod")
        demo.call("sh", str(PROJECT / "tools/load_module.sh"), modules, "pytorch")
    compare(demo, image, folder)


def compare(demo: Demo, image: str, folder: Path) -> None:
    """Measure the image against this machine's own installation, and report."""
    samples = [str(folder / name) for name in ("import.jsonl", "train.jsonl")]
    shared = str(folder / "shared.jsonl")
    for sample in (*samples, shared):
        (PROJECT / sample).unlink(missing_ok=True)
    of = ("--site", "local", "--image", image)
    CONSOLE.step(_IMPORT)
    demo.dlcontainer("bench", "import", *of, *_IMPORTS, "-o", samples[0])
    if why := why_not_shared() or _busy():
        findings = [_left_out(folder / "shared.json", why)]
        if why_not_shared() is None:
            demo.left_out.append(f"import from a shared file system: not measured ({why})")
    else:
        CONSOLE.step(_SHARED, "4 ranks, 1 ms a call, emulated")
        # More ranks than cores: a launcher of an MPI would ask for --oversubscribe.
        ranks = f"{shlex.quote(str(demo.bin / 'python'))} -I -m dlcontainer.system.rank_processes"
        demo.dlcontainer(
            *("bench", "import-matrix", _MATRIX, *of),
            *("--launcher", f"{ranks} {{ranks}}", "-o", shared),
        )
        findings = [shared]
    CONSOLE.step(_TRAINING)
    say(_DECIDES)
    demo.dlcontainer("bench", "train", *of, *_TRAIN, "-o", samples[1])
    busy = too_busy(dict(zip(_WHOLE, (PROJECT / sample for sample in samples), strict=True)))
    if busy:
        demo.left_out.append(busy)
    CONSOLE.step(_REPORT)
    demo.dlcontainer("report", *samples, *findings, "-o", str(folder / "report.html"))


def _left_out(path: Path, why: str) -> str:
    """Write down for the report why the third session was left out."""
    body = {"schema": "dlcontainer/not-measured/1", "command": "bench import-matrix", "why": why}
    (PROJECT / path).parent.mkdir(parents=True, exist_ok=True)
    (PROJECT / path).write_text(json.dumps(body) + "\n", encoding="utf-8")
    return str(path)


def _busy() -> str | None:
    """Return why a matrix, which takes no fewer looks, would take all too long here."""
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    return f"load {load:.1f} on {cores} cores: make demo again" if load > 3 * cores else None


def too_busy(samples: Mapping[str, Path]) -> str | None:
    """Return which sessions took one look in place of all, and why; None where none did.

    A session itself decides that, by the load that it sees as it begins, and declares it.
    """
    cut = []
    for name, path in samples.items():
        with path.open(encoding="utf-8") as file:
            session = json.loads(file.readline())
        if any(session["declared"].get(key) != value for key, value in _WHOLE[name].items()):
            cut.append((name, session["machine"]))
    if not cut:
        return None
    machine = cut[-1][1]
    busy = machine.get("busy_cores")
    now = "" if busy is None else f", {busy:.1f} of them busy"
    return (
        f"a verdict on {' and '.join(name for name, _ in cut)}: this machine is too busy to decide "
        f"(load {machine['load_1min']:.1f} on {machine['cores']} cores{now}). That says nothing "
        "about the container; when the machine is idle: make demo"
    )


def publish(demo: Demo, image: str, root: Path) -> None:
    """Publish, take it back, go back to what was live, and publish again: nothing is new then."""
    site = ("--site", "local")
    give = ("publish", image, *site, "--root", str(root))
    demo.dlcontainer(*give)
    tree = ("--root", str(root))
    module = demo.answer("modules", "list", *tree)["modules"][0]["module"]
    demo.dlcontainer("modules", "unpublish", module, *tree, *site)
    demo.dlcontainer("modules", "rollback", *tree, *site)
    again = demo.answer(*give)
    say(f"published again: {'a new release' if again['new'] else 'the release is the same'}")
    demo.dlcontainer("modules", "history", *tree)


def main(arguments: list[str] | None = None) -> int:
    """Run the demo and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, default=Path(".venv/bin"), help="the programs' folder")
    parser.add_argument("--extras", default="", help="of pyproject.toml; none for a user")
    parser.add_argument("--build", default="", help="options of dlcontainer build")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the tools' lines")
    options = parser.parse_args(arguments)
    demo = Demo(
        bin=Path(options.bin).absolute(),
        extras=options.extras,
        build_options=tuple(options.build.split()),
    )

    def work() -> int:
        CONSOLE.begin(titles(), verbose=options.verbose or verbose_by(os.environ), log=None)
        before(demo)
        CONSOLE.begin(CONSOLE.titles, verbose=CONSOLE.verbose, log=PROJECT / LOG)
        set_up(demo)
        go(demo, look_ahead(demo))
        for text in demo.left_out:
            print(f"  left out: {text}", flush=True)
        CONSOLE.print("make demo: done; open demo/report.html")
        return 0

    return run_steps(work)


if __name__ == "__main__":
    sys.exit(main())
