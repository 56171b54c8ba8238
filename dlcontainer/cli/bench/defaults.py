"""What a session is measured with: as typed, as declared before, or the default."""

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING

from dlcontainer.cli.bench import session_options
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.bench.measure.bench_image import BenchImage
    from dlcontainer.bench.measure.launcher import RankOptions
    from dlcontainer.bench.samples.records import SessionDeclaration
    from dlcontainer.bench.samples.schedule import Schedule
    from dlcontainer.cli.bench.session_options import SessionOptions
    from dlcontainer.cli.context import CliContext
    from dlcontainer.planning.plan import Plan
    from dlcontainer.sites.site import Site


def schedule(
    options: "SessionOptions", begun: "SessionDeclaration | None", *, joins: bool
) -> "Schedule":
    """Read the schedule; a session that goes on gives what was not typed. Raises UsageError.

    `joins`: an image's mount may be shared, and is measured so too.
    """
    from dlcontainer.bench.probes.probe import QUICK
    from dlcontainer.bench.samples.schedule import (
        DEFAULT_LOOKS,
        DEFAULT_TRIPLES,
        FEWEST,
        FEWEST_TRIPLES,
        Schedule,
    )

    arms = session_options.arms(options.arms) or (begun.arms if begun else ())
    controls, candidate_controls = session_options.controls(options.controls)
    is_triple = len(arms) == 3
    usual: tuple[int, ...] = DEFAULT_TRIPLES if is_triple else DEFAULT_LOOKS
    if options.values.get(QUICK.name):
        usual = (FEWEST_TRIPLES if is_triple else FEWEST,)
        controls = controls or 0
    chosen = looks(options.pairs, options.looks, triples=is_triple)
    chosen = chosen or (begun.looks if begun else None) or usual
    if controls is None:
        controls = begun.control_pairs if begun else chosen[-1]
    if begun and not candidate_controls:
        candidate_controls = begun.candidate_control_pairs
    has_container = not arms or "container" in arms
    return Schedule(
        arms=arms,
        looks=chosen,
        controls=controls,
        candidate_controls=candidate_controls,
        joiners=chosen[-1] if joins and has_container else 0,
        seed=seed(options, begun.seed if begun else None),
    )


def for_load(
    options: "SessionOptions", schedule: "Schedule", begun: "SessionDeclaration | None", cores: int
) -> tuple["Schedule", str | None]:
    """Return the first look alone, and why, where that was asked for on a machine that is busy.

    A session that goes on stays as it was declared.
    """
    from dlcontainer.bench.measure import outlook

    if begun is not None or not options.one_look_if_busy:
        return schedule, None
    return outlook.one_look(schedule, outlook.load(), cores)


def margin(options: "SessionOptions", begun: "SessionDeclaration | None") -> float | None:
    """Return the margin as typed or declared before; None: the probe's own. Raises UsageError."""
    typed = session_options.margin(options.margin)
    return begun.margin if typed is None and begun else typed


def seed(options: "SessionOptions", begun: int | None) -> int:
    """Return the seed of the order: a new one where neither it nor an earlier one is given."""
    import secrets

    chosen = begun if options.seed is None else options.seed
    return secrets.randbelow(2**31) if chosen is None else chosen


def output(options: "SessionOptions", image: "BenchImage", kind: str) -> Path:
    """Return the file of samples: that of the session that goes on, as typed, or a new name."""
    named = Path(f"{image.image.stem}-{kind}-{time.strftime('%Y%m%dT%H%M%S')}.jsonl")
    return (options.resume or options.target or named).absolute()


def plan(options: "SessionOptions", image: "BenchImage", world: "CliContext") -> "Plan":
    """Plan the recipe that the image was built from, for this site."""
    # Nothing of a plan is made for an adopted image: the site's default recipe stands for none.
    name = options.recipe or (None if image.is_adopted else image.recipe)
    cpu = bool(name) and image.variant is None and _is_for_processors(world, str(name))
    return world.plan(name, options.site, options.settings, variant=image.variant, cpu=cpu)


