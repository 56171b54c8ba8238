"""Plan -> EDF: how the Container Engine of CSCS is told of an image, as TOML.

Source: docs.cscs.ch/software/container-engine/edf.
"""

import json
import re

from dlcontainer.formats import hosttext, runtimes, surroundings
from dlcontainer.plan import Plan

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def text(plan: Plan) -> str:
    """Write the EDF of a plan; the engine fills in ${NAME} from the job's environment."""
    around = surroundings.of(plan)
    runtimes.start(plan, around)  # refuses what can't be said here
    lines = [
        f"# {plan.name}, plan sha256:{plan.digest}",
        "# The image is a SquashFS file, or REGISTRY#NAME:TAG.",
        f"image = {hosttext.toml(f'${{PWD}}/{plan.name}.sqsh')}",
    ]
    if around.binds:
        mounts = ", ".join(hosttext.toml(runtimes.both(bind)) for bind in around.binds)
        lines.append(f"mounts = [{mounts}]")
    values: dict[str, tuple[str, ...]] = {name: (value,) for name, value in around.inside.items()}
    if around.preload:
        values["LD_PRELOAD"] = around.preload
    if around.library_path:
        values["LD_LIBRARY_PATH"] = around.library_path
    if values:
        lines += ["", "[env]"]
        lines += [f"{name} = {hosttext.toml(*given)}" for name, given in values.items()]
    if around.flags:
        lines += ["", "[annotations]"]
        lines += [_annotation(flag) for flag in around.flags]
    return "\n".join(lines) + "\n"


def _annotation(flag: str) -> str:
    name, _, value = flag.partition("=")
    return f"{'.'.join(map(_key, name.split('.')))} = {hosttext.toml(value)}"


def _key(part: str) -> str:
    return part if _BARE.fullmatch(part) else json.dumps(part, ensure_ascii=False)
