"""What becomes of a job's environment: one list of names, and each runtime's way with it.

The list is that of wrappers, planning/launch/refused_variables.py: a user's variable goes into the
image unless a row of it says why not.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from dlcontainer.config.templating import Text, quote
from dlcontainer.formats import host_variables
from dlcontainer.planning.launch import refused_variables
from dlcontainer.planning.launch.launch_plan import LaunchPlan
from dlcontainer.sites.engine import Runtime

_WIDTH = 90


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvironmentPolicy:
    """What a runtime does with the environment that it is started in.

    `enters`: all of it by itself, or what is named to it (`-e NAME`, so that no value stands on a
    command line). `kept_out`: where a job takes the refused variables away: on each rank, right
    before the runtime; or before the launcher, which starts the runtime itself.
    `image_wins`: a variable that the image sets too is the image's, unless it is handed in by name.
    """

    enters: Literal["all", "named"]
    kept_out: Literal["rank", "job"]
    image_wins: bool = False


# Sources. Apptainer: "Environment and Metadata" of its user guide, and tried with 1.4.5 (PATH and
# LD_LIBRARY_PATH do not go in; %environment comes after what goes in). podman-hpc: podman-run(1),
# --env, tried with podman 4.3.1. Shifter: its user guide, "the user's environment is passed".
# Container Engine: docs.cscs.ch/software/container-engine/edf, [env]: "inherited from the host".
# Of the last two nobody here has tried what an image's own variables do.
WAYS: Mapping[Runtime, EnvironmentPolicy] = {
    "apptainer": EnvironmentPolicy(enters="all", kept_out="rank", image_wins=True),
    "singularity": EnvironmentPolicy(enters="all", kept_out="rank", image_wins=True),
    "podman-hpc": EnvironmentPolicy(enters="named", kept_out="rank"),
    "shifter": EnvironmentPolicy(enters="all", kept_out="rank"),
    "container-engine": EnvironmentPolicy(enters="all", kept_out="job"),
}

# What an engine, or a launcher, needs of these itself. Apptainer lets the first in to no image.
_ENGINES = ("LD_LIBRARY_PATH", "XDG_RUNTIME_DIR")
# Folders and files of the host that a runtime which shows binds alone does not show.
_UNSHOWN = ("TMPDIR", "TMP", "TEMP", *refused_variables.CERTIFICATES)
# What launchers and schedulers set for each rank, so later than a job can name it; patterns.
OF_RANKS = (
    *("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK"),
    *("OMPI_*", "PMI_*", "PMIX_*", "PALS_*", "MPI_LOCAL*"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cases:
    """The list as patterns of a shell's `case`: never, let in by the site, refused."""

    never: Text
    passed: Text
    refused: Text


def unset_where(policy: EnvironmentPolicy | None, place: Literal["rank", "job"]) -> bool:
    """Return whether refused variables are unset there."""
    return policy is not None and policy.enters == "all" and policy.kept_out == place


def cases(plan: LaunchPlan, policy: EnvironmentPolicy, set_by_site: Iterable[str]) -> Cases:
    """Return the list for a plan's image at its site, in a runtime's way."""
    rows = refused_variables.rules(plan.environment).rows
    named = policy.enters == "named"
    # First of all: APPTAINERENV_LD_PRELOAD ends as a refused name does. What is never named to an
    # engine is never unset either, since the engine is told by it.
    always = [name for row in rows if row.always for name in row.names]
    never = always if named else [*always, *_ENGINES]
    conditional = (name for row in rows if not row.always for name in row.names)
    refused = [name for name in conditional if name not in never]
    return Cases(
        never=_patterns(never),
        passed=_patterns([*set_by_site, *plan.site.modules.pass_environment]),
        refused=_patterns([*refused, *(_UNSHOWN if named else ())]),
    )


def rank_words() -> list[Text]:
    """Return the words that hand in, by pattern, what only a rank's own environment has."""
    return [Text(f"-e {quote(name)}") for name in OF_RANKS]


def own_of_image(plan: LaunchPlan, taken: Iterable[str]) -> list[Text]:
    """Return the lines that hand in the user's value of variables that the image sets too.

    `taken` are those that the site sets in the image.
    """
    rules, remaining = refused_variables.rules(plan.environment), set(taken)
    names = [
        name
        for name in sorted(plan.environment)
        if not rules.refusal(name) and name not in remaining
    ]
    return [
        Text(f'[ -z "${{{name}+x}}" ] || dlc_inside {name} {host_variables.shell(f"${name}")}')
        for name in names
    ]


def _patterns(names: Iterable[str]) -> Text:
    lines = [""]
    for name in dict.fromkeys(names):
        if len(lines[-1]) + len(name) > _WIDTH:
            lines.append("")
        lines[-1] += f"{name} | "
    return Text("\\\n            ".join(lines).removesuffix(" | "))