def _is_for_processors(world: "CliContext", recipe: str) -> bool:
    """Return whether images of a recipe without variants were made because --cpu asked."""
    from dlcontainer.planning import refusals

    written = world.recipe(recipe)
    return not written.data.get("variants") and not refusals.device_keys(written)


def threads(options: "SessionOptions", begun: "SessionDeclaration | None") -> int | None:
    """Return the threads, None where neither the command line nor a session that goes on says."""
    before = begun.workload.get("threads") if begun else None
    return options.threads or (before if isinstance(before, int) else None)


def rank_share(site: "Site") -> int:
    """Return the cores of a rank, as the site usually places ranks; 1 where it does not say."""
    form = next(iter(site.scheduler.forms.values()), None)
    return max(1, site.cpu.cores // form.ranks_per_node) if form and site.cpu else 1


def looks(pairs: int | None, text: str | None, *, triples: bool = False) -> tuple[int, ...] | None:
    """Read the looks; None where neither they nor the pairs were given. Raises UsageError."""
    from dlcontainer.bench.samples import schedule
    from dlcontainer.bench.samples.launch_order import BLOCK, TRIPLES

    block, fewest = (TRIPLES, schedule.FEWEST_TRIPLES) if triples else (BLOCK, schedule.FEWEST)
    if triples and pairs is not None and pairs % block:
        raise UsageError(
            f"--pairs {pairs}: must be a multiple of {block} with three arms",
            next_step=f"use --pairs {-(-pairs // block) * block}: triples are balanced in "
            f"blocks of six, and a verdict needs {fewest}",
        )
    if text is None:
        return None if pairs is None else (pairs,)
    words = [word.strip() for word in text.split(",")]
    numbers = [int(word) for word in words if word.isdecimal() and len(word) < 7]
    if len(numbers) < len(words) or not numbers:
        raise UsageError(
            f"--looks {text}: must be numbers of pairs after which to stop, e.g. 8,16,32"
        )
    if numbers[0] < fewest or sorted(set(numbers)) != numbers or any(n % block for n in numbers):
        unit, usual = "pairs", schedule.DEFAULT_LOOKS
        if triples:
            unit, usual = "triples", schedule.DEFAULT_TRIPLES
        raise UsageError(
            f"--looks {text}: must be strictly increasing multiples of {block}, "
            f"the first at least {fewest}",
            next_step=f"use, for example, {','.join(map(str, usual))}: orders are balanced in "
            f"blocks of {block} {unit}, and a verdict needs {fewest}",
        )
    if pairs is not None and pairs != numbers[-1]:
        raise UsageError(f"--pairs {pairs} and --looks {text}: give only one of them")
    return tuple(numbers)


def ranks_of(options: "SessionOptions", begun: "SessionDeclaration | None") -> "RankOptions | None":
    """Return the ranks asked for, or those that a session that goes on was declared with.

    None where launches are single processes. Raises UsageError.
    """
    from dlcontainer.bench.measure.launcher import RankOptions

    work = begun.workload if begun else {}
    declared = {name: work.get(name) for name in ("ranks", "ranks_per_node", "nodes")}
    ranks = options.ranks or _whole(declared["ranks"])
    rank_settings = (options.per_node, options.nodes, options.start, options.form)
    if ranks is None and options.launcher is None:
        if any(setting is not None for setting in rank_settings):
            raise UsageError(
                "--ranks-per-node, --nodes, --start and --form require --ranks",
                next_step="add the number of ranks: --ranks R",
            )
        return None
    started = work.get("launcher")
    words = launcher_words(options)
    if not words and isinstance(started, list):
        words = tuple(str(word) for word in started)
    return RankOptions(
        ranks=ranks or 1,
        per_node=options.per_node or _whole(declared["ranks_per_node"]),
        nodes=options.nodes or _whole(declared["nodes"]) or 1,
        start=options.start or ("storm" if work.get("start") == "storm" else "natural"),
        words=words,
        form=options.form,
        settled=bool(started) and options.launcher is None,
    )


def launcher_words(options: "SessionOptions") -> tuple[str, ...]:
    """Return a launcher of the user's own in place of the site's; empty without one."""
    return tuple(shlex.split(options.launcher)) if options.launcher else ()


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None
