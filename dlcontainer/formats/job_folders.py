"""The site's file systems in jobs: each rank shows those that its node has, as wrappers do; and the
folder of a user's own there, where models go.
"""

from collections.abc import Collection, Mapping

from dlcontainer.config.templating import Text, quote
from dlcontainer.formats import host_variables
from dlcontainer.planning.launch import model_folders, surroundings
from dlcontainer.planning.launch.surroundings import ALWAYS_SHOWN, Surroundings
from dlcontainer.sites.site import Site


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


def models(
    site: Site, taken: Collection[str], applied: Surroundings | None = None
) -> Mapping[str, object] | None:
    """Return what templates/module/models.sh.j2 shows; None where the site has no such folder.

    `taken` are the variables that site or image set. `applied` is of a job, which shows the image
    what the site names; None for a wrapper, which shows the folder itself.
    """
    folder, defaults = model_folders.of(site), model_folders.defaults(taken)
    if folder is None or not defaults:
        return None
    unset = (f'[ -z "${{{name}-}}" ] || ' for name in host_variables.variables([folder]))
    return {
        "known": Text("".join(unset)),
        "folder": host_variables.shell(folder),
        "names": Text(" \\\n    ".join(f"{name}={place}" for name, place in defaults.items())),
        "xdg": Text(" | ".join(f"{name}=*" for name in model_folders.OF_XDG)),
        "token": "HF_HOME" in defaults and model_folders.TOKEN not in taken,
        "handed": applied is None,
        "shown": _shown(site, folder, applied) if applied else None,
    }


def _shown(site: Site, folder: str, applied: Surroundings) -> Text | None:
    """Return patterns of the folders that a job's images show; None where a bind shows this one."""
    plain = folder.replace("{", "").replace("}", "")
    binds = (bind.split(":")[0].replace("{", "").replace("}", "") for bind in applied.binds)
    if any(plain == bind or plain.startswith(f"{bind}/") for bind in binds):
        return None
    by_itself = applied.folders if surroundings.is_apptainer(site) else ()
    places = [*by_itself, *applied.targets, *sorted(ALWAYS_SHOWN - {"/"})]
    return Text(" | ".join(f"{quote(place)}/*" for place in dict.fromkeys(places)))
