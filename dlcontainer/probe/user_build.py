"""A user's own network: `--script FILE:build`. Python >= 3.6.

`build()` returns (model, optimizer, sample, loss): a torch.nn.Module on the CPU, a torch optimizer
of its parameters, one batch as (inputs, targets) of tensors whose first axis counts samples, and
loss(outputs, targets), the mean over samples. `build(small=True)`, where it takes the word, gives
the same network with fewer or narrower layers: one process can hold it.
"""

import collections
import importlib.util
import inspect
import os

Built = collections.namedtuple("Built", "model optimizer sample loss")


class BuildError(Exception):
    """The script doesn't give a network; says which line or value is wrong, and the next step."""


def load(words):
    """Import FILE of `FILE:build` and give the function; raises BuildError."""
    path, colon, name = words.rpartition(":")
    if not colon or not name.isidentifier():
        raise BuildError("--script {}: write FILE:FUNCTION, e.g. train.py:build".format(words))
    if not os.path.isfile(path):
        raise BuildError("--script {}: {} is no file".format(words, path))
    spec = importlib.util.spec_from_file_location("dlc_user_build", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    build = getattr(module, name, None)
    if not callable(build):
        raise BuildError("--script {}: {} has no function {}".format(words, path, name))
    return build


def has_small(build):
    """Say whether the function takes `small=True`."""
    try:
        parameters = inspect.signature(build).parameters
    except (TypeError, ValueError):
        return False
    kinds = [one.kind for one in parameters.values()]
    return "small" in parameters or inspect.Parameter.VAR_KEYWORD in kinds


def built(build, small=False):
    """Call the function and hold what it gives against its contract; raises BuildError."""
    given = build(small=True) if small else build()
    if not isinstance(given, tuple) or len(given) != 4:
        raise BuildError("build() gives model, optimizer, sample and loss: a tuple of four")
    made = Built(*given)
    for name, method in (("model", "forward"), ("optimizer", "step")):
        if not callable(getattr(getattr(made, name), method, None)):
            raise BuildError("build(): its {} has no {}()".format(name, method))
    if not isinstance(made.sample, (tuple, list)) or len(made.sample) != 2:
        raise BuildError("build(): its sample is no pair of inputs and targets")
    if not callable(made.loss):
        raise BuildError("build(): its loss is no function of outputs and targets")
    return made
