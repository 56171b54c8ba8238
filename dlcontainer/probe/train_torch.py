"""The train probe's networks in PyTorch, on a CPU or a GPU. Python >= 3.6."""

import sys
import time

import accelerator
import precision_torch
import probe_train
import train_options


def network(torch, width):
    """Make a residual network: a stem, three stages of two basic blocks, a linear head."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, inner, outer, stride):
            super(Block, self).__init__()
            self.first = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
            self.first_norm = nn.BatchNorm2d(outer)
            self.second = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
            self.second_norm = nn.BatchNorm2d(outer)
            self.short = None
            if stride != 1 or inner != outer:
                self.short = nn.Sequential(
                    nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer)
                )

        def forward(self, x):
            y = torch.relu(self.first_norm(self.first(x)))
            y = self.second_norm(self.second(y))
            return torch.relu(y + (x if self.short is None else self.short(x)))

    layers = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    for inner, outer, stride in probe_train.stages(width):
        layers += [Block(inner, outer, stride), Block(outer, outer, 1)]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, probe_train.CLASSES)]
    return nn.Sequential(*layers)


class Residual(object):
    """The small network that every framework has, with its data, on a device."""

    def __init__(self, torch, wanted, device, home):
        import networks_count

        probe_train.settle_sizes(wanted, device)
        # What its samples in files are, where it has any: kind, shape, classes.
        self.sample = ("names", (3, wanted.size, wanted.size), probe_train.CLASSES)
        make = torch.Generator()
        make.manual_seed(wanted.seed + 1 + probe_train.stream(wanted))
        shape = (wanted.batch, 3, wanted.size, wanted.size)
        # On the CPU, then moved: the same numbers on every device.
        self.images = [
            torch.randn(*shape, generator=make).to(device) for _ in range(probe_train.BATCHES)
        ]
        self.labels = [
            torch.randint(0, probe_train.CLASSES, (wanted.batch,), generator=make).to(device)
            for _ in range(probe_train.BATCHES)
        ]
        self._torch, self._wanted = torch, wanted
        self.model = self.build().to(home)
        self.counted = {"parameters": networks_count.parameters(self.model)}
        self.loss = torch.nn.functional.cross_entropy

    def build(self):
        """Make the network, with the weights that all ranks begin with."""
        self._torch.manual_seed(self._wanted.seed)
        return network(self._torch, self._wanted.width)

    def draw(self, make, count):
        """Draw so many samples and their labels, on the CPU."""
        side = self._wanted.size
        images = self._torch.randn(count, 3, side, side, generator=make)
        return images, self._torch.randint(0, probe_train.CLASSES, (count,), generator=make)


class Trainer(object):
    """Data, network and optimizer; see probe_train.py."""

    def __init__(self, wanted):
        import torch

        probe_train.stamp("import")
        self.framework = torch
        if wanted.threads:
            torch.set_num_threads(wanted.threads)
        try:
            self._on = accelerator.chosen(torch, wanted.device)
        except RuntimeError as problem:
            sys.exit(str(problem))
        self.device = self._on.type
        self._index = self._on.take(wanted.place.local_rank)
        self._precision = precision_torch.made(torch, wanted.precision, self.device)
        self._require(torch, wanted)
        work = self.work = self._work(torch, wanted)
        self._images, self._labels, self._model = work.images, work.labels, work.model
        self._loss, self.counted, self._sample = work.loss, work.counted, work.sample
        # Seconds that each step waited for its batch from files.
        self.waited_s, self._fed = [], None
        self._optimizer = self._optimizer_of(torch, wanted)
        self._kept = []
        self.settle()
        probe_train.stamp("device")

    def _require(self, torch, wanted):
        """End the process where this framework can't train so; nothing is made yet."""

    def _home(self):
        """Name the device that the network is made on."""
        return self.device

    def _work(self, torch, wanted):
        if wanted.script:
            import workloads_script as workloads
        elif wanted.workload == train_options.RESIDUAL:
            return Residual(torch, wanted, self.device, self._home())
        else:
            import workloads_torch as workloads
        return workloads.Named(torch, wanted, self.device, self._home())

    def _optimizer_of(self, torch, wanted):
        if wanted.script:
            return self.work.optimizer
        if (wanted.workload, wanted.optimizer) == (train_options.RESIDUAL, "sgd"):
            return torch.optim.SGD(
                self._model.parameters(), lr=probe_train.RATE, momentum=probe_train.MOMENTUM
            )
        import optimizers_torch

        return optimizers_torch.made(wanted.optimizer, self._model.parameters())

    def feed(self, samples, wanted):
        """Take batches from files in place of noise; give this trainer."""
        import input_torch

        decoder = input_torch.Decoder(self.framework, *self._sample, device=self.device)
        decoder.require(wanted.sample_bytes)
        self._images = self._labels = None
        self._fed = map(decoder.decoded, samples.batches(wanted.batch))
        return self

    def _batch(self, number):
        if self._fed is None:
            picked = number % probe_train.BATCHES
            return self._images[picked], self._labels[picked]
        begin = time.perf_counter()
        images, labels = next(self._fed)
        self.waited_s.append(time.perf_counter() - begin)
        return images, labels

    def step(self, number):
        """Train on one batch."""
        self._optimizer.zero_grad()
        images, labels = self._batch(number)
        with self._precision.forward():
            loss = self._loss(self._model(images), labels)
        self._precision.backward(loss, self._optimizer)
        self._kept.append(loss.detach())
        self._on.end_step()

    def settle(self):
        """Wait until the device is idle."""
        self._on.settle()

    def clock(self):
        """Give a clock that does not stop the device."""
        return accelerator.EventClock(self._on) if self._on else probe_train.Clock()

    def losses(self):
        """Give the losses of all steps, warm-up included."""
        return [float(loss) for loss in self._kept]

    def weights(self):
        """Give all weights that are trained."""
        return [value for one in self._model.parameters() for value in one.detach().flatten().tolist()]

    def counts(self):
        """Give what else was counted."""
        found = self._precision.counts()
        most = self._on.peak_bytes()
        if most is not None:
            found["device_memory_mb"] = most / 1e6
        return found
