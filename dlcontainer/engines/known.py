"""The engines there are. A dict literal is the registry."""

from collections.abc import Callable, Mapping

from dlcontainer.engines import apptainer
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.base import EngineKind

# kind -> what finds it in an environment, or raises EngineError that says how to get it
FINDERS: Mapping[EngineKind, Callable[[Mapping[str, str]], Apptainer]] = {
    "apptainer": apptainer.find,
}
