#!/usr/bin/env python3
"""What reaches the file system in a cold import: a tree against the same tree in one SquashFS.

Counted by our FUSE counters, without delay, for one rank and several on a node; the image mounted
by each rank, and once a node. A benchmark, not a test.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Beside this stands a statistics.py: Python's own is meant.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from benchmarks.sampling import describe, machine_facts
from benchmarks.stormpoints import folders, make_prefix
from dlcontainer.lab.filesystem.counting import run_ranks
from dlcontainer.lab.slowfs.cache_profiles import PROFILES, Profile
from dlcontainer.lab.slowfs.counters import CounterSnapshot
from dlcontainer.lab.slowfs.server import StandIn
from dlcontainer.lab.storm.measure import PackedImport, Runnable, of_prefix, packed
from dlcontainer.system.process import ProcessRunner


def main() -> None:
    """Count, print the table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", nargs="+", default=["numpy", "scipy"])
    modules = "numpy, scipy.linalg, scipy.sparse, scipy.optimize, scipy.stats, scipy.signal"
    parser.add_argument("--modules", default=modules, help="what ranks import")
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2, 4])
    parser.add_argument("--profile", choices=sorted(PROFILES), default="lustre")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    runner = ProcessRunner(environ=dict(os.environ))
    profile = PROFILES[options.profile]
    with tempfile.TemporaryDirectory(prefix="dlcontainer-calls-") as name:
        work = Path(name)
        tree = of_prefix(
            make_prefix(work, runner, *options.packages), options.modules, runner.environ
        )
        image = packed(tree, work, runner)
        if image is None:
            raise SystemExit("install squashfs-tools and squashfuse")
        rows = []
        for ranks in options.ranks:
            rows.append(("tree", ranks, _tree(tree, ranks, profile, runner)))
            rows.append(("image per rank", ranks, _per_rank(image, ranks, profile, runner)))
            rows.append(("image per node", ranks, _per_node(tree, image, ranks, profile, runner)))
    if options.json:
        body = [{"way": way, "ranks": ranks, **_plain(seen)} for way, ranks, seen in rows]
        facts = {"schema": "dlcontainer/benchmark-calls/1", "machine": machine_facts()}
        print(json.dumps({**facts, "profile": profile.name, "rows": body}, indent=1))
        return
    print(f"{describe(machine_facts())}; profile {profile.name}")
    for way, ranks, seen in rows:
        base = next(s for w, r, s in rows if w == "tree" and r == ranks)
        calls, metadata = seen.metadata + seen.reads, seen.metadata
        print(
            f"{way:<15} {ranks} ranks: {metadata:6d} metadata, {seen.reads:6d} reads, "
            f"{seen.bytes / 1e6:6.1f} MB; all calls / tree "
            f"{calls / (base.metadata + base.reads):.4f}, metadata / tree "
            f"{metadata / base.metadata:.5f}"
        )


def _plain(seen: CounterSnapshot) -> dict[str, object]:
    return {"operations": seen.operations, "bytes": seen.bytes, "unique_files": len(seen.files)}


def _counted(
    what: Runnable, commands: Sequence[Sequence[str]], profile: Profile, runner: ProcessRunner
) -> CounterSnapshot:
    with folders(1) as (place,):
        shown = StandIn(source=what.under, profile=profile)
        words = [[word.replace(str(what.under), str(place)) for word in argv] for argv in commands]
        inside = replace(runner, environ=what.environ)
        with shown.mounted(place, runner):
            run_ranks(words, [inside] * len(words), 600.0)
            return shown.counters.counted()


def _tree(tree: Runnable, ranks: int, profile: Profile, runner: ProcessRunner) -> CounterSnapshot:
    return _counted(tree, [tree.argv] * ranks, profile, runner)


def _per_rank(
    image: PackedImport, ranks: int, profile: Profile, runner: ProcessRunner
) -> CounterSnapshot:
    # Each rank's mount in a place of its own; the place is in the command more than once.
    inside = image.run.argv[5]
    commands = [
        [word.replace(inside, f"{inside}-{rank}") for word in image.run.argv]
        for rank in range(ranks)
    ]
    return _counted(image.run, commands, profile, runner)


def _per_node(
    tree: Runnable, image: PackedImport, ranks: int, profile: Profile, runner: ProcessRunner
) -> CounterSnapshot:
    with folders(2) as (place, inside):
        shown = StandIn(source=image.run.under, profile=profile)
        argv = [word.replace(str(tree.under), str(inside)) for word in tree.argv]
        with shown.mounted(place, runner):
            file = place / image.file.name
            subprocess.run(["squashfuse", "-o", "auto_unmount", file, inside], check=True)
            try:
                run_ranks([argv] * ranks, [replace(runner, environ=tree.environ)] * ranks, 600.0)
            finally:
                subprocess.run(["fusermount3", "-u", "-z", inside], check=True)
        return shown.counters.counted()


if __name__ == "__main__":
    main()
