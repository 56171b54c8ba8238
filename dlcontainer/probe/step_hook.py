"""Stamps each step of PyTorch's optimizers, without a change to the program. Python >= 3.6.

Put as sitecustomize.py beside event_stamps.py into a folder that is first on PYTHONPATH, with
DLCONTAINER_EVENTS as the folder of the events. The program's own sitecustomize runs as it would,
and sees a sys.path without this folder. PyTorch is not imported here: once the program has
imported torch.optim, a hook that is run after each step of any optimizer is registered
(torch.optim.optimizer.register_optimizer_step_post_hook, PyTorch 2.0 and later). The first
optimizer that steps in a process is optimizer-step/0, the next one optimizer-step/1. Where
trace.json lies beside this file, trace_steps.py and what it needs do too, and each step is handed
to it: an optimizer's, or as forward_steps.py tells.
"""

import os
import sys

FOLDER = "DLCONTAINER_EVENTS"
STEP = "optimizer-step/"
NO_HOOK = "no-optimizer-hook"
PLAN = "trace.json"
BESIDE = (
    "accelerator",
    "accelerator_kinds",
    "event_stamps",
    "forward_steps",
    "step_marks",
    "trace_profilers",
    "trace_steps",
)
_OPTIMIZERS = "torch.optim.optimizer"


class Waiting(object):
    """A finder that finds what all others find, and calls `act` with one module once it is loaded."""

    def __init__(self, name, act):
        self._name, self._act = name, act

    def find_spec(self, name, path=None, target=None):
        """Give the others' finding of the one module, with a loader around its own."""
        if name != self._name:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = None if find is None else find(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = Loading(spec.loader, self)
                return spec
        return None

    def loaded(self, module):
        """Act, once."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            self._act(module)


class Optimizers(object):
    """What is done with PyTorch's optimizers: each step is stamped, and handed to a tracer."""

    def __init__(self, events, trace=None):
        self._events, self._trace = events, trace

    def loaded(self, module):
        """Register the hook."""
        register = getattr(module, "register_optimizer_step_post_hook", None)
        if register is None:
            self._events.note(NO_HOOK)
            return
        numbers, note, trace = {}, self._events.note, self._trace

        def stepped(optimizer, _arguments, _named):
            note(STEP + str(numbers.setdefault(id(optimizer), len(numbers))))

        register(stepped)
        if trace is not None:
            register(lambda optimizer, _arguments, _named: trace(optimizer))


class Loading(object):
    """The loader of the module, which leaves no trace of itself on it."""

    def __init__(self, loader, waiting):
        self._loader, self._waiting = loader, waiting

    def create_module(self, spec):
        """Do as the module's own loader does."""
        return self._loader.create_module(spec)

    def exec_module(self, module):
        """Do as the module's own loader does, then register."""
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._waiting.loaded(module)


def hand_on():
    """Run the sitecustomize that would have run without this one."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if folder != here]
    own = sys.modules.pop(__name__)
    try:
        __import__(__name__)
    except ImportError as error:
        if error.name != __name__:
            raise
        sys.modules[__name__] = own


def awaited(here, events):
    """Give what is waited for, with the tracer's part where there is a plan in the folder."""
    if not os.path.exists(os.path.join(here, PLAN)):
        return [Waiting(_OPTIMIZERS, Optimizers(events).loaded)]
    import forward_steps
    import trace_profilers
    import trace_steps

    tracer = trace_steps.planned(here, trace_profilers)
    if not tracer.is_of_forwards:
        return [Waiting(_OPTIMIZERS, Optimizers(events, tracer.step).loaded)]
    return [Waiting(forward_steps.MODULE, lambda module: forward_steps.watch(module, tracer.step))]


def begin():
    """Wait for PyTorch, and hand on."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, here)
    import event_stamps

    folder = os.environ.get(FOLDER)
    waiting = awaited(here, event_stamps.EventFile(folder)) if folder else []
    del sys.path[0]
    for name in BESIDE:  # a program may have one of that name
        sys.modules.pop(name, None)
    try:
        hand_on()
    finally:
        sys.meta_path[:0] = waiting


if __name__ == "sitecustomize" and sys.version_info >= (3, 6):
    begin()
