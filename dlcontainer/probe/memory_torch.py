"""What of PyTorch tells memory without a device: private modules, named with the versions tried.

FakeTensorMode gives tensors without data, the "fake" process group stands for ranks that nobody
starts, and a dispatch mode sees every operation. None of them is public: a version may drop or move
them. PyTorch's own trackers of memory take no module that runs twice in a step, as each stage of a
pipeline does. Python >= 3.6.
"""

import importlib

# Versions of PyTorch whose forecasts were held against real steps (tests, and
# docs/measurements/scaling.md): by their first two numbers.
TRIED = ("2.11", "2.13")
FAKE = ("torch._subclasses.fake_tensor", "FakeTensorMode")
UNSET = ("torch._subclasses.fake_tensor", "unset_fake_temporarily")
DISPATCH = ("torch.utils._python_dispatch", "TorchDispatchMode")
STORE = ("torch.testing._internal.distributed.fake_pg", "FakeStore")
NEEDED = (FAKE, UNSET, DISPATCH, STORE)


class TorchError(Exception):
    """This Python has no torch that can tell; says which class is missing."""


def of(place):
    """Give a class of PyTorch by its place in a table above; raises TorchError."""
    module, name = place
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        raise TorchError("{}.{}".format(module, name))


def missing(places=NEEDED):
    """Name the first class that this PyTorch has not; empty where it has all."""
    for place in places:
        try:
            of(place)
        except TorchError as problem:
            return str(problem)
    return ""


def is_tried(version):
    """Tell whether forecasts of this version were held against real steps."""
    return ".".join(version.split("+")[0].split(".")[:2]) in TRIED


class Group(object):
    """The ranks that nobody starts, seen from one of them."""

    def __init__(self, torch, rank, size):
        self._torch, self._rank, self._size = torch, rank, size

    def __enter__(self):
        try:
            # Versions before 2.13 know there what a collective does with tensors without data.
            importlib.import_module("torch.distributed._tools.fake_collectives")
        except ImportError:
            pass
        store = of(STORE)()
        self._torch.distributed.init_process_group(
            "fake", store=store, rank=self._rank, world_size=self._size
        )
        return self

    def __exit__(self, *_problem):
        self._torch.distributed.destroy_process_group()
        return False


class RealMeshes(object):
    """While it is entered, device meshes are of real numbers: they are read, and hold no data."""

    NAMES = ("__init__", "__getitem__", "_concatenate", "_flatten", "get_group")

    def __init__(self):
        self._kind = of(("torch.distributed.device_mesh", "DeviceMesh"))
        self._kept = {name: vars(self._kind)[name] for name in self.NAMES
                      if name in vars(self._kind)}  # fmt: skip

    def __enter__(self):
        unset = of(UNSET)

        def real(method):
            def called(*given, **named):
                with unset():
                    return method(*given, **named)

            return called

        for name, method in self._kept.items():
            if isinstance(method, staticmethod):
                setattr(self._kind, name, staticmethod(real(method.__func__)))
            else:
                setattr(self._kind, name, real(method))
        return self

    def __exit__(self, *_problem):
        for name, method in self._kept.items():
            setattr(self._kind, name, method)
        return False
