"""Plan -> Apptainer definition file."""

import re
from collections.abc import Iterator, Mapping

from dlcontainer.config.templating import Text, quote
from dlcontainer.errors import ConfigError
from dlcontainer.formats import labels, step_commands, step_environment
from dlcontainer.image import layout
from dlcontainer.planning.plan import Plan

TEMPLATE = "image/apptainer.def.j2"

# The root tree that the base step makes, beside the definition file.
BASE_FILE = "base.sqfs"

# The engine takes a line that begins with % for a section's head, and {{ NAME }} for a variable
# that must be given to it; neither can be quoted.
# Source: apptainer.org/docs/user/main/definition_files.html, "Sections", "Templating".
_SECTION = re.compile(r"^\s*%", re.MULTILINE)
_VARIABLE = re.compile(r"\{\{\s*\w+\s*\}\}")


def values(plan: Plan) -> Mapping[str, object]:
    """Compute what the template shows; raises ConfigError for what would be read as more."""
    _check(plan)
    image = plan.recipe.base.reference
    return {
        "head": [Text(line) for line in labels.head(plan)],
        "bootstrap": Text("docker" if image else "localimage"),
        "source": Text(image.source if image else BASE_FILE),
        # The engine says late, or in words of its own, that a file is not there.
        "needed": Text(" ".join([*([] if image else [BASE_FILE]), "files/manifest.json"])),
        "written_by": Text(f"'dlcontainer render {'' if image else '--with-base '}-o FOLDER/'"),
        # Not every image has the folder that the routing is bound at; nothing may be bound at
        # what is not there. One name, no -p: through a link nothing is made on the host.
        "mount_point": Text(layout.ROUTING_FOLDER) if image else None,
        "files": [
            (Text(f"files/{name}"), Text(target)) for name, target in labels.image_files(plan)
        ],
        "labels": [(Text(key), Text(value)) for key, value in labels.labels(plan).items()],
        "environment": sorted(plan.environment.items()),
        "path": step_environment.search_path(plan),
        "head_of_steps": step_environment.image_lines(plan),
        "blocks": step_commands.image_blocks(plan),
        "routing": Text(layout.ROUTING_SCRIPT),
        "python": Text(quote(plan.python)),
        "verify": _proofs(plan),
        "summary": Text(plan.recipe.summary),
        "exposes": Text(", ".join(plan.recipe.exposes)),
    }


def origin(plan: Plan, carried: str | None = None) -> str:
    """Return the definition file that makes a tree of the base alone.

    `carried`: the folder beside it that the base's image is taken from, and not its registry.
    """
    image = plan.recipe.base.reference
    if image is None:
        return f"Bootstrap: localimage\nFrom: {BASE_FILE}\n"
    folder = f'"${{APPTAINER_ROOTFS:-$SINGULARITY_ROOTFS}}"{layout.ROUTING_FOLDER}'
    mount_point = f"%setup\n    [ -d {folder} ] || mkdir {folder}\n"
    head = (
        f"Bootstrap: oci\nFrom: {carried}"
        if carried
        else f"Bootstrap: docker\nFrom: {image.source}"
    )
    return f"{head}\n{mount_point}"


def _check(plan: Plan) -> None:
    for key, text, starts_line in _texts(plan):
        if starts_line and _SECTION.search(text):
            raise ConfigError(
                f"{key}: a definition file cannot have a line that begins with '%'",
                where=plan.place_of(text),
                why="the engine would read it as the header of a section",
                next_step="begin the line differently, or put the text into a file",
            )
        match = _VARIABLE.search(text)
        if match:
            raise ConfigError(
                f"{key}: a definition file cannot contain {match[0]!r}",
                where=plan.place_of(text),
                why="the engine would read it as a template variable",
                next_step="separate the braces ('{' '{'), or put the text into a file",
            )


def _texts(plan: Plan) -> Iterator[tuple[str, str, bool]]:
    """Yield all free text: the key, the text, whether it stands at a line's start."""
    recipe = plan.recipe
    yield "summary", recipe.summary, True
    yield "license", recipe.license or "", False
    for name, value in plan.environment.items():
        yield f"environment.{name}", value, False
    for point in recipe.mount_points:
        yield "mount_points", point, False
    for step in recipe.steps:
        yield f"step {step.name!r}: shell", step.shell or "", True


def _proofs(plan: Plan) -> Text:
    """Return what the image's Python runs as its test: a proof, after those of parent recipes."""
    python = quote(plan.python)
    return Text(f" && {python} ".join((*plan.earlier_proofs, layout.VERIFY)))
