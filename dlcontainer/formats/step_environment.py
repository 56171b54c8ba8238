"""The variables that build steps see: those of the finished image, in every text and engine.

Docker's rule: what the base sets, then what the plan sets, whichever step runs. So a step compiles
under the same variables wherever it runs, and a program that a step tries behaves as in the image.
"""

from collections.abc import Mapping

from dlcontainer.config.templating import Text, quote
from dlcontainer.image import layout
from dlcontainer.planning.launch import refused_variables
from dlcontainer.planning.plan import Plan

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Of steps alone, never of the image: no questions, one language. The base's and the plan's win.
DEFAULTS: Mapping[str, str] = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}

# The program fakeroot, with which an engine may work, is in the steps by these: it stays.
_FAKEROOTS = ("LD_LIBRARY_PATH", "LD_PRELOAD")
# Of the host's shell, which would change what a native twin is made of. The table's patterns stand
# for names that no compiler or Python reads.
_OF_THE_HOST = ("python", "compilers")


def search_path(plan: Plan) -> Text:
    """Return the image's PATH: the recipe's programs first, then the base's.

    An image that serves as a base may have its own (/usr/local/cuda/bin …), which stays.
    """
    rest = '"$PATH"' if plan.recipe.base.image else SYSTEM_PATH
    return Text(f"{quote(f'{plan.recipe.prefix}/bin')}:{rest}")


def image_lines(plan: Plan) -> list[Text]:
    """Return the lines that set the variables inside the image."""
    defaults = " ".join(f'{name}="${{{name}:-{value}}}"' for name, value in DEFAULTS.items())
    return [
        Text(f"export {defaults} HOME=/root"),
        *(_export(name, value) for name, value in sorted(plan.environment.items())),
        Text(f"export PATH={search_path(plan)}"),
    ]


def native_lines(plan: Plan) -> list[Text]:
    """Return the lines that set them for the native twin, after those that its host's shell set."""
    rows = [row for row in refused_variables.TABLE if row.key in _OF_THE_HOST]
    names = [name for row in rows for name in row.names if "*" not in name]
    return [
        Text(f"unset {' '.join([*names, *_FAKEROOTS])}"),
        Text(f"export LC_ALL={DEFAULTS['LC_ALL']}"),
        *(
            Text(f"export {name}={quote(value)}")
            for name, value in sorted(plan.environment.items())
        ),
        Text(f'export PATH="$prefix/bin":{SYSTEM_PATH}'),
    ]


def script_head(plan: Plan) -> str:
    """Return what every step's script begins with: umask, variables, the routing."""
    lines = [
        "set -eu",
        "umask 022",
        *image_lines(plan),
        f"if [ -r {layout.ROUTING_SCRIPT} ]; then . {layout.ROUTING_SCRIPT}; fi",
    ]
    return "\n".join(lines) + "\n"


def in_shell(plan: Plan) -> str:
    """Return the command that opens a shell which sees what steps see."""
    return f"{script_head(plan)}set +eu\nexec /bin/sh -i"


def dockers(value: str) -> Text:
    """Quote a value for ENV, ARG and LABEL: the builder expands $ inside double quotes."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return Text(f'"{escaped}"')


def _export(name: str, value: str) -> Text:
    more = f'"${{FAKEROOTKEY:+:${name}}}"' if name in _FAKEROOTS else ""
    return Text(f"export {name}={quote(value)}{more}")
