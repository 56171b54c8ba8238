"""Golden texts: whole for a few combinations, a checksum each for the others.

Of job scripts four are whole; where other texts are, a job's difference from the nearest of them
is kept, without the numbers of lines, and its checksum.

The plan's digest stands in every text and changes with every file that goes into an image, so it
is blanked in the texts and kept once, in digests.txt.
"""

import difflib
import hashlib
import itertools
import json
import shutil
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from dlcontainer import schedulers
from dlcontainer.cli import matrix as matrix_command
from dlcontainer.config.templating import Text
from dlcontainer.formats import released_job as released
from dlcontainer.formats import texts
from dlcontainer.formats.texts import FILE_NAMES, Format
from dlcontainer.planning.matrix import Combination
from dlcontainer.planning.plan import Plan
from dlcontainer.recipes import recipe
from dlcontainer.schedulers import SCHEDULERS
from tests import values
from tests.values import GOLDEN, shipped_matrix, shipped_plan, shipped_sites, shipped_variants

# A twin is another text for every distribution's base; two show it.
WITH_TWIN = ("local", "example-slurm")
DIGESTS, CHECKSUMS, SITES, VARIANTS = (
    GOLDEN / f"{name}.txt" for name in ("digests", "checksums", "sites", "variants")
)
MATRIX = GOLDEN / "matrix.txt"
# Scheduler and runtime of the jobs that are whole: these differ most.
WHOLE_JOBS = (
    ("slurm", "apptainer"),
    ("lsf", "singularity"),
    ("pbs", "apptainer"),
    ("slurm", "podman-hpc"),
)
JOB_DIFFERENCE = "job.diff"
# The job of a release of the published tree, of the first of these.
RELEASED_JOB = GOLDEN / "released-job.txt"
PROBE_NAMES = values.ROOT / "dlcontainer/probe/scheduler_names.py"
VARIANT_DOCS = values.ROOT / "docs/image/variants.md"
_TABLE_FROM, _TABLE_TO = (
    "<!-- table: `make golden` writes it -->\n",
    "<!-- end of the table -->\n",
)
BLANK = "PLAN-DIGEST"
_PREFERRED = ("pytorch", "tensorflow", "horovod", "mxnet", "caffe", "jax", "llm", "ray", "vllm")
_REMEDY = "if it is meant to be so: make golden"


@cache
def matrix() -> tuple[Combination, ...]:
    """Settle every shipped recipe for every shipped site, once a test run."""
    return tuple(shipped_matrix())


@cache
def plans() -> Mapping[str, Plan]:
    """Name every plan that has golden texts."""
    settled = {entry.plan.name: entry.plan for entry in matrix() if entry.plan is not None}
    # The matrix has the usual variant of a kind; of the others one site shows what they look like.
    more = shipped_plan("local", "horovod", "tensorflow")
    return {**settled, more.name: more}


def names() -> list[str]:
    """List the names of the plans without settling any, to collect tests by."""
    return [line.split()[0] for line in DIGESTS.read_text().splitlines()]


def forms(plan: Plan) -> list[Format]:
    """List the formats whose texts are golden."""
    return [
        form for form in texts.formats_of(plan) if form != "native" or plan.site.name in WITH_TWIN
    ]


def render(plan: Plan, form: Format) -> str:
    """Render a text as it is written for users."""
    return texts.text(plan, form, [values.TEMPLATES])


def blanked(plan: Plan, form: Format) -> str:
    """Render a text without the plan's digest."""
    return render(plan, form).replace(plan.digest, BLANK)


def features(plan: Plan, form: Format) -> set[str]:
    """Name what must stand in some whole text: add a line here for a new axis."""
    site, base = plan.site, plan.recipe.base
    named = {f"recipe {plan.recipe.name}", f"package manager {base.manager}"}
    if plan.choice is not None:
        named.add(f"{plan.choice.kind} variant of {plan.recipe.name}")
    if form == "job":
        mpi = f"{site.mpi.mode} {site.mpi.family}" if site.mpi else "none"
        runtime = f"runtime {site.engine.runtime}"
        named |= {f"scheduler {site.scheduler.kind}", runtime, f"mpi {mpi}", f"site {site.name}"}
    return {f"{form}: {name}" for name in named}


def whole() -> list[str]:
    """List the combinations whose texts are kept whole."""
    return sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())


def covered(chosen: Iterable[str]) -> set[str]:
    """Name the features of some combinations."""
    return {
        feature
        for name in chosen
        for form in forms(plans()[name])
        for feature in features(plans()[name], form)
    }


def choose() -> list[str]:
    """Choose few combinations that have every feature; those kept whole today stay if they can."""
    left = covered(plans())
    chosen: list[str] = []
    today = set(whole())
    while left:
        best = max(
            sorted(plans()),
            key=lambda name: (len(left & covered([name])), _weight(name), name in today),
        )
        chosen.append(best)
        left -= covered([best])
    return sorted(chosen)


def _weight(name: str) -> int:
    """Prefer what most sites publish."""
    return -_PREFERRED.index(plans()[name].recipe.name)


