"""For what a verdict holds, and what it is that differed."""

from dlcontainer.bench.analysis import contrasts
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.samples import comparable


def scope(analysis: Analysis) -> str:
    """Say for what the verdict holds."""
    declared = analysis.series.session.declared
    text = (
        "On this machine, in this session; a statement for other nodes or days takes three "
        "sessions there (dlcontainer report A B C)."
    )
    if declared.question == "deployment":
        return (
            f"{text} Each side as shipped: the stacks differ, so this says which one is faster "
            "here, not what the container costs."
        )
    return f"{text} {_differs(analysis)}"


def _differs(analysis: Analysis) -> str:
    declared = analysis.series.session.declared
    others = comparable.also_differing(analysis.differences)
    beside = f", and beside it {' and '.join(others)}" if others else ""
    if declared.arms[0] == "unpacked":
        return (
            "The reference is the unpacked image, run by the same engine: what differs is the "
            f"image mount{beside}. This is not what the container costs against a native stack."
        )
    if declared.arms[-1] == "unpacked":
        return f"What differs is the build and the namespaces of the engine{beside}."
    if _is_given(analysis):
        return (
            "The native side was given with --native, and nobody asked it for the same bits: what "
            f"differs is the container{beside or ', and whatever no fact below tells'}."
        )
    whole = contrasts.MEANINGS.get(declared.sides) == "the whole"
    bits = "The same versions and wheels on both sides" if others else "The same bits on both sides"
    return f"{bits}, so what differs is {'the container' if whole else 'the image'}{beside}."


def _is_given(analysis: Analysis) -> bool:
    native = analysis.series.session.arms.get("native")
    return native is not None and native.what.startswith("native side, given")
