"""Plan -> Dockerfile (classic builder and BuildKit alike)."""

import json
from collections.abc import Mapping

from dlcontainer.config.templating import Text
from dlcontainer.formats import host_variables, labels, step_commands, step_environment
from dlcontainer.formats.step_commands import CommandBlock
from dlcontainer.image import layout
from dlcontainer.planning.launch import surroundings
from dlcontainer.planning.plan import Plan

TEMPLATE = "image/Dockerfile.j2"

# The base's root tree, beside the Dockerfile, where no registry is to be had.
ROOT_TREE = "rootfs.tar"


def values(plan: Plan) -> Mapping[str, object]:
    """Compute what the template shows."""
    image = plan.recipe.base.reference
    return {
        "head": [Text(line) for line in labels.head(plan)],
        "source": Text(image.source if image else "scratch"),
        "rootfs": None if image else Text(ROOT_TREE),
        "arguments": [Text(name) for name in arguments(plan)],
        # An ENV of the base's or of this file takes an ARG's place.
        "defaults": [(Text(k), Text(v)) for k, v in step_environment.DEFAULTS.items()],
        "files": [
            (Text(f"files/{name}"), Text(target)) for name, target in labels.image_files(plan)
        ],
        "labels": [
            (Text(key), step_environment.dockers(value))
            for key, value in labels.labels(plan).items()
        ],
        "environment": [
            (Text(k), step_environment.dockers(v)) for k, v in sorted(plan.environment.items())
        ],
        # Nothing in it needs quotes but the variable, which the builder fills in as it is.
        "path": Text(step_environment.search_path(plan).replace('"', "")),
        "runs": [(block.name, _run(block)) for block in step_commands.image_blocks(plan)],
    }


def arguments(plan: Plan) -> list[str]:
    """Name the variables that say where the host's MPI is bound while the image is built.

    A builder gives the steps no variable of the host's but those that are arguments.
    """
    mpi = surroundings.used_mpi(plan)
    return host_variables.variables([mpi.root or ""]) if mpi and mpi.mode == "compile" else []


def _run(block: CommandBlock) -> Text:
    route = f"[ ! -r {layout.ROUTING_SCRIPT} ] || . {layout.ROUTING_SCRIPT}"
    if block.is_script:
        # The exec form: in the shell form a builder would join the snippet's lines and drop
        # those that begin with '#'.
        script = "\n".join([route, *block.commands])
        return Text("RUN " + json.dumps(["/bin/sh", "-euc", script]))
    return Text(
        "RUN " + " \\\n && ".join([f"{{ {route}; }}", *(_grouped(c) for c in block.commands)])
    )


def _grouped(command: Text) -> str:
    # `a || b` in an && chain would swallow what stands before it.
    return f"{{ {command}; }}" if "||" in command else command
