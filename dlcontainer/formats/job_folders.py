"""The site's file systems in jobs: each rank shows those that its node has, as wrappers do."""

from collections.abc import Mapping

from dlcontainer.config.templating import Text, quote
from dlcontainer.planning.launch.surroundings import ALWAYS_SHOWN, Surroundings


def by_variable(applied: Surroundings, prefix: str | None) -> Mapping[str, object] | None:
    """Return what a rank needs to name them in the engine's variable; None where none are shown."""
    if prefix is None or not applied.unbound:
        return None
    name = f"{prefix}_BIND"
    return {
        "variable": Text(name),
        # The engine reads both names; the user's own stay.
        "given": Text(f"${{{name}:-${{{name}PATH-}}}}"),
        "roots": Text(quote("\n".join([*sorted(ALWAYS_SHOWN - {"/"}), *applied.targets]))),
        "words": Text(" ".join(map(quote, applied.unbound))),
    }