def whole_jobs(chosen: Iterable[str]) -> list[str]:
    """List the combinations whose job script is whole, in the order of WHOLE_JOBS."""
    found = []
    for kind, runtime in WHOLE_JOBS:
        fitting = [
            name
            for name in sorted(chosen)
            if (plans()[name].site.scheduler.kind, plans()[name].site.engine.runtime)
            == (kind, runtime)
            and "job" in forms(plans()[name])
        ]
        found.append(max(fitting, key=_parts))
    return found


def _parts(name: str) -> tuple[bool, bool, int]:
    """Prefer jobs that have more parts: a look at devices, the program of a node."""
    plan = plans()[name]
    return plan.site.accelerator is not None, plan.recipe.job is not None, _weight(name)


def path_of(name: str, form: Format) -> Path:
    """Name a text's file in a folder of whole ones."""
    is_whole = form != "job" or name in whole_jobs(whole())
    return GOLDEN / name / (FILE_NAMES[form] if is_whole else JOB_DIFFERENCE)


def compare(text: str, path: Path) -> None:
    """Compare a text with a whole golden file."""
    assert text == path.read_text(), f"not {path}; {_REMEDY}"


def checksums() -> dict[str, str]:
    """Read the checksums: `NAME/FILE` -> SHA-256 of the blanked text."""
    lines = (line.split() for line in CHECKSUMS.read_text().splitlines())
    return {name: checksum for checksum, name in lines}


def check(name: str, form: Format, text: str) -> None:
    """Compare a blanked text with its golden one; a difference is shown against the nearest."""
    path = path_of(name, form)
    if path.parent.is_dir():
        is_whole = path.name == FILE_NAMES[form]
        compare(text if is_whole else _job_difference(text), path)
        if is_whole:
            return
    key = f"{name}/{FILE_NAMES[form]}"
    assert checksums().get(key) == sha256(text), (
        f"not the checksum of {key}; {_REMEDY}\n{_against_nearest(text, form)}"
    )


def sha256(text: str) -> str:
    """Give the checksum that is kept of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _against_nearest(text: str, form: Format, context: int = 3) -> str:
    """Show how a text differs from the whole one that shares most lines with it."""
    kept = sorted(GOLDEN.glob(f"*/{FILE_NAMES[form]}"))
    lines = set(text.splitlines())
    nearest = min(kept, key=lambda path: len(lines ^ set(path.read_text().splitlines())))
    name = f"{nearest.parent.name}/{nearest.name}"
    diff = difflib.unified_diff(
        nearest.read_text().splitlines(), text.splitlines(), name, "now", lineterm="", n=context
    )
    return "\n".join(diff)


def _job_difference(text: str) -> str:
    """Give it for a job: lines have no number, and of many that are left out two are shown.

    So what changes in the nearest changes little of it.
    """
    lines = []
    for left_out, part in itertools.groupby(
        _against_nearest(text, "job", 1).splitlines(), lambda line: line.startswith("-")
    ):
        run = ["@@" if line.startswith("@@ ") else line for line in part]
        lines += [run[0], "-...", run[-1]] if left_out and len(run) > 3 else run
    return "".join(f"{line}\n" for line in lines)


def released_job() -> str:
    """Give the job of a release of the published tree."""
    plan = plans()[whole_jobs(whole())[0]]
    job = released.PublishedJob(
        release=Text("'/@release@'"),
        module=Text("'pytorch/2.8.0-1'"),
        image="image.sif",
        folder="job",
    )
    files = released.texts(plan, job, [values.TEMPLATES])
    return files[released.SCRIPT].replace(plan.digest, BLANK)


def update() -> None:
    """Write all golden files again, the probe's names first: it is a part of each plan."""
    PROBE_NAMES.write_text(probe_names())
    chosen = choose()
    for folder in whole():
        shutil.rmtree(GOLDEN / folder)
    for name in chosen:
        (GOLDEN / name).mkdir()
    sums, jobs = [], whole_jobs(chosen)
    # First the whole jobs, from which others differ.
    for name, plan in sorted(plans().items(), key=lambda item: item[0] not in jobs):
        for form in forms(plan):
            text, is_difference = blanked(plan, form), form == "job" and name not in jobs
            if name in chosen:
                shown = _job_difference(text) if is_difference else text
                path_of(name, form).write_text(shown)
            if name not in chosen or is_difference:
                sums.append(f"{sha256(text)}  {name}/{FILE_NAMES[form]}")
    RELEASED_JOB.write_text(released_job())
    CHECKSUMS.write_text("\n".join(sorted(sums, key=lambda line: line.split()[1])) + "\n")
    DIGESTS.write_text("".join(f"{line}\n" for line in digests()))
    SITES.write_text("".join(f"{line}\n" for line in sites()))
    VARIANTS.write_text("".join(f"{line}\n" for line in variants()))
    MATRIX.write_text(table())
    VARIANT_DOCS.write_text(variant_docs())


