"""The site's file systems in jobs: each rank shows those that its node has, as wrappers do."""

from collections.abc import Mapping, Sequence

from dlcontainer.config.templating import Text, quote
from dlcontainer.planning.launch.surroundings import ALWAYS_SHOWN, Surroundings


def by_variable(around: Surroundings, prefix: str | None) -> Mapping[str, object] | None:
    """Give what a rank needs to name them in the engine's variable; None where none are shown."""
    folders = unbound(around)
    if prefix is None or not folders:
        return None
    name = f"{prefix}_BIND"
    return {
        "variable": Text(name),
        # The engine reads both names; the user's own stay.
        "given": Text(f"${{{name}:-${{{name}PATH-}}}}"),
        "roots": Text(quote("\n".join([*sorted(ALWAYS_SHOWN - {"/"}), *targets(around)]))),
        "words": words(folders),
    }


def words(folders: Sequence[str]) -> Text:
    """Write folders as words of a shell."""
    return Text(" ".join(map(quote, folders)))


def unbound(around: Surroundings) -> tuple[str, ...]:
    """Give the file systems that no bind of the site shows already."""
    return tuple(folder for folder in around.folders if folder not in targets(around))


def targets(around: Surroundings) -> list[str]:
    """Give the places in the image that the site's binds name outright."""
    found = [bind.split(":")[:2][-1] for bind in around.binds]
    return [target for target in found if "$" not in target]
