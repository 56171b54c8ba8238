"""The variables of an image: which names a plan may set, and what a `$` in a value means. Pure."""

import re
from collections.abc import Mapping

from dlcontainer import config
from dlcontainer.config import Document, KeyPath
from dlcontainer.errors import ConfigError, Mark

# One that is doubled, or one with what a shell would take for a name.
_DOLLAR = re.compile(r"\$(\$|[A-Za-z_]\w*|\{[^}]*\}?|\([^)]*\)?|)")

# A shell sets these itself, or stops at them: no text could hand them on.
_SHELLS = frozenset(
    [
        *("IFS", "PWD", "OLDPWD", "SHLVL", "_", "OPTIND", "OPTARG", "OPTERR", "LINENO", "PPID"),
        *("UID", "EUID", "SHELLOPTS", "BASHOPTS"),
    ]
)
# Of the scripts that run steps and launch images; `prefix` is the snippets' own.
_OURS = re.compile(r"prefix|FAKEROOTKEY|(?:dlc|DLC|DLCONTAINER)_.*")


def settled(
    variables: Mapping[str, str], document: Document, path: KeyPath, prefix: str
) -> dict[str, str]:
    """Return variables, which stand at a path of a settled recipe, as the image has them.

    Raises ConfigError with the place of a name that is not a recipe's, or of a `$`.
    """
    return {name: _value(document, (*path, name), text, prefix) for name, text in variables.items()}


def is_free(name: str) -> bool:
    """Return whether a recipe may set a variable of this name."""
    return name != "PATH" and name not in _SHELLS and not _OURS.fullmatch(name)


def _value(document: Document, path: KeyPath, value: str, prefix: str) -> str:
    key, where = config.dotted(path), document.origin(path).where
    _refuse(str(path[-1]), prefix, key, where)
    for match in _DOLLAR.finditer(value):
        if match[1] != "$":
            raise ConfigError(
                f"{key}: nothing fills in {match[0]!r}",
                where=where,
                why="Docker would use the base's value, and Apptainer the host's at each "
                "start, so one recipe would give different images",
                next_step="write the value out ($$ for a dollar sign); host libraries "
                "belong in the site's mpi.library_path or jobs.inside",
            )
    return _DOLLAR.sub("$", value)


def _refuse(name: str, prefix: str, key: str, where: Mark | str) -> None:
    if name == "PATH":
        raise ConfigError(
            f"{key}: PATH is set by dlcontainer",
            where=where,
            why=f"it begins with {prefix}/bin, before the system's folders",
            next_step="link your program into this folder in a shell step",
        )
    if name in _SHELLS:
        raise ConfigError(
            f"{key}: {name} is a variable of the shell",
            where=where,
            why="the shell sets or refuses this variable, so no program would get your value",
            next_step="remove the variable; a shell step can set it for its own commands",
        )
    if _OURS.fullmatch(name):
        raise ConfigError(
            f"{key}: {name} is reserved for dlcontainer",
            where=where,
            why="the scripts that build and start images use it",
            next_step="choose another name",
        )
