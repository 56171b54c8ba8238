"""For what a verdict holds, and what it is that differed."""

from collections.abc import Mapping

from dlcontainer.bench.analysis import machine_load
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.samples import comparable
from dlcontainer.bench.samples.vocabulary import MEANINGS, ArmPair


def scope(analysis: Analysis) -> str:
    """Return the sentences on what the verdict holds for."""
    declared = analysis.series.session.declared
    text = (
        "This holds for this machine and this session: a statement about other nodes or days takes "
        "three sessions there (dlcontainer report A B C)."
    )
    differs = _differs(analysis)
    if declared.question == "deployment":
        differs = (
            "Each side ran as shipped. The stacks differ, so this says which one is faster here, "
            "not what the container costs."
        )
    return " ".join(filter(None, (text, differs, load(analysis))))


def load(analysis: Analysis) -> str:
    """Return how busy the machine was: a verdict at load 35 on 2 cores is no verdict of the
    idle.
    """
    began_at = _load(analysis.series.session.machine)
    if began_at is None:
        return ""
    text = f"At the start: {machine_load.text(*began_at)}."
    if machine_load.others_at_work(*began_at):
        return f"{text} Others were at work: this is not a verdict about an idle machine."
    return text


def others_at_work(machine: Mapping[str, object]) -> str:
    """Return the load where others were at work as a session began; empty where nobody was.

    `machine` has the facts of its file.
    """
    began_at = _load(machine)
    return (
        machine_load.text(*began_at) if began_at and machine_load.others_at_work(*began_at) else ""
    )


def _load(machine: Mapping[str, object]) -> tuple[float, float | None, int] | None:
    average, busy, cores = (machine.get(name) for name in ("load_1min", "busy_cores", "cores"))
    if not isinstance(average, int | float) or not isinstance(cores, int):
        return None
    return float(average), float(busy) if isinstance(busy, int | float) else None, cores


def _differs(analysis: Analysis) -> str:
    declared = analysis.series.session.declared
    differing = comparable.also_differing(analysis.differences)
    together = f", together with {' and '.join(differing)}" if differing else ""
    if "bare" in declared.sides.names:
        return _of_bare(declared.sides, together)
    if declared.arms[0] == "unpacked":
        return (
            "The reference is the unpacked image, run by the same engine: what differs is the "
            f"image mount{together}. This is not the container's cost against a native stack."
        )
    if declared.arms[-1] == "unpacked":
        return f"What differs is the build and the namespaces of the engine{together}."
    if _is_given(analysis):
        return (
            "The native side was given with --native and need not have the same bits: what "
            f"differs is the container{together or ', and anything that no fact below shows'}."
        )
    whole = MEANINGS.get(declared.sides) == "the whole"
    bits = "the same versions and wheels" if differing else "the same bits"
    what = "the container" if whole else "the image"
    return f"Both sides ran {bits}, so what differs is {what}{together}."


def _of_bare(sides: ArmPair, together: str) -> str:
    if sides.candidate == "bare":
        return (
            "The candidate is the image's own Python, started on the host without an engine: what "
            f"differs is the build{together}. No container ran: this is not a container's cost."
        )
    mount = ", without its image mount" if sides.candidate == "unpacked" else ""
    return (
        "The reference is the image's own Python, started on the host without an engine: what "
        f"differs is the engine{mount}{together}. This is not the container's cost against a "
        "native "
        "stack."
    )


def _is_given(analysis: Analysis) -> bool:
    native = analysis.series.session.arms.get("native")
    return native is not None and native.what.startswith("native side, given")
