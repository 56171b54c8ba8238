"""PyTorch's own profilers for trace_steps.py, and how they stand back for the program's.

Python >= 3.6. PyTorch is the program's: it is imported by the time that anything here is called.
"""

import os
import sys

import accelerator

TAKEN = "the program profiles itself"


class Kineto(object):
    """torch.profiler, with the sizes of what each operation takes: those of collectives too.

    Without operations it records collectives, annotations and a device's kernels alone: PyTorch
    begins and ends a collective, as it does an annotation, in a scope of its own.
    """

    def __init__(self, path, has_operations):
        from torch import profiler

        self.path = path
        self.named = {} if has_operations else {"scopes": _without_operations()}
        self._profile = profiler.profile(
            activities=profiler.supported_activities(), record_shapes=True
        )

    def start(self):
        """Begin to record."""
        self._profile.start()

    def stop(self):
        """Write the file, whole or not at all."""
        self._profile.stop()
        part = self.path + ".part"
        self._profile.export_chrome_trace(part)
        _put(part, self.path)


class Chakra(object):
    """ExecutionTraceObserver: the operations with what each one needs of others."""

    def __init__(self, path, has_operations):
        from torch.profiler import ExecutionTraceObserver

        self.path, self.named = path, {}
        self._observer = ExecutionTraceObserver().register_callback(path + ".part")

    def start(self):
        """Begin to record."""
        self._observer.start()

    def stop(self):
        """Write the file, whole or not at all."""
        self._observer.stop()
        self._observer.unregister_callback()
        _put(self.path + ".part", self.path)


def _without_operations():
    scope = getattr(sys.modules["torch"]._C._profiler, "RecordScope", None)
    if scope is None:
        raise OSError("this PyTorch can't leave operations out: trace with them")
    return {scope.USER_SCOPE}


def _put(part, path):
    """Name a file that PyTorch wrote, where it is whole: of a full disk PyTorch tells nobody."""
    try:
        with open(part, "rb") as file:
            file.seek(-min(64, os.fstat(file.fileno()).st_size), os.SEEK_END)
            is_whole = file.read().rstrip().endswith(b"}")
    except OSError:
        is_whole = False
    if is_whole:
        os.rename(part, path)
        return
    for rest in (part, part + ".tmp"):
        if os.path.exists(rest):
            os.remove(rest)
    raise OSError("PyTorch's file is incomplete: is the disk full?")


_ENABLE = "_enable_profiler"
KINDS = {"kineto": Kineto, "chakra": Chakra}
_MINE = []


def are_taken():
    """Tell whether a profiler of the program runs: PyTorch has one a thread."""
    return bool(sys.modules["torch"].autograd._profiler_enabled())


def start(running, tracer):
    """Start one of ours, which ends as soon as the program starts one of its own."""
    module = sys.modules["torch.autograd.profiler"]
    for name in ("_prepare_profiler", _ENABLE):
        theirs = getattr(module, name, None)
        if theirs is not None and not hasattr(theirs, "stands_back"):
            setattr(module, name, _standing_back(theirs, tracer, name == _ENABLE))
    _MINE.append(running)
    try:
        running.start()
    finally:
        _MINE.remove(running)


def _standing_back(theirs, tracer, is_enabling):
    def begun(*words, **named):
        if not _MINE:
            tracer.end(TAKEN)
        elif is_enabling:
            named.update(_MINE[-1].named)
        return theirs(*words, **named)

    begun.stands_back = True
    return begun


def device():
    """Give the accelerator that the program has begun to use; None where it has not."""
    return accelerator.in_use(sys.modules["torch"])


def place():
    """Give this process's rank and how many there are, (None, None) where nothing tells."""
    group = sys.modules.get("torch.distributed")
    if group is not None and group.is_available() and group.is_initialized():
        return group.get_rank(), group.get_world_size()
    told = [os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE")]
    return tuple(int(text) if text.isdigit() else None for text in told)
