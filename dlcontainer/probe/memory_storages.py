"""The bytes of all storages that are alive, by part, and those of their peak. Python >= 3.6.

What is made is seen where it is dispatched; what is freed, by its end; storages that a sharded
training empties and fills again, by their size. Of what was made in the forward pass, activations
are what is left.
"""

import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode

NAMES = ("parameters", "gradients", "optimizer", "activations", "inputs", "temporary")


class _Storage(object):
    __slots__ = ("ref", "size", "part")


class Storages(TorchDispatchMode):
    """While it is entered, what is made is of the part that `phase` says."""

    def __init__(self):
        super(Storages, self).__init__()
        self.phase, self._alive = "temporary", {}
        self._now, self._sum = dict.fromkeys(NAMES, 0), 0
        self.parts, self.peak = dict(self._now), 0
        self._resize = torch.UntypedStorage.resize_

    def __enter__(self):
        known = self

        def resize(storage, size):
            made = known._resize(storage, size)
            known._resized(storage)
            return made

        torch.UntypedStorage.resize_ = resize
        return super(Storages, self).__enter__()

    def __exit__(self, *problem):
        torch.UntypedStorage.resize_ = self._resize
        return super(Storages, self).__exit__(*problem)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(hasattr(kind, "to_local") for kind in types):
            # Its local part comes by again.
            return NotImplemented
        made = func(*args, **(kwargs or {}))
        self._note(made)
        return made

    def _note(self, made):
        if isinstance(made, torch.Tensor):
            self._take(made, self.phase)
        elif isinstance(made, (tuple, list)):
            for each in made:
                self._note(each)
        elif isinstance(made, dict):
            for each in made.values():
                self._note(each)

    def is_part(self, part, tensors):
        """Say of which part these are."""
        for tensor in tensors:
            if isinstance(tensor, torch.Tensor):
                local = getattr(tensor, "_local_tensor", tensor)
                storage = self._take(local, part)
                if storage is not None and storage.part != part:
                    self._count(storage.part, -storage.size)
                    storage.part = part
                    self._count(part, storage.size)

    def begin(self):
        """Begin a step: the peak is what is alive."""
        self.parts, self.peak = dict(self._now), self._sum

    def _take(self, tensor, part):
        try:
            raw = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):
            return None
        key = id(raw)
        known = self._alive.get(key)
        if known is not None and known.ref() is raw:
            return known
        storage = _Storage()
        storage.ref = weakref.ref(raw, lambda _ref: self._gone(key, storage))
        storage.size, storage.part = raw.size(), part
        self._alive[key] = storage
        self._count(part, storage.size)
        return storage

    def _gone(self, key, storage):
        if self._alive.get(key) is storage:
            del self._alive[key]
        self._count(storage.part, -storage.size)
        storage.size = 0

    def _resized(self, raw):
        storage = self._alive.get(id(raw))
        if storage is None or storage.ref() is not raw:
            return
        # Weights that were gathered for a while.
        self._count(storage.part, -storage.size)
        storage.size, storage.part = raw.size(), "temporary"
        self._count(storage.part, storage.size)

    def _count(self, part, size):
        self._now[part] += size
        self._sum += size
        if self._sum > self.peak:
            self.parts, self.peak = dict(self._now), self._sum
