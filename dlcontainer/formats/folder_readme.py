"""Plan -> README.txt of a folder of texts: how an image is built there by hand, and from what."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.config import templating
from dlcontainer.config.templating import Text, quote
from dlcontainer.formats import apptainer, docker_values, dockerfile, labels, runtimes
from dlcontainer.formats.texts import FILE_NAMES, Format
from dlcontainer.image import layout
from dlcontainer.planning.plan import Plan

NAME = "README.txt"
TEMPLATE = "folder/README.txt.j2"


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A command that builds, and what it needs of a machine."""

    line: Callable[[Plan], str]
    needs: str


# The formats that an image is built from by hand: a folder of theirs stands alone.
COMMANDS: Mapping[Format, Command] = {
    "apptainer": Command(
        line=lambda plan: f"apptainer build {quote(plan.name)}.sif {FILE_NAMES['apptainer']}",
        needs="Apptainer, or SingularityCE (singularity build ...).",
    ),
    "dockerfile": Command(
        line=lambda plan: f"docker build -t {quote(runtimes.oci_name(plan))} .",
        needs="Docker, or Podman (podman build ...).",
    ),
    "route": Command(
        line=lambda _: f"bash {FILE_NAMES['route']}",
        needs="the site: it is the way that the centre documents.",
    ),
}

# What a base that is no image lies in, beside the text that begins with it.
BASE_FILES: Mapping[str, str] = {
    FILE_NAMES["apptainer"]: apptainer.BASE_FILE,
    FILE_NAMES["dockerfile"]: dockerfile.ROOT_TREE,
}


def base_files(plan: Plan, names: Collection[str]) -> list[str]:
    """Name the files of the base that texts begin with; none where an engine fetches it."""
    if plan.recipe.base.image:
        return []
    return [file for name, file in BASE_FILES.items() if name in names]


def text(
    plan: Plan, names: Collection[str], template_folders: list[Path], mark: str, *, has_base: bool
) -> str:
    """Render the file for a folder with texts of these names; `mark` has the checksums."""
    image = plan.recipe.base.reference
    commands = [command for form, command in COMMANDS.items() if FILE_NAMES[form] in names]
    has_docker = FILE_NAMES["dockerfile"] in names
    changed = docker_values.changed_by_apptainer(plan) if has_docker else []
    values = {
        "head": [Text(line) for line in labels.head(plan)],
        "commands": [
            {"line": Text(command.line(plan)), "needs": Text(command.needs)} for command in commands
        ],
        "arch": Text(plan.site.arch),
        "image": Text(image.source) if image else None,
        "has_base": has_base,
        "base_files": Text(", ".join(base_files(plan, names))),
        "places": [Text(place) for place in _places(plan)],
        "routing": Text(layout.ROUTING_FOLDER),
        "mark": Text(mark),
        "sif": Text(f"{quote(plan.name)}.sif"),
        "changed": Text(", ".join(changed)),
    }
    return templating.render_template(template_folders, TEMPLATE, values)


def _places(plan: Plan) -> list[str]:
    """Return where the steps take packages from."""
    steps, facts = plan.recipe.steps, plan.recipe.base.facts
    places = []
    if any(step.os_packages or step.build_packages for step in steps):
        of = f"of {facts.distribution} {facts.release}" if facts else "of its distribution"
        places.append(f"OS packages from the archive {of}")
    if any(step.python_packages for step in steps):
        places.append("wheels from pip's index")
    places += [
        f"{name} from {upstream.url}" for name, upstream in sorted(plan.recipe.upstreams.items())
    ]
    return places
