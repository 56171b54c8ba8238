"""Plan -> what an OCI image says beside its files: the same as the Dockerfile makes it."""

from collections.abc import Mapping

from dlcontainer.formats import labels
from dlcontainer.formats.step_environment import SYSTEM_PATH
from dlcontainer.planning.plan import Plan


def environment(plan: Plan, base: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables that the image sets; `base` are those of what it stands on."""
    rest = base.get("PATH", SYSTEM_PATH) if plan.recipe.base.image else SYSTEM_PATH
    variables = dict(sorted(plan.environment.items()))
    return {"PATH": f"{plan.recipe.prefix}/bin:{rest}", **variables}


def all_labels(plan: Plan) -> Mapping[str, str]:
    """Return the image's labels."""
    return labels.labels(plan)
