#!/usr/bin/env python3
"""How quick dlcontainer starts: --help and render against HPC Container Maker, in one run.

A benchmark, not a test: a missed target is said plainly, and the exit code stays 0.
"""

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Not this folder: its statistics.py is not Python's.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from statistics import median

from benchmarks.sampling import (
    Row,
    Samples,
    as_json,
    command,
    describe,
    interleave,
    machine_facts,
    ratio,
    spread,
    table,
)
from dlcontainer.cli.context import CliContext
from dlcontainer.formats import texts
from dlcontainer.planning import plan
from dlcontainer.sites.site import SiteTarget

RECIPE = "pytorch"
SITE = "example-slurm"
HELP, RENDER, HPCCM, PYTHON = "dlcontainer --help", "dlcontainer render", "hpccm", "python"

# Counts what Python opens, from after its own start; used where strace is missing.
_AUDITED = """
import sys
opened = []
sys.addaudithook(lambda event, args: event == "open" and opened.append(args[0]))
sys.argv = ["dlcontainer", "--help"]
from dlcontainer.cli.main import run
try:
    run()
finally:
    print(len(opened), file=sys.stderr)
"""


def main() -> None:
    """Measure, print the table or JSON."""
    options = _options()
    programs = _programs()
    with tempfile.TemporaryDirectory(prefix="dlcontainer-startup-") as name:
        environ = _environ(Path(name))
        samples = _start_up(programs, environ, rounds=options.n, seed=options.seed)
        samples |= _further_texts(environ, rounds=options.n)
        opened, how = _files_opened(programs["dlcontainer"], environ, Path(name))
    rows = _rows(samples, opened, how)
    facts = machine_facts()
    if options.json:
        more = {"rounds": options.n, "seed": options.seed, "samples_s": samples}
        print(as_json("startup", facts, rows, **more))
        return
    print(describe(facts))
    print(f"{options.n} rounds, seed {options.seed}; medians of ratios within a round, intervals\n")
    print(table(rows))
    missed = [row.what for row in rows if row.met.startswith("NO")]
    print("\nmissed: " + "; ".join(missed) if missed else "\nall targets met")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=20, help="rounds (default 20)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the order (default 1)")
    parser.add_argument("--json", action="store_true", help="print JSON with the raw samples")
    options = parser.parse_args()
    if options.n < 1:
        parser.error("-n: at least one round")
    return options


def _programs() -> dict[str, str]:
    if importlib.util.find_spec("hpccm") is None:
        raise SystemExit(
            "HPC Container Maker is missing: it is dlcontainer's extra `bench`\n"
            f"  next: {sys.executable} -m pip install -e '{HERE.parent}[dev]'"
        )
    folder = Path(sys.executable).parent
    found = {name: folder / name for name in ("dlcontainer", "hpccm")}
    for name, program in found.items():
        if not program.is_file():
            raise SystemExit(f"no {name} beside {sys.executable}: run the Python of a venv with it")
    return {name: str(program) for name, program in found.items()}


def _environ(home: Path) -> dict[str, str]:
    # No overrides of the user's, no PYTHON* that would slow down or speed up one side.
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {**kept, "HOME": str(home)}


def _start_up(
    programs: Mapping[str, str], environ: Mapping[str, str], *, rounds: int, seed: int
) -> Samples:
    ours, theirs = programs["dlcontainer"], programs["hpccm"]
    made = [theirs, "--format", "singularity", "--recipe", str(HERE / "hpccm_pytorch.py")]
    actions = {
        HELP: command([ours, "--help"], environ),
        RENDER: command([ours, "render", RECIPE, "--site", SITE], environ),
        HPCCM: command(made, environ),
        PYTHON: command([sys.executable, "-c", "pass"], environ),
    }
    return interleave(actions, rounds=rounds, seed=seed)


def _further_texts(environ: dict[str, str], *, rounds: int) -> Samples:
    """Plan and render in this process, the formats in turn; the first round is left out."""
    world = CliContext(environ=environ)
    site = world.site(SITE)
    folders = world.resources.template_folders()
    # Not every format makes sense on every site.
    forms = texts.formats_of(world.plan(RECIPE, SITE, [], SiteTarget(), None))
    samples: Samples = {"plan.resolve": [], "texts.text": []}
    for number in range(rounds + 1):
        for form in forms:
            written = world.written_recipe(RECIPE)
            start = time.perf_counter()
            settled = plan.resolve(site=site, recipe=written, changes=[], setting=world.setting)
            resolved = time.perf_counter()
            texts.text(settled, form, folders)
            ended = time.perf_counter()
            if number:
                samples["plan.resolve"].append(resolved - start)
                samples["texts.text"].append(ended - resolved)
    return samples


def _files_opened(program: str, environ: Mapping[str, str], folder: Path) -> tuple[int, str]:
    """Count the files that --help opens: with strace all of them, else Python's own."""
    strace = shutil.which("strace")
    if strace is not None:
        log = folder / "strace"
        argv = [strace, "-f", "-e", "trace=open,openat", "-o", str(log), program, "--help"]
        done = subprocess.run(argv, check=False, env=environ, capture_output=True)
        if done.returncode == 0:
            lines = log.read_text(errors="replace").splitlines()
            return sum("open" in line and " = -1 " not in line for line in lines), "strace"
    argv = [sys.executable, "-c", _AUDITED]
    done = subprocess.run(argv, env=environ, capture_output=True, check=True)
    return int(done.stderr.split()[-1]), "audit hook, without the interpreter's own start"


def _rows(samples: Samples, opened: int, how: str) -> list[Row]:
    further = [
        (a + b) * 1000 for a, b in zip(samples["plan.resolve"], samples["texts.text"], strict=True)
    ]
    text_ms = spread([value * 1000 for value in samples["texts.text"]])
    theirs = _ms(samples[HPCCM])
    return [
        Row(
            what="dlcontainer --help / hpccm --recipe",
            ours=_ms(samples[HELP]),
            theirs=theirs,
            value=ratio(samples[HELP], samples[HPCCM]),
            target=1.0,
        ),
        Row(
            what="dlcontainer render / hpccm --recipe",
            ours=_ms(samples[RENDER]),
            theirs=theirs,
            value=ratio(samples[RENDER], samples[HPCCM]),
            target=3.0,
        ),
        Row(
            what="python -c pass / hpccm --recipe",
            ours=_ms(samples[PYTHON]),
            theirs=theirs,
            value=ratio(samples[PYTHON], samples[HPCCM]),
        ),
        Row(
            what="each further text: plan + text",
            ours=f"{median(further):.1f} ms",
            theirs="-",
            value=spread(further),
            target=10.0,
            unit=" ms",
        ),
        Row(
            what="  of it the text",
            ours=f"{text_ms.median:.1f} ms",
            theirs="-",
            value=text_ms,
            unit=" ms",
        ),
        Row(
            what=f"files opened by --help ({how})",
            ours=str(opened),
            theirs="-",
            value=spread([opened]),
            target=400.0,
            unit=" files",
        ),
    ]


def _ms(values: list[float]) -> str:
    return f"{median(values) * 1000:.0f} ms"


if __name__ == "__main__":
    main()
