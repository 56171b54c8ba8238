"""A session's schedule and ranks: as typed, as declared before, or the default."""

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlcontainer.cli.bench import session_options
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.bench.measure.launcher import Asked
    from dlcontainer.bench.samples.records import Declared
    from dlcontainer.bench.samples.vocabulary import ArmName
    from dlcontainer.cli.bench.session_options import SessionOptions

FEWEST = 8
_BLOCK = 4
_TRIPLES = 6  # three arms have six sequences: triples come in blocks of them
FEWEST_TRIPLES = 12
DEFAULT_LOOKS = (8, 16, 32)
DEFAULT_TRIPLES = (12, 18, 36)


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """The arms and how often they are launched: as typed, as declared before, or the default."""

    arms: "tuple[ArmName, ...]"
    looks: tuple[int, ...]
    controls: int
    candidate_controls: int

    @property
    def has_container(self) -> bool:
        """Whether an image is mounted."""
        return not self.arms or "container" in self.arms

    @property
    def fewest(self) -> int:
        """The pairs (triples) that a verdict takes."""
        return FEWEST_TRIPLES if len(self.arms) == 3 else FEWEST


def schedule(options: "SessionOptions", begun: "Declared | None") -> Schedule:
    """Read the schedule; a session that goes on gives what was not typed. Raises UsageError."""
    arms = session_options.arms(options.arms) or (begun.arms if begun else ())
    controls, candidate_controls = session_options.controls(options.controls)
    is_triple = len(arms) == 3
    usual = DEFAULT_TRIPLES if is_triple else DEFAULT_LOOKS
    chosen = looks(options.pairs, options.looks, triples=is_triple)
    chosen = chosen or (begun.looks if begun else None) or usual
    if controls is None:
        controls = begun.control_pairs if begun else chosen[-1]
    if begun and not candidate_controls:
        candidate_controls = begun.candidate_control_pairs
    return Schedule(
        arms=arms, looks=chosen, controls=controls, candidate_controls=candidate_controls
    )


def threads(options: "SessionOptions", begun: "Declared | None") -> int | None:
    """Give the threads, None where neither the command line nor a session that goes on says."""
    before = begun.workload.get("threads") if begun else None
    return options.threads or (before if isinstance(before, int) else None)


def looks(pairs: int | None, text: str | None, *, triples: bool = False) -> tuple[int, ...] | None:
    """Read the looks; None where neither they nor the pairs were given. Raises UsageError."""
    block, fewest = (_TRIPLES, FEWEST_TRIPLES) if triples else (_BLOCK, FEWEST)
    if triples and pairs is not None and pairs % block:
        raise UsageError(
            f"--pairs {pairs}: of three arms a multiple of {block}",
            next_step=f"triples are balanced in blocks of six: --pairs {-(-pairs // block) * block}"
            f"; a verdict takes {fewest}",
        )
    if text is None:
        return None if pairs is None else (pairs,)
    words = [word.strip() for word in text.split(",")]
    found = [int(word) for word in words if word.isdecimal() and len(word) < 7]
    if len(found) < len(words) or not found:
        raise UsageError(f"--looks {text}: numbers of pairs, e.g. 8,16,32")
    if found[0] < fewest or sorted(set(found)) != found or any(n % block for n in found):
        unit, usual = ("triples", DEFAULT_TRIPLES) if triples else ("pairs", DEFAULT_LOOKS)
        raise UsageError(
            f"--looks {text}: must be strictly increasing multiples of {block}, "
            f"the first at least {fewest}",
            next_step=f"orders are balanced in blocks of {block} {unit}, and a verdict takes "
            f"{fewest}: {','.join(map(str, usual))}",
        )
    if pairs is not None and pairs != found[-1]:
        raise UsageError(f"--pairs {pairs} and --looks {text}: give one of them")
    return tuple(found)


def ranks_of(options: "SessionOptions", begun: "Declared | None") -> "Asked | None":
    """Give the ranks asked for, or those that a session that goes on was declared with.

    None where launches are single processes. Raises UsageError.
    """
    from dlcontainer.bench.measure.launcher import Asked

    work = begun.workload if begun else {}
    known = {name: work.get(name) for name in ("ranks", "ranks_per_node", "nodes")}
    ranks = options.ranks or _whole(known["ranks"])
    others = (options.per_node, options.nodes, options.start, options.form)
    if ranks is None and options.launcher is None:
        if any(other is not None for other in others):
            raise UsageError(
                "--ranks-per-node, --nodes, --start, --form are about ranks",
                next_step="say how many: --ranks R",
            )
        return None
    started = work.get("launcher")
    words = tuple(shlex.split(options.launcher)) if options.launcher else ()
    if not words and isinstance(started, list):
        words = tuple(str(word) for word in started)
    return Asked(
        ranks=ranks or 1,
        per_node=options.per_node or _whole(known["ranks_per_node"]),
        nodes=options.nodes or _whole(known["nodes"]) or 1,
        start=options.start or ("storm" if work.get("start") == "storm" else "natural"),
        words=words,
        form=options.form,
        settled=bool(started) and options.launcher is None,
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None
