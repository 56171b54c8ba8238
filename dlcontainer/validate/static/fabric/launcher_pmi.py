"""The rule of PMI: how ranks find each other, by the launcher's words and the image's MPI.

Where the two differ each rank is rank 0 of 1, without an error, or MPI_Init fails. Sources: Slurm,
"MPI Users Guide"; Open MPI 5.0, "Launching with Slurm" (PMI-1 and PMI-2 are gone); MPICH, "Slurm".
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from dlcontainer.sites.site import Site
from dlcontainer.validate.static.fabric import mpi_parts
from dlcontainer.validate.static.fabric.fabric_signs import INTEL, PMI2, PMIX, WIRE
from dlcontainer.validate.static.fabric.mpi_names import families
from dlcontainer.validate.static.finding import RuleFinding, needing
from dlcontainer.validate.static.questions import StaticQuestions

_OPTION = re.compile(r"(?<!\S)--mpi[= ](?P<kind>\S+)")
_VARIABLE = "SLURM_MPI_TYPE"
# pmix_v4 is one of several that a site may have.
_KINDS = re.compile(r"(?P<kind>pmix|pmi2)(?:_v\d+)?")


def launcher_pmi(image: StaticQuestions) -> Iterator[RuleFinding]:
    """Hold the PMI by which srun starts ranks against those that the image's own MPI speaks."""
    mpi = image.site.mpi
    if mpi is None or mpi.mode != "container":
        return
    for name, files in image.mpi_users.items():
        candidates = sorted(families(name) & set(mpi.families))
        if len(candidates) == 1:
            spoken = _spoken(image, *candidates)
            forms = _forms(image.site, *candidates)
            if spoken and forms:
                yield from _held(files, name, spoken, forms)


def _spoken(image: StaticQuestions, family: str) -> frozenset[str]:
    """Return the PMIs that the image's MPI of a family speaks; empty where files do not tell.

    Intel MPI loads any, as I_MPI_PMI_LIBRARY says. MPICH speaks PMI-1's and PMI-2's protocol by
    itself, which `--mpi=pmi2` serves.
    """
    words = mpi_parts.words(image, mpi_parts.own(image, family))
    if INTEL in words:
        return frozenset()
    spoken = {"pmix"} if any(PMIX in word or "MCA_PMIX" in word for word in words) else set()
    if family == "mpich":
        spoken |= {"pmi2"} if WIRE in words else set()
    elif (spoken and PMI2 in words) or _has_pmi_module(image):
        spoken |= {"pmi2"}
    return frozenset(spoken)


def _has_pmi_module(image: StaticQuestions) -> bool:
    """Return whether Open MPI has its modules for Slurm's libpmi and libpmi2: up to 4.x."""
    return any(re.search(r"/mca_pmix_s[12]\.so$", path) for path in image.files)


def _forms(site: Site, family: str) -> Mapping[str, str]:
    """Return the PMI of each form by which srun may start the family's images, the usual one first.

    A form that says none has what the site's settings say; one that starts a process a node starts
    no ranks of MPI.
    """
    mpi_environment = site.mpi.environment if site.mpi else {}
    default = {**site.jobs.environment, **mpi_environment}.get(_VARIABLE, "")
    forms = {name: form for name, form in site.scheduler.forms.items() if not form.inside}
    order = sorted(forms, key=lambda name: forms[name].mpi != family)
    launchers = {name: forms[name].launcher for name in order} or {"": site.scheduler.launcher}
    by_srun = {name: words for name, words in launchers.items() if words[:1] == ("srun",)}
    return {name: _kind(words, default) for name, words in by_srun.items()}


def _kind(words: Sequence[str], default: str) -> str:
    """Return the PMI of srun's words, pmix or pmi2; empty for another one, or none."""
    option = _OPTION.search(" ".join(words))
    match = _KINDS.fullmatch(option["kind"] if option else default)
    return match["kind"] if match else ""


def _held(
    files: Sequence[str], name: str, spoken: frozenset[str], forms: Mapping[str, str]
) -> Iterator[RuleFinding]:
    usual, kind = next(iter(forms.items()))
    if kind in spoken:
        return
    if not kind:
        yield RuleFinding(
            level="not decided",
            file=files[0],
            what=f"{needing(files)} {name}, which speaks {' and '.join(sorted(spoken))}; by which "
            f"PMI srun starts ranks is not stated{f' (form {usual})' if usual else ''}",
            why="by another one each rank is rank 0 of 1 and no error is reported, or MPI_Init "
            "fails",
            fix="write --mpi=pmix or --mpi=pmi2 into the site's launcher",
        )
        return
    fitting = [form for form, pmi in forms.items() if pmi in spoken]
    yield RuleFinding(
        level="warning" if fitting else "error",
        file=files[0],
        what=f"{needing(files)} {name}, which speaks {' and '.join(sorted(spoken))}; the site's "
        f"{f'form {usual}' if usual else 'launcher'} starts ranks by {kind}",
        why="each rank is rank 0 of 1 and no error is reported, or MPI_Init fails",
        fix=f"start jobs with DLCONTAINER_FORM={fitting[0]}"
        if fitting
        else f"take an MPI that speaks {kind}",
    )
