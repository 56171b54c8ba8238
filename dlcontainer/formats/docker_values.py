"""Variables of a Docker image that Apptainer changes when it makes a SIF of it."""

from dlcontainer.planning.plan import Plan

# It escapes these twice: https://github.com/apptainer/apptainer/issues/3328 (tried: 1.4.5).
_ESCAPED_TWICE = frozenset('"$`\\')


def changed_by_apptainer(plan: Plan) -> list[str]:
    """Name the variables that get another value."""
    return sorted(name for name, value in plan.environment.items() if _ESCAPED_TWICE & set(value))
