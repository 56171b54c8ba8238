"""What starts images in jobs: each runtime's words, and how variables get into its images."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from dlcontainer.config.templating import Literal, Text, quote
from dlcontainer.errors import ConfigError
from dlcontainer.formats import host_environment, host_variables
from dlcontainer.formats.host_environment import WAYS, EnvironmentPolicy
from dlcontainer.planning.launch.launch_plan import LaunchPlan
from dlcontainer.planning.launch.surroundings import Surroundings
from dlcontainer.schedulers import SCHEDULERS
from dlcontainer.sites.engine import Runtime

# The variables in which a rank hands its place on, into the image.
HANDED = (
    *("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    *("PET_NODE_RANK", "TF_CONFIG"),
)
_NONE = Text("")


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderBinding:
    """How a runtime is told of the job's folder; one without `stay` takes it from its own process.

    `volume` has the words that show the folder $dlc_at, empty where they are Apptainer's; `stay`
    those that name $dlc_pwd. `roots` are what the runtime shows by itself.
    """

    runtime: str
    volume: Text = _NONE
    stay: Text = _NONE
    roots: Text = _NONE


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeStart:
    """How a runtime starts an image.

    `words` stand between the launcher and the command (an option may hold its value, too),
    `on_launcher` are the launcher's own; `named` hand in what only a rank's environment has;
    `prefix` begins the variables through which the runtime is told more, None where it takes words
    for them. `image` is the default, between a shell's braces; None where there is none. `before`
    are lines that settle what the words use. `policy` says what becomes of the job's environment,
    and `shows` says how the job's folder gets in; None for what starts no image.
    """

    words: tuple[Text, ...]
    on_launcher: tuple[Text, ...] = ()
    named: tuple[Text, ...] = ()
    prefix: str | None = None
    image: Text | None
    is_file: bool
    hint: str
    before: tuple[Text, ...] = ()
    policy: EnvironmentPolicy | None = None
    shows: FolderBinding | None = None


# Settled by templates/job/folder.sh.j2; older shells take an empty list for one that is not set.
_EACH_SYSTEM = Text('${dlc_systems[@]+"${dlc_systems[@]}"}')
_SYSTEMS = Text('${dlc_systems[@]+"${dlc_systems[@]/#/--volume=}"}')
_SHOWN = Text('${dlc_shown[@]+"${dlc_shown[@]}"}')


def start(plan: LaunchPlan, applied: Surroundings) -> RuntimeStart:
    """Return the words of the site's runtime; raises ConfigError for what it has no way to do."""
    runtime = plan.site.engine.runtime
    if applied.libraries and runtime not in ("apptainer", "singularity"):
        raise ConfigError(
            f"site {plan.site.name}: mpi.libraries: {runtime} cannot add single libraries to "
            "images",
            why="only Apptainer and Singularity can (CONTAINLIBS)",
            next_step="name folders in mpi.binds and mpi.library_path",
        )
    return replace(_STARTS[runtime](plan, applied), policy=WAYS[runtime])


def oci_name(plan: LaunchPlan) -> str:
    """Name the image as engines of OCI images do: NAME:TAG."""
    tag = plan.name.removeprefix(f"{plan.recipe.name}-").replace("+", "-")
    return f"{plan.recipe.name}:{tag[:128]}"


def edf_name(plan: LaunchPlan) -> str:
    """Name the Container Engine's description of the image, beside the job script."""
    return f"{plan.name}.toml"


def _apptainer(plan: LaunchPlan, applied: Surroundings) -> RuntimeStart:
    runtime = plan.site.engine.runtime
    binds = [Text(f"--bind {host_variables.shell(bind)}") for bind in applied.binds]
    flags = map(host_variables.shell, applied.flags)
    return RuntimeStart(
        words=(
            host_variables.shell(Literal(applied.program)),
            Text("exec"),
            *flags,
            *binds,
            _SHOWN,
            Text('"$dlc_image"'),
        ),
        before=_here(applied),
        shows=FolderBinding(
            runtime=runtime,
            stay=Text('--pwd "$dlc_pwd"'),
            roots=_roots(applied),
        ),
        # SingularityCE reads these names only; Apptainer reads both, its own without a warning.
        prefix=runtime.upper(),
        image=Text(f"$PWD/{plan.name}.sif"),
        is_file=True,
        hint="build it: dlcontainer build; or name it: DLCONTAINER_IMAGE=/path/to/image.sif",
    )


def _podman_hpc(plan: LaunchPlan, applied: Surroundings) -> RuntimeStart:
    systems = _systems(applied)
    return RuntimeStart(
        words=(
            *map(Text, ("podman-hpc", "run", "--rm")),
            *map(host_variables.shell, applied.flags),
            *_binds("-v", applied),
            *([_SYSTEMS] if systems else []),
            # Podman begins in the image's own folder and shows none of the host's.
            _SHOWN,
            # What the site sets wins: it is last.
            Text('"${dlc_names[@]}"'),
            *_variables("-e", applied),
            Text('"$dlc_image"'),
        ),
        # Without a value: as this rank has it, if it has it.
        named=(
            *host_environment.rank_words(),
            *(Text(f"-e {name}") for name in HANDED),
            *(Text(f"-e {quote(name)}") for name in _job_variables(plan)),
        ),
        before=(*systems, *_here(applied, *([_EACH_SYSTEM] if systems else []))),
        shows=FolderBinding(
            runtime="podman-hpc",
            volume=Text('-v "$dlc_at:$dlc_at"'),
            stay=Text('-w "$dlc_pwd"'),
        ),
        image=Text(oci_name(plan)),
        is_file=False,
        hint="compute nodes see migrated images: podman-hpc migrate IMAGE",
    )


