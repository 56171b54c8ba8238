#!/usr/bin/env python3
"""The demo, from a bare machine to a report: set up, build, validate, publish, load, compare.

Says beforehand how long it takes and how much it keeps, in the first minute what is impossible
here, and at the end what was left out for that reason.
"""

import argparse
import json
import os
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools import aptget
from tools.console import SetupError, note, report_error, say
from tools.processes import pass_through, run
from tools.programs import WAYS_TO_A_BASE, search_path

PROJECT = Path(__file__).resolve().parent.parent
# The demo's own folder, and what stays of set-up and cache: docs/bare-machines.md.
_CHECKOUT_MB, _CACHE_MB = 1500, 600
_TAKES = "7 to 10 minutes on two idle cores, three times that on busy ones"
_LMOD = Path("/usr/share/lmod/lmod/init/sh")
# Resident groups: their ratio scatters by 1.5 to 3 % a group on two idle cores (pairs of launches:
# 4 to 17 %), so that 8 of them decide 5 %. In a noisy hour it takes 16 (of 50 sessions 13 went
# on, 11 of them to 16: docs/measurements-verdict.md). The image has no GPU's libraries.
_TRAIN = ("--margin", "5%", "--looks", "8,16", "--threads", "1", "--device", "cpu")
# From the distribution, where it may be installed: a module system, and what the native side needs.
_PACKAGES = ("lmod", "libgomp1")


@dataclass(kw_only=True, slots=True)
class Demo:
    """One run: where its programs are, how it builds, and what it had to leave out."""

    bin: Path
    extras: str
    build_options: tuple[str, ...]
    left_out: list[str] = field(default_factory=list)

    def call(self, *argv: str) -> None:
        """Run a command of the set-up's or dlcontainer's, its output shown as it comes."""
        path = os.pathsep.join([str(self.bin), os.environ.get("PATH", os.defpath)])
        code = pass_through(argv, cwd=PROJECT, env={"PATH": path})
        if code != 0:
            # It has said why, and what to do next.
            raise SystemExit(code)

    def dlcontainer(self, *argv: str) -> None:
        """Run dlcontainer."""
        self.call(str(self.bin / "dlcontainer"), *argv)

    def answer(self, *argv: str) -> dict[str, Any]:
        """Give dlcontainer's JSON, whatever it ends with."""
        path = os.pathsep.join([str(self.bin), os.environ.get("PATH", os.defpath)])
        command = [str(self.bin / "dlcontainer"), *argv, "--json"]
        done = run(command, cwd=PROJECT, env={"PATH": path}, check=False)
        try:
            return dict(json.loads(done.stdout))
        except ValueError:
            raise SetupError(f"failed: {' '.join(command)}", why=done.stderr) from None


