"""Plan -> the native twin: a shell script that installs the same versions without a container."""

from collections.abc import Mapping

from dlcontainer.config.templating import Text, quote
from dlcontainer.errors import ConfigError
from dlcontainer.formats import labels, step_commands, step_environment
from dlcontainer.planning.plan import Plan

TEMPLATE = "image/native.sh.j2"


def values(plan: Plan) -> Mapping[str, object]:
    """Compute what the template shows; raises ConfigError where no machine could be the twin."""
    base = plan.recipe.base
    if base.image:
        raise ConfigError(
            "no native twin: the base is an image, and no host has its libraries",
            next_step="render another format; `bench` compares with the unpacked image instead",
        )
    return {
        "head": [Text(line) for line in labels.head(plan)],
        "arch": plan.site.arch,
        "distribution": base.distribution,
        "release": base.release,
        "packages": plan.recipe.native_packages,
        "blocks": step_commands.native_blocks(plan),
        "left_out": Text(", ".join(step_commands.native_left_out(plan))),
        "environment": step_environment.native_lines(plan),
        # Written into the activation file by the script: quoted for that second shell too.
        "assignments": [
            f"export {key}={quote(value)}" for key, value in sorted(plan.environment.items())
        ],
        "verify": Text(plan.recipe.verify.script),
    }
