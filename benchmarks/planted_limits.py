#!/usr/bin/env python3
"""Whether `bench forecast` names what limits a real study: six planted limits, and two shortfalls.

    benchmarks/planted_limits.py IMAGE -o FOLDER [--pairs 4] [--only NAME,...]

Each plant is a study of its own that really trains. Links are those of `lab slownet`; a slow host
is stopped for a quarter of the time; slow files are those of `lab slowfs`. Declared before the runs
that docs/measurements/scaling.md has: the stage that is named is right for six of six. The two
shortfalls are studies of 1, 2 and 4 hosts whose last point met half a link, or a slow host; their
computing is a sleep (emulated), so that four ranks need no four cores. Studies that stand in FOLDER
are kept. A benchmark, not a test.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# Beside this stands a statistics.py: Python's own is meant.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from benchmarks.sampling import describe, machine_facts
from dlcontainer.system import rank_processes
from dlcontainer.system.process import ProcessRunner, quote

START = "from dlcontainer.cli.main import run; run()"
NETWORK = HERE / "planted" / "planted_network.py"
LAUNCHER = f"{sys.executable} {HERE / 'planted' / 'planted_launcher.py'}"
ON_ONE = " ".join(rank_processes.words())
ON_HOSTS = "dlc-launch {ranks} {ranks_per_node}"
FULL, HALF = "200Mbit", "100Mbit"
TIMEOUT_S = 7200


@dataclass(frozen=True, kw_only=True, slots=True)
class PlantedLimit:
    """A study with a limit; `rate` of the link between its hosts, empty: all ranks on this host."""

    name: str
    # What the forecast is to name; empty: nothing.
    stage: str
    ranks: str = "2"
    threads: int = 1
    script: str = "build"
    steps: int = 20
    rate: str = ""
    launcher: str = ON_ONE
    # A rank whose host is slow; a study says its launcher, so this is planted from outside.
    slow_rank: int | None = None
    more: tuple[str, ...] = ()


LIMITS = (
    PlantedLimit(name="nothing", stage=""),
    PlantedLimit(name="one-thread", stage="kernel", ranks="1"),
    PlantedLimit(
        name="onednn-off", stage="kernel", ranks="1", threads=2, script="without_onednn"
    ),
    PlantedLimit(
        name="slow-files", stage="input", script="", launcher=f"{LAUNCHER} {{ranks}}",
        more=("--batch", "64", "--input", "files"),
    ),
    PlantedLimit(name="half-link", stage="communication", rate=HALF, launcher=ON_HOSTS),
    PlantedLimit(
        name="slow-host", stage="communication", rate=FULL, launcher=ON_HOSTS, slow_rank=1,
    ),
)  # fmt: skip
# What the last point met, and the term that the report is to name.
SHORTFALLS = (
    PlantedLimit(
        name="last-half-link", stage="communication", ranks="1,2,4", script="sleeping", steps=8,
        rate=HALF, launcher=ON_HOSTS,
    ),
    PlantedLimit(
        name="last-slow-host", stage="waiting", ranks="1,2,4", script="sleeping", steps=8,
        rate=FULL, launcher=ON_HOSTS, slow_rank=3,
    ),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """Where studies go, and the image and pairs of all."""

    image: Path
    folder: Path
    pairs: int
    runner: ProcessRunner

    def dlcontainer(self, *words: str) -> str:
        """Run the command and return what it printed."""
        argv = [sys.executable, "-c", START, *words]
        done = self.runner(argv, timeout=TIMEOUT_S, check=False)
        if done.returncode:
            sys.exit(f"{quote(argv)}: exit code {done.returncode}\n{done.stderr}")
        return done.stdout

    def measure(self, limit: PlantedLimit, folder: Path, *more: str) -> None:
        """Measure a study, or go on with it."""
        words = ["bench", "scaling", "--site", "local", "--image", str(self.image)]
        words += ["--ranks", limit.ranks, "--threads", str(limit.threads), "-o", str(folder)]
        words += ["--pairs", str(self.pairs), "--steps", str(limit.steps), *limit.more, *more]
        words += ["--launcher", limit.launcher]
        if limit.script:
            words += ["--script", f"{NETWORK}:{limit.script}"]
        if limit.rate:
            hosts = limit.ranks.rpartition(",")[2]
            words += ["--one-allocation", "--ranks-per-node", "1"]
            net = ["lab", "slownet", "--by", "tbf", "--hosts", hosts, "--rate", limit.rate]
            words = [*net, "--", sys.executable, "-c", START, *words]
        with _slowed(limit.slow_rank):
            self.dlcontainer(*words)

    def threads(self, limit: PlantedLimit) -> Path:
        """Return the times of 1 and of 2 threads; a virtual host has one core for itself.

        It makes the native twin as well, whose packages no host of `lab slownet` could fetch.
        """
        counts = "1" if limit.rate else "1,2"
        path = self.folder / f"threads-{counts}.jsonl"
        if not path.exists():
            words = ["--site", "local", "--image", str(self.image), "-o", str(path)]
            self.dlcontainer("bench", "threads", *words, "--counts", counts, "--quick")
        return path


@contextmanager
def _slowed(rank: int | None) -> Iterator[None]:
    """Slow down a rank while the block runs."""
    if rank is None:
        yield
        return
    argv = [sys.executable, str(HERE / "planted" / "slow_rank.py"), str(rank)]
    with subprocess.Popen(argv) as process:
        try:
            yield
        finally:
            process.terminate()


def named(trial: Trial, limit: PlantedLimit) -> dict[str, Any]:
    """Measure a study with a planted limit, and return what the forecast says comes next."""
    folder = trial.folder / limit.name
    threads = trial.threads(limit)
    trial.measure(limit, folder, "--no-extras")
    shutil.copyfile(threads, folder / "threads.jsonl")
    words = ["bench", "forecast", str(folder), "--image", str(trial.image), "--json"]
    answer: dict[str, Any] = json.loads(trial.dlcontainer(*words))
    return answer


def fell_short(trial: Trial, limit: PlantedLimit) -> dict[str, Any]:
    """Measure a study whose last point alone met the limit, and return what the report says."""
    whole, folder = trial.folder / "sound", trial.folder / limit.name
    sound = PlantedLimit(
        name="sound",
        stage="",
        ranks=limit.ranks,
        script=limit.script,
        steps=limit.steps,
        rate=FULL,
        launcher=ON_HOSTS,
    )
    trial.threads(limit)
    trial.measure(sound, whole)
    if not folder.exists():
        shutil.copytree(whole, folder)
        (folder / "4-dp4.jsonl").unlink()
    trial.measure(limit, folder)
    answer: dict[str, Any] = json.loads(trial.dlcontainer("report", str(folder), "--json"))
    return answer


def limit_row(limit: PlantedLimit, answer: Mapping[str, Any]) -> str:
    """Return a row: what was planted, what was named, its share of a step, whether it is right."""
    found = answer["next_step"]["limit"]
    if found is None:
        words, stage = "no stage surely costs 5 % of a step", ""
    else:
        low, high = (100 * found["gain"][end] for end in ("low", "high"))
        stage = found["stage"]
        words = f"{stage}: {found['cause']}, {low:.0f} to {high:.0f} %"
    judged = _word(is_right=stage == limit.stage)
    return f"| {limit.name} | {limit.stage or '-'} | {words} | {judged} |"


def shortfall_row(limit: PlantedLimit, answer: Mapping[str, Any]) -> str:
    """Return a row: what was planted, what was foreseen and measured, and the term named."""
    [study] = [finding["study"] for finding in answer["findings"] if "study" in finding]
    point = study["foreseen"]["points"][-1]
    foreseen, measured = (
        "{:.0f} to {:.0f} %".format(*(100 * point[key][end] for end in ("low", "high")))
        for key in ("efficiency", "measured")
    )
    words = f"foreseen {foreseen}, measured {measured}: "
    words += f"BELOW, {point['term']}" if point["below"] else "not surely below"
    is_right = point["below"] and limit.stage in point["term"]
    return f"| {limit.name} | {limit.stage} | {words} | {_word(is_right=is_right)} |"


def _word(*, is_right: bool) -> str:
    return "right" if is_right else "WRONG"


def main() -> None:
    """Measure, and print what was named beside what was planted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("image", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--only", default="", metavar="NAME,...")
    typed = parser.parse_args()
    only = [name for name in typed.only.split(",") if name]
    typed.output.mkdir(parents=True, exist_ok=True)
    trial = Trial(
        image=typed.image,
        folder=typed.output,
        pairs=typed.pairs,
        runner=ProcessRunner(environ=os.environ),
    )
    print(describe(machine_facts()))
    print("\n| study | planted | named | |\n|---|---|---|---|")
    for limit in LIMITS:
        if not only or limit.name in only:
            print(limit_row(limit, named(trial, limit)), flush=True)
    for limit in SHORTFALLS:
        if not only or limit.name in only:
            print(shortfall_row(limit, fell_short(trial, limit)), flush=True)


if __name__ == "__main__":
    main()