def free_mb(folder: Path) -> int:
    """Give the free space for this user, MB, at the nearest folder that is there."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free // 1_000_000


def require_room(checkout: Path, cache: Path) -> None:
    """Stop before anything is written where the disk is too small or read-only."""
    if not os.access(checkout, os.W_OK):
        raise SetupError(
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
            raise SetupError(
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
    say(
        f"the demo takes {_TAKES}, and keeps {_CHECKOUT_MB + _CACHE_MB} MB "
        f"({_CHECKOUT_MB} here, {_CACHE_MB} in {cache})"
    )
    require_room(PROJECT, cache)
    if not (demo.build_options or aptget.available() or shutil.which("mmdebstrap", path=path)):
        raise SetupError(
            "the demo's base can't be made here",
            why="no mmdebstrap, and no apt-get to fetch it with",
            next_step=f"{WAYS_TO_A_BASE}\n        and then: make demo BUILD='--offline BUNDLE' "
            "(make setup brings dlcontainer itself)",
        )


def set_up(demo: Demo) -> None:
    """Make the environment, the engine, and what of the rest may be installed."""
    tools = PROJECT / "tools"
    venv = str(demo.bin.parent)
    for script, *options in (
        ("setup_venv.py", "--venv", venv, "--extras", demo.extras),
        ("setup_engine.py", "--bin", str(demo.bin), "--prefix", str(PROJECT / ".tools")),
        ("setup_tests.py", *_PACKAGES),
    ):
        code = pass_through([sys.executable, str(tools / script), *options], cwd=PROJECT)
        if code != 0:
            raise SystemExit(code)


def look_ahead(demo: Demo) -> str:
    """Say what is impossible here, before the first long step, and give the image's name.

    SetupError where nothing is possible.
    """
    demo.dlcontainer("doctor")
    findings = demo.answer("doctor")["findings"]
    states = {each["name"]: each["state"] for each in findings}
    if states.get("base") != "ok" and not demo.build_options:
        raise SetupError(
            "the demo's base can't be made here",
            why="doctor's line 'base', above",
            next_step=f"{WAYS_TO_A_BASE}\n        and then: make demo BUILD='--offline BUNDLE'",
        )
    plan = demo.answer("plan", "pytorch", "--site", "local")
    if "notes" not in plan:
        demo.dlcontainer("plan", "pytorch", "--site", "local")  # it says why, and ends this
    for text in plan["notes"]:
        note(text)
        if text.startswith("no native twin"):
            demo.left_out.append(f"an installation on this machine to compare with ({text})")
    if not _LMOD.is_file():
        demo.left_out.append("module load (no lmod: an administrator types: apt-get install lmod)")
    if states.get("/dev/fuse") != "ok":
        demo.left_out.append("mounting the image: it was unpacked for each run (no /dev/fuse)")
    for text in demo.left_out:
        note(f"not possible here, the rest goes on: {text}")
    return str(plan["name"])


def go(demo: Demo, name: str) -> None:
    """Build, validate, publish, go back, load, compare and report."""
    folder = Path("demo")
    image = str(folder / f"{name}.sif")
    local = ("--site", "local")
    demo.dlcontainer("build", "pytorch", *local, "-o", str(folder), *demo.build_options)
    demo.dlcontainer("validate", image, *local)
    shutil.rmtree(PROJECT / folder / "software", ignore_errors=True)
    publish(demo, image, folder / "software")
    modules = str(folder / "software/modules/lmod")
    demo.call("sh", str(PROJECT / "tools/load_module.sh"), modules, "pytorch")
    compare(demo, image, folder)


def compare(demo: Demo, image: str, folder: Path) -> None:
    """Measure the image against this machine's own installation, and report."""
    samples = [str(folder / name) for name in ("import.jsonl", "train.jsonl")]
    for sample in samples:
        (PROJECT / sample).unlink(missing_ok=True)
    of = ("--site", "local", "--image", image)
    demo.dlcontainer("bench", "import", *of, "--pairs", "8", "--controls", "4", "-o", samples[0])
    begin = time.monotonic()
    demo.dlcontainer("bench", "train", *of, *_TRAIN, "-o", samples[1])
    note(f"training was measured in {time.monotonic() - begin:.0f} s")
    demo.dlcontainer("report", *samples, "-o", str(folder / "report.html"))


def publish(demo: Demo, image: str, root: Path) -> None:
    """Publish, take it back, go back to what was live, and publish again: nothing is new then."""
    give = ("publish", image, "--site", "local", "--root", str(root))
    demo.dlcontainer(*give)
    tree = ("--root", str(root))
    module = demo.answer("modules", "list", *tree)["modules"][0]["module"]
    demo.dlcontainer("modules", "unpublish", module, *tree)
    demo.dlcontainer("modules", "rollback", *tree)
    demo.dlcontainer(*give)
    demo.dlcontainer("modules", "history", *tree)


def main(arguments: list[str] | None = None) -> int:
    """Run the demo and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, default=Path(".venv/bin"), help="the programs' folder")
    parser.add_argument("--extras", default="", help="of pyproject.toml; none for a user")
    parser.add_argument("--build", default="", help="options of dlcontainer build")
    options = parser.parse_args(arguments)
    demo = Demo(
        bin=Path(options.bin).absolute(),
        extras=options.extras,
        build_options=tuple(options.build.split()),
    )
    start = time.monotonic()
    try:
        before(demo)
        set_up(demo)
        go(demo, look_ahead(demo))
    except SetupError as error:
        return report_error(error)
    for text in demo.left_out:
        note(f"left out: {text}")
    print(f"make demo: done in {time.monotonic() - start:.0f} s; open demo/report.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
