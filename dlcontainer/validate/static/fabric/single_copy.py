"""The rule of single copies: ranks that copy from each other's memory (CMA, process_vm_readv).

The kernel refuses that where each rank has a user namespace of its own. Seen of two ranks on one
node: docs/measure/collectives.md; Open MPI 5 and Intel MPI work there.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from dlcontainer.planning.launch import surroundings
from dlcontainer.validate.static.fabric import fabric_needs, mpi_parts
from dlcontainer.validate.static.fabric.fabric_signs import COPIES
from dlcontainer.validate.static.finding import RuleFinding, and_more
from dlcontainer.validate.static.questions import StaticQuestions

# The parts that copy so, by family: Open MPI up to 4's, MPICH's and its UCX.
_COPYING: Mapping[str, re.Pattern[str]] = {
    "openmpi": re.compile(r".*/(?:mca_btl_vader\.so|libopen-pal\.so\.[1-4][\d.]*)", re.DOTALL),
    "mpich": re.compile(r".*/(?:libmpi(?:ch|_abi)?|libuct_cma)\.so[\d.]*", re.DOTALL),
}


def single_copy(image: StaticQuestions) -> Iterator[RuleFinding]:
    """Hold an MPI that copies from rank to rank against the variables that are set in its jobs."""
    mpi = image.site.mpi
    if mpi is None or mpi.mode != "container":
        return
    inside = fabric_needs.inside(image)
    for family in mpi.families:
        parts = _copying(image, family)
        off = surroundings.APART.get(family, {})
        if not parts or all(image.variables.get(name) == value for name, value in off.items()):
            continue
        is_off = all(inside.get(name) == value for name, value in off.items())
        yield _said(image, parts, off, is_off=is_off)


def _copying(image: StaticQuestions, family: str) -> Sequence[str]:
    pattern = _COPYING.get(family)
    return [
        path
        for path in sorted(mpi_parts.own(image, family))
        if pattern and pattern.fullmatch(path) and COPIES in mpi_parts.words(image, [path])
    ]


def _said(
    image: StaticQuestions, parts: Sequence[str], off: Mapping[str, str], *, is_off: bool
) -> RuleFinding:
    setting = " ".join(f"{name}={value}" for name, value in off.items())
    copy = "copies" if len(parts) == 1 else "copy"
    what = f"{and_more(parts)} {copy} from rank to rank"
    why = "where each rank has a user namespace of its own that is refused, and large messages hang"
    if is_off:
        return RuleFinding(
            level="note",
            file=parts[0],
            what=f"{what}; jobs and modules of dlcontainer set {setting}",
            why=f"{why}: started by other means, set it yourself",
        )
    apptainer_s = surroundings.is_apptainer(image.site)
    doubt = "" if apptainer_s else f"; whether {image.site.engine.runtime} gives each one is open"
    return RuleFinding(
        level="warning" if apptainer_s else "not decided",
        file=parts[0],
        what=f"{what}, and no variable switches that off",
        why=f"{why}{doubt}",
        fix=f"set {setting} in the image or the site's mpi.inside",
    )
