"""Plan -> EDF: how the Container Engine of CSCS is told of an image, as TOML.

Source: docs.cscs.ch/software/container-engine/edf.
"""

import json
import re
import tomllib

from dlcontainer.errors import ConfigError
from dlcontainer.formats import host_variables, runtimes
from dlcontainer.planning.launch import surroundings
from dlcontainer.planning.plan import Plan

_HERE = "${PWD}:${PWD}"
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def text(plan: Plan) -> str:
    """Write the EDF of a plan; the engine fills in ${NAME} from the job's environment.

    Raises ConfigError for what an EDF can't say.
    """
    applied = surroundings.of_plan(plan)
    runtimes.start(plan, applied)  # refuses what can't be said here
    lines = [
        f"# {plan.name}, plan sha256:{plan.digest}",
        "# The image is a SquashFS file, or REGISTRY#NAME:TAG.",
        f"image = {host_variables.toml(f'${{PWD}}/{plan.name}.sqsh')}",
    ]
    # The engine shows these mounts alone, and begins in the image's own folder: without the last,
    # neither the user's program nor the folder of a job's proof would be there.
    mounts = dict.fromkeys([*map(runtimes.both, applied.binds), _HERE])
    lines.append(f"mounts = [{', '.join(map(host_variables.toml, mounts))}]")
    lines.append(f"workdir = {host_variables.toml('${PWD}')}")
    values: dict[str, tuple[str, ...]] = {name: (value,) for name, value in applied.inside.items()}
    if applied.preload:
        values["LD_PRELOAD"] = applied.preload
    if applied.library_path:
        values["LD_LIBRARY_PATH"] = applied.library_path
    if values:
        lines += ["", "[env]"]
        lines += [f"{name} = {host_variables.toml(*texts)}" for name, texts in values.items()]
    if applied.flags:
        lines += ["", "[annotations]"]
        # MPI's come last, and win.
        settings = dict(flag.split("=", 1) for flag in applied.flags)
        lines += [
            f"{_dotted(name)} = {host_variables.toml(value)}" for name, value in settings.items()
        ]
    written = "\n".join(lines) + "\n"
    try:
        tomllib.loads(written)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"site {plan.site.name}: cannot write its annotations to an EDF: {error}",
            where=plan.place_in_site("jobs", "flags"),
            why="a name cannot have both a value and names below it",
            next_step="change jobs.flags or mpi.flags",
        ) from None
    return written


def _dotted(name: str) -> str:
    return ".".join(map(_key, name.split(".")))


def _key(part: str) -> str:
    return part if _BARE.fullmatch(part) else json.dumps(part, ensure_ascii=False)