def _shifter(_plan: LaunchPlan, applied: Surroundings) -> RuntimeStart:
    return RuntimeStart(
        words=(
            Text("shifter"),
            Text('--image="$dlc_image"'),
            *map(host_variables.shell, applied.flags),
            *(Text(f"--volume={host_variables.shell(bind)}") for bind in map(both, applied.binds)),
            _proof("--volume="),
            *_variables("--env", applied),
        ),
        # It enters the folder of its own process, where its site shows that.
        shows=FolderBinding(runtime="shifter"),
        image=None,
        is_file=False,
        hint="Shifter takes images from a registry: DLCONTAINER_IMAGE=docker:USER/NAME:TAG",
    )


def _container_engine(plan: LaunchPlan, applied: Surroundings) -> RuntimeStart:
    for flag in applied.flags:
        if flag.startswith("-") or "=" not in flag:
            raise ConfigError(
                f"site {plan.site.name}: {flag!r} is not an annotation",
                where=plan.place_of(flag),
                why="the Container Engine takes annotations, no flags",
                next_step="write NAME=VALUE: com.hooks.cxi.enabled=true",
            )
    return RuntimeStart(
        words=(),
        on_launcher=(Text('--environment="$dlc_image"'),),
        # The EDF shows $PWD, which is the name without links from here on.
        shows=FolderBinding(runtime="container-engine"),
        image=Text(f"$PWD/{edf_name(plan)}"),
        is_file=True,
        hint="the EDF is written beside this script: dlcontainer render --format job -o FOLDER/",
    )


_STARTS: Mapping[Runtime, Callable[[LaunchPlan, Surroundings], RuntimeStart]] = {
    "apptainer": _apptainer,
    "singularity": _apptainer,
    "podman-hpc": _podman_hpc,
    "shifter": _shifter,
    "container-engine": _container_engine,
}


def _job_variables(plan: LaunchPlan) -> tuple[str, ...]:
    """Name what tells a program in the image which job it is part of, patterns as Podman's."""
    batch = SCHEDULERS[plan.site.scheduler.kind]
    patterns = (*(batch.job.names if batch.job else ()), *batch.variables)
    return tuple(
        name
        for name in patterns
        if name and not any(name != pattern and fnmatchcase(name, pattern) for pattern in patterns)
    )


def _here(applied: Surroundings, *shown: Text) -> tuple[Text, ...]:
    """Settle how the job's folder is shown beside what is bound in any case, and `shown`."""
    return (Text(" ".join(["dlc_show_here", *map(host_variables.shell, applied.binds), *shown])),)


def _roots(applied: Surroundings) -> Text:
    """Name what Apptainer shows by itself; homes are left out, which some sites don't mount."""
    hidden = any(
        flag in {"-c", "-C"} or flag.startswith(("--contain", "--compat", "--no-mount"))
        for flag in applied.flags
    )
    return Text(r"$'/dev\n/proc\n/sys'" if hidden else r"$'/dev\n/proc\n/sys\n/tmp\n/var/tmp'")


def _systems(applied: Surroundings) -> tuple[Text, ...]:
    """Settle which of the site's file systems are shown: Podman stops where one is not there."""
    folders = [quote(folder) for folder in applied.unbound if ":" not in folder]
    if not folders:
        return ()
    return (
        Text("dlc_systems=()"),
        Text("# shellcheck disable=SC2043"),
        Text(f"for dlc_folder in {' '.join(folders)}; do"),
        Text('    [ ! -e "$dlc_folder" ] || dlc_systems+=("$dlc_folder:$dlc_folder")'),
        Text("done"),
    )


def _proof(option: str) -> Text:
    """Show the folder of the job's proof, where one is made: these show no current folder."""
    return Text(f'${{dlc_proof:+{option}"$dlc_proof:$dlc_proof"}}')


def both(bind: str) -> str:
    """Write a bind as HOST:IMAGE, for runtimes that have no short form of HOST:HOST."""
    return bind if ":" in bind else f"{bind}:{bind}"


def _binds(option: str, applied: Surroundings) -> list[Text]:
    return [Text(f"{option} {host_variables.shell(both(bind))}") for bind in applied.binds]


def _variables(option: str, applied: Surroundings) -> list[Text]:
    values = {name: host_variables.shell(value) for name, value in applied.inside.items()}
    if applied.preload:
        values["LD_PRELOAD"] = joined(applied.preload, ":")
    if applied.library_path:
        values["LD_LIBRARY_PATH"] = Text('"$dlc_path"')
    return [Text(f"{option} {name}={value}") for name, value in values.items()]


def joined(values: tuple[str, ...], separator: str) -> Text:
    """Join texts to one word of a shell."""
    return Text(separator.join(map(host_variables.shell, values)))
