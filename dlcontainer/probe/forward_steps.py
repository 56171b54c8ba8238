"""Hand over the steps of a program without an optimizer: returns of its model. Python >= 3.6.

A step ends as a torch.nn.Module returns that no other module called. Of several it is the first
such module that returns twice, in the thread where it does: a network that prepares once is no
step, and an encoder with a decoder is one a pair. Who called whom is read from Python's stack, so
a module that calls itself or raises leaves no count wrong. In torch.compile nothing is done: the
compiler sees a constant and drops it.
"""

import sys
import threading
import weakref

MODULE = "torch.nn.modules.module"
_FIRST = (2, 3)


class ForwardSteps(object):
    """Which of a program's modules are its steps; `step` is called as each of them ends."""

    def __init__(self, call, step):
        self._call, self._step = call, step
        self._seen, self._chosen, self._thread = {}, None, None

    def returned(self, module, frame):
        """Take a module's return; `frame` is of Python's stack, within the module's call."""
        if self._chosen is None:
            if self._is_outermost(frame) and self._returned_before(module):
                self._chosen, self._thread = weakref.ref(module), threading.get_ident()
                self._seen = {}
                self._step(module)
        elif self._chosen() is module and self._thread == threading.get_ident():
            if self._is_outermost(frame):
                self._step(module)

    def _returned_before(self, module):
        # An id is of another module once the first one is gone.
        key = id(module), threading.get_ident()
        before = self._seen.get(key, lambda: None)() is module
        self._seen[key] = weakref.ref(module)
        return before

    def _is_outermost(self, frame):
        calls = 0
        while frame is not None and calls < 2:
            calls += frame.f_code is self._call
            frame = frame.f_back
        return calls < 2


def watch(module, step):
    """Register a hook at torch.nn.modules.module; False where this PyTorch is too old."""
    torch = module.torch
    version = str(getattr(torch, "__version__", "0")).split(".")[:2]
    if not all(part.isdigit() for part in version) or tuple(map(int, version)) < _FIRST:
        return False
    steps = ForwardSteps(module.Module._call_impl.__code__, step)

    def returned(module, _arguments, _result):
        if not torch.compiler.is_compiling():
            steps.returned(module, sys._getframe(1))

    module.register_module_forward_hook(returned)
    return True
