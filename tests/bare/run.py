"""Run the README's commands on bare machines, one a call: `make test-bare [ONLY=NAME]`."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.bare import handed, trees
from tests.bare.machines import MACHINES, Goal, Machine
from tests.bare.trees import Tree
from tests.values import ROOT

_FOLDER = ROOT / ".tools/bare"
_RESULTS = _FOLDER / "results"
# `make test` is typed on three of them.
_TESTED = ("12-root", "12-no-ids", "13-no-ids")
_FIRST_MINUTE_S = 60
_LAST_LINES = 12
# Where the base can't be made it names these.
_WAYS = ("dlcontainer base pin", "dlcontainer build --offline", "dlcontainer base make")


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """The end of a command on a machine."""

    machine: str
    goal: Goal
    commit: str
    ok: bool
    code: int
    seconds: int
    load_before: float
    load_after: float
    last_lines: tuple[str, ...]


def commit() -> str:
    """Name the checkout's commit; what is not committed is said."""
    git = ["git", "-C", str(ROOT)]
    head = subprocess.run(
        [*git, "rev-parse", "--short=12", "HEAD"], check=True, capture_output=True, text=True
    )
    changed = subprocess.run(
        [*git, "status", "--porcelain"], check=True, capture_output=True, text=True
    )
    return head.stdout.strip() + ("-changed" if changed.stdout.strip() else "")


def _file(machine: str, goal: Goal, at: str) -> Path:
    return _RESULTS / f"{at}-{machine}-{goal}.json"


def tasks() -> list[tuple[str, Goal]]:
    """List all that is to be run, in order."""
    own = [(machine.name, machine.goal) for machine in MACHINES.values()]
    tested: list[tuple[str, Goal]] = [(name, "test") for name in _TESTED]
    return [*own, *tested]


def run(machine: Machine, goal: Goal, at: str) -> Result:
    """Make the machine, type the command there, and keep its outcome and log."""
    _RESULTS.mkdir(parents=True, exist_ok=True)
    root = _FOLDER / "trees" / machine.name
    if root.exists():
        shutil.rmtree(root)
    tree = trees.make(machine, root)
    log = _file(machine.name, goal, at).with_suffix(".log")
    with handed.command(tree, goal) as command, log.open("w") as file:
        before, start = os.getloadavg()[0], time.monotonic()
        code = subprocess.run(
            tree.argv(f"cd dlcontainer && {command}"),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
        seconds = round(time.monotonic() - start)
    lines = log.read_text(errors="replace").splitlines()
    result = Result(
        machine=machine.name,
        goal=goal,
        commit=at,
        ok=_is_as_wanted(tree, goal, code, seconds, lines),
        code=code,
        seconds=seconds,
        load_before=round(before, 1),
        load_after=round(os.getloadavg()[0], 1),
        last_lines=tuple(lines[-_LAST_LINES:]),
    )
    text = json.dumps(asdict(result), indent=1) + "\n"
    _file(machine.name, goal, at).write_text(text)
    if result.ok:
        tree.remove()
    return result


def _is_as_wanted(tree: Tree, goal: Goal, code: int, seconds: int, lines: Sequence[str]) -> bool:
    if goal == "test":
        return code == 0
    if goal == "image":
        return code == 0 and (tree.home / handed.IMAGE).is_file()
    report = (tree.checkout / "demo/report.html").is_file()
    if tree.machine.outcome == "stops":
        ways = all(any(way in line for line in lines) for way in _WAYS)
        return code != 0 and not report and ways and seconds <= _FIRST_MINUTE_S
    return code == 0 and report


def table() -> str:
    """Write all results that are there as a Markdown table, the newest of each task."""
    rows = ["| machine | command | outcome | minutes | load before, after | commit |"]
    rows.append("|---|---|---|---|---|---|")
    for name, goal in tasks():
        files = sorted(
            _RESULTS.glob(f"*-{name}-{goal}.json"), key=lambda file: file.stat().st_mtime
        )
        if not files:
            continue
        data = json.loads(files[-1].read_text())
        outcome = ("as wanted: " if data["ok"] else "fails: ") + f"exit {data['code']}"
        load = f"{data['load_before']}, {data['load_after']}"
        typed = "three commands" if goal == "image" else f"`make {goal}`"
        cells = [MACHINES[name].title, typed, outcome]
        cells += [f"{data['seconds'] / 60:.1f}", load, data["commit"][:12]]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def main() -> int:
    """Run the machine that was asked for, or the next one that is not done at this commit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="?", choices=[*MACHINES], help="this machine")
    parser.add_argument("--goal", choices=["demo", "test", "image"], help="this command")
    parser.add_argument("--table", action="store_true", help="print the results that are there")
    options = parser.parse_args()
    if options.table:
        print(table())
        return 0
    refusal = trees.obstacle()
    if refusal:
        print(f"no bare machine: {refusal}", file=sys.stderr)
        return 2
    at = commit()
    wanted = [
        (name, goal)
        for name, goal in tasks()
        if options.only in (None, name) and options.goal in (None, goal)
    ]
    left = [(name, goal) for name, goal in wanted if not _file(name, goal, at).exists()]
    if not left:
        print(f"all done at {at}; the table: python -m tests.bare.run --table")
        return 0
    name, goal = left[0]
    refusal = handed.obstacle(MACHINES[name])
    if refusal:
        print(f"no {name}: {refusal}", file=sys.stderr)
        return 2
    print(f"{goal} on {MACHINES[name].title} ({name})", flush=True)
    result = run(MACHINES[name], goal, at)
    print("\n".join(result.last_lines))
    print(f"{'as wanted' if result.ok else 'NOT as wanted'}: exit {result.code}", end=", ")
    print(f"{result.seconds} s; left: {len(left) - 1} (type it again)")
    return 0 if result.ok else 1


if __name__ == "__main__":
    sys.exit(main())
