"""A user's own network (`--script FILE:build`) with noise like its sample. Python >= 3.6.

Its folder is on sys.path while build() runs, and no byte code is written there.
"""

import os
import sys
import traceback

import networks_count
import probe_train
import user_build


class Named(object):
    """The network that a script's build() gives, with batches as its sample is one."""

    kind = "script"

    def __init__(self, torch, wanted, device, home):
        self._torch, self._wanted = torch, wanted
        path, _, name = wanted.script.rpartition(":")
        self._words = "{}:{}".format(os.path.join(wanted.script_at, path), name)
        self._file, self._small = os.path.join(wanted.script_at, path), False
        self._build = self._asked(lambda: user_build.load(self._words))
        self.has_small = user_build.has_small(self._build)
        made = self._built()
        self.model = made.model.to(home)
        self.optimizer, self._loss = made.optimizer, made.loss
        self._sample = self._held(made.sample)
        count = len(self._sample[0])
        wanted.batch = wanted.batch or count
        self.sample = ("script", tuple(self._sample[0].shape[1:]), 0)
        make = torch.Generator()
        make.manual_seed(wanted.seed + 1 + probe_train.stream(wanted))
        drawn = [self.draw(make, wanted.batch) for _ in range(probe_train.BATCHES)]
        self.images = [images.to(device) for images, _ in drawn]
        self.labels = [labels.to(device) for _, labels in drawn]
        self.counted = {"parameters": networks_count.parameters(self.model)}

    def _asked(self, act):
        """Run what is the script's; ends the process with its file and line where it raises."""
        own = os.path.dirname(os.path.abspath(self._file))
        written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        sys.path.insert(0, own)
        try:
            return act()
        except user_build.BuildError as problem:
            sys.exit("--script {}: {}".format(self._wanted.script, _bare(problem)))
        except Exception as problem:
            sys.exit(
                "--script {}: {}: {}: {}".format(
                    self._wanted.script, self._line(), type(problem).__name__, problem
                )
            )
        finally:
            sys.dont_write_bytecode = written
            # Each side has the folder elsewhere, and sides are held to have one sys.path.
            if own in sys.path:
                sys.path.remove(own)

    def _line(self):
        """Name the last line of the script's own folder in what was raised."""
        own = os.path.dirname(os.path.abspath(self._file))
        frames = traceback.extract_tb(sys.exc_info()[2])
        lines = [frame for frame in frames if os.path.abspath(frame[0]).startswith(own + os.sep)]
        if not lines:
            return self._wanted.script
        return "{}:{}".format(os.path.relpath(lines[-1][0], own), lines[-1][1])

    def _built(self):
        # Weights that all ranks begin with.
        self._torch.manual_seed(self._wanted.seed)
        return self._asked(lambda: user_build.built(self._build, self._small))

    def _held(self, sample):
        tensor = self._torch.Tensor
        for name, one in zip(("inputs", "targets"), sample):
            if not isinstance(one, tensor) or not one.dim() or not len(one):
                self._ended("the {} of its sample are no tensor of samples".format(name))
        if len(sample[0]) != len(sample[1]):
            self._ended(
                "its sample has {} inputs and {} targets".format(len(sample[0]), len(sample[1]))
            )
        return sample

    def _ended(self, problem):
        sys.exit("--script {}: build(): {}".format(self._wanted.script, problem))

    def build(self):
        """Make the network again, with the weights that all ranks begin with."""
        return self._built().model

    def smaller(self):
        """Give the small form of the same network, build(small=True)."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, _small=True)
        made = other._built()
        other.model, other._loss = made.model, made.loss
        other._sample = other._held(made.sample)
        return other

    def loss(self, said, labels):
        """Give the script's own loss."""
        return self._loss(said, labels)

    def draw(self, make, count):
        """Draw so many samples like those of the sample, on the CPU."""
        return tuple(self._like(make, one.detach().cpu(), count) for one in self._sample)

    def _like(self, make, one, count):
        torch, shape = self._torch, (count,) + tuple(one.shape[1:])
        if one.is_floating_point():
            spread = one.std() if one.numel() > 1 else one.new_ones(())
            return torch.randn(*shape, generator=make).to(one.dtype) * spread + one.mean()
        # Numbers of classes or words: those that stand in the sample.
        numbers = one.reshape(-1)
        return numbers[torch.randint(0, len(numbers), shape, generator=make)]


def _bare(problem):
    text = str(problem)
    return text.split(": ", 1)[1] if text.startswith("--script ") and ": " in text else text
