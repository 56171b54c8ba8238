"""For what a verdict holds, and what it is that differed."""

from dlcontainer.bench.analysis import contrasts
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.samples.vocabulary import counted

_PYTHON = "executable"
_LIBRARIES = "system_library_builds."
# Facts that differ in every container: where its files are, and what the engine sets.
_OF_CONTAINERS = frozenset(
    {
        "clocks_now",
        "environment",
        "gpu_ids",
        "gpus_now",
        "hostname",
        "namespaces",
        "prefix",
        "started",
        "sys_path",
        "sys_prefix",
        "sys_prefix_mount",
        "temperature",
        "user_site",
    }
)


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
    others = _others(analysis)
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


def _others(analysis: Analysis) -> list[str]:
    """Name what differs beside the container itself, and does not refuse."""
    names = {item.name for item in analysis.differences if not item.refuses}
    libraries = {name for name in names if name.startswith(_LIBRARIES)}
    rest = sorted({name.partition(".")[0].partition(" on ")[0] for name in names - libraries})
    found = ["the distribution's build of Python"] if _PYTHON in rest else []
    if libraries:
        found.append(counted(len(libraries), "system library", "system libraries"))
    return found + [name for name in rest if name != _PYTHON and name not in _OF_CONTAINERS]