def probe_names() -> str:
    """Write what the probe must know of schedulers, which it can't ask inside an image."""
    launchers = [
        (each.rank, each.size, each.local_rank, each.local_size)
        for each in schedulers.known_ranks()
    ]
    traits = [each for batch in SCHEDULERS.values() for each in batch.launchers.values()]
    cpus = dict.fromkeys(each.cpus_asked for each in traits if each.cpus_asked)
    jobs = dict.fromkeys(name for job in schedulers.job_variables() for name in job.names)
    return f'''\
"""What schedulers and launchers call things; `make golden` writes it, from their tables."""

# rank, size, local rank, local size; "" where there is none. The first whose rank is set holds.
LAUNCHERS = {_listed(launchers)}
# Where a launcher tells a rank how many CPUs the job asked for it.
CPUS_ASKED = {_listed(cpus)}
# What tells a job, its elements, steps and restarts from others.
JOBS = {_listed(jobs)}
'''


def _listed(values: Iterable[object]) -> str:
    lines = "".join(f"    {json.dumps(value)},\n" for value in values)
    return f"(\n{lines})".replace("[", "(").replace("]", ")")


def digests() -> list[str]:
    """Give a line for each plan: its name and digest."""
    return [f"{name} {plan.digest}" for name, plan in sorted(plans().items())]


def sites() -> list[str]:
    """Give a line for each target of each site: a checksum of all its facts."""
    return [f"{sha256(site.model_dump_json())}  {target}" for target, site in shipped_sites()]


def variants() -> list[str]:
    """Give a line for each variant of each recipe, those too that no shipped site takes."""
    return [
        f"{sha256(json.dumps(data, sort_keys=True))}  {name}" for name, data in shipped_variants()
    ]


def variant_docs() -> str:
    """Give docs/image/variants.md with its table of the shipped variants as they are."""
    before, _, rest = VARIANT_DOCS.read_text().partition(_TABLE_FROM)
    after = rest.partition(_TABLE_TO)[2]
    lines = ["| recipe, variant | for | made with: device code | |\n", "|---|---|---|---|\n"]
    for path in sorted((values.ROOT / "recipes").glob("*/recipe.yaml")):
        read: Any = recipe.read(path, display=path.name).data
        if "extends" in read:
            lines.append(_row_over(read))
        else:
            lines += [_row(path.parent.name, name, one) for name, one in read["variants"].items()]
    return f"{before}{_TABLE_FROM}{''.join(lines)}{_TABLE_TO}{after}"


def _row_over(read: Any) -> str:
    """Give the one row of a recipe over another: its variants are those below."""
    refused = [name for name, one in read.get("variants", {}).items() if "refused" in one]
    parent: Any = recipe.read(
        values.ROOT / "recipes" / read["extends"] / "recipe.yaml", display=""
    ).data
    taken = [name for name in parent["variants"] if name not in refused]
    but = f"those of {read['extends']}, but for {', '.join(refused)}" if refused else ""
    # The shorter of the two lists: a row of the page stays below 160 columns.
    of = min(
        but or f"those of {read['extends']}", f"of {read['extends']}: {', '.join(taken)}", key=len
    )
    return f"| {read['name']} | | {of} | |\n"


def _row(of: str, name: str, variant: Any) -> str:
    needs, stack = variant.get("needs", {}), variant["changes"].get("stack", {})
    keys = ("arch", "accelerator", "cpu", "mpi", "mpi_mode")
    wanted = " ".join(word for key in keys for word in needs.get(key, ()))
    names = (("cuda", "CUDA"), ("rocm", "ROCm"), ("oneapi", "oneAPI"))
    made = [f"{title} {stack[key]}" for key, title in names if key in stack]
    codes = _codes(stack.get("gpu_targets", ())) or ("not listed" if made else "")
    made_with = ": ".join((*made, codes)) if codes else "-"
    # The page says it of all that have device code: what differs is told.
    usual = "never built" if made else ""
    status = variant.get("status", "")
    told = "" if status == usual else status or "built"
    marks = (told, variant.get("lock", "").removeprefix("by the "))
    said = ", ".join(mark for mark in marks if mark)
    return f"| {of} {name} | {wanted or 'any'} | {made_with} | {said} |\n"


def _codes(targets: Iterable[str]) -> str:
    """Write codes of one kind as one word: sm_80/86/90."""
    kinds: dict[str, list[str]] = {}
    for target in targets:
        kind = next(kind for kind in ("sm_", "compute_", "gfx") if target.startswith(kind))
        kinds.setdefault(kind, []).append(target.removeprefix(kind))
    return " ".join(kind + "/".join(kinds[kind]) for kind in kinds)


def table() -> str:
    """Give the table of `plan --all`."""
    text = matrix_command.table(list(matrix()), every=True, explained=True) + "\n"
    for plan in plans().values():
        text = text.replace(plan.digest[:12], "." * 12)
    return text


def write_all(folder: Path) -> list[Path]:
    """Write every text below a folder, for linters and schedulers; give the files."""
    files = []
    for name, plan in plans().items():
        for form in forms(plan):
            path = folder / name / FILE_NAMES[form]
            path.parent.mkdir(exist_ok=True)
            path.write_text(render(plan, form))
            files.append(path)
    return files
