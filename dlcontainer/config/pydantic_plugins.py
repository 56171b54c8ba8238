"""pydantic without its search for plugins, which reads a file of each installed package."""

import importlib
import sys
from types import ModuleType
from typing import Any

# Where pydantic looks for plugins.
_PLUGINS = "pydantic.plugin._loader"


class _NoPlugins(ModuleType):
    """What stands in for pydantic's module that looks for plugins: there are none."""

    @staticmethod
    def get_plugins() -> tuple[()]:
        """Return no plugins."""
        return ()

    def __getattr__(self, name: str) -> Any:
        # A later pydantic asks for more than today's: it gets its own module, and starts later.
        if name.startswith("__"):
            raise AttributeError(name)
        sys.modules.pop(_PLUGINS, None)
        return getattr(importlib.import_module(_PLUGINS), name)


def leave_out_plugins() -> None:
    """Have pydantic look for no plugins.

    Its own switch is a variable of the environment, which the programs that we start would get.
    """
    sys.modules.setdefault(_PLUGINS, _NoPlugins(_PLUGINS))
