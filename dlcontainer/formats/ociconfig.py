"""Plan -> what an OCI image says beside its files: the same as the Dockerfile makes it."""

from collections.abc import Mapping

from dlcontainer.formats import labels
from dlcontainer.plan import Plan

# As in templates/image/Dockerfile.j2; a test compares the two.
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def environment(plan: Plan) -> Mapping[str, str]:
    """Give the variables that the image sets."""
    path = f"{plan.recipe.prefix}/bin:{SYSTEM_PATH}"
    return {"PATH": path, **dict(sorted(plan.environment.items()))}


def all_labels(plan: Plan) -> Mapping[str, str]:
    """Give the image's labels."""
    return labels.labels(plan)
