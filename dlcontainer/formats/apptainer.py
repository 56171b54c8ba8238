"""Plan -> Apptainer definition file."""

from collections.abc import Mapping

from dlcontainer.formats import commands, labels
from dlcontainer.plan import IMAGE_FOLDER, Plan
from dlcontainer.render import Text, quote

TEMPLATE = "image/apptainer.def.j2"

# The root tree that the base step makes, beside the definition file.
BASE_FILE = "base.sqfs"


def values(plan: Plan) -> Mapping[str, object]:
    """Compute what the template shows."""
    image = plan.recipe.base.image
    return {
        "head": [Text(line) for line in labels.head(plan)],
        "bootstrap": Text("docker" if image else "localimage"),
        "source": Text(image.removeprefix("docker://") if image else BASE_FILE),
        "files": [
            (Text(f"files/{name}"), Text(target)) for name, target in labels.image_files(plan)
        ],
        "labels": [(Text(key), Text(value)) for key, value in labels.labels(plan).items()],
        "environment": sorted(plan.environment.items()),
        "path": Text(quote(f"{plan.recipe.prefix}/bin")),
        "blocks": commands.image_blocks(plan),
        "routing": Text(commands.ROUTING_SCRIPT),
        "python": Text(quote(plan.python)),
        "verify": Text(f"{IMAGE_FOLDER}/verify.py"),
        "summary": Text(plan.recipe.summary),
        "exposes": Text(", ".join(plan.recipe.exposes)),
    }
