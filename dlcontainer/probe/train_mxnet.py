"""The train probe's network in MXNet (Gluon), on a CPU. Python >= 3.6."""

import os
import sys

import probe_train


def network(mx, width):
    """Make a residual network: a stem, three stages of two basic blocks, a linear head."""
    nn = mx.gluon.nn

    def unit(side, inner, outer, stride):
        both = nn.HybridSequential()
        convolution = nn.Conv2D(
            outer, side, stride, side // 2, use_bias=False, in_channels=inner
        )
        both.add(convolution, nn.BatchNorm(in_channels=outer))
        return both

    class Block(nn.HybridBlock):
        def __init__(self, inner, outer, stride):
            super(Block, self).__init__()
            with self.name_scope():
                self.first = unit(3, inner, outer, stride)
                self.second = unit(3, outer, outer, 1)
                self.short = None
                if stride != 1 or inner != outer:
                    self.short = unit(1, inner, outer, stride)

        def hybrid_forward(self, F, x):  # noqa: N803
            y = self.second(F.relu(self.first(x)))
            return F.relu(y + (x if self.short is None else self.short(x)))

    layers = nn.HybridSequential()
    layers.add(unit(3, 3, width, 1), nn.Activation("relu"))
    for inner, outer, stride in probe_train.stages(width):
        layers.add(Block(inner, outer, stride), Block(outer, outer, 1))
    layers.add(nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(probe_train.CLASSES, in_units=4 * width))
    return layers


class Trainer(object):
    """Data, network and optimizer; see probe_train.py. The CPU only: no GPU build was tried."""

    device = "cpu"

    def __init__(self, wanted):
        if wanted.device == "cuda":
            sys.exit("--device cuda: this probe trains with MXNet on the CPU only")
        if wanted.threads:
            # MXNet has no call for it: OpenMP reads this when the library is loaded.
            os.environ["OMP_NUM_THREADS"] = str(wanted.threads)
        import mxnet as mx

        probe_train.stamp("import")
        self.framework = mx
        probe_train.settle_sizes(wanted, self.device)
        shape = (wanted.batch, 3, wanted.size, wanted.size)
        mx.random.seed(wanted.seed + 1 + wanted.place.rank)
        self._images = [mx.nd.random.normal(shape=shape) for _ in range(probe_train.BATCHES)]
        self._labels = [
            mx.nd.random.randint(0, probe_train.CLASSES, shape=shape[:1]).astype("float32")
            for _ in range(probe_train.BATCHES)
        ]
        mx.random.seed(wanted.seed)
        self._model = network(mx, wanted.width)
        self._model.initialize(mx.init.Xavier())
        self._model.hybridize()
        self._loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
        self._trainer = mx.gluon.Trainer(
            self._model.collect_params(),
            "sgd",
            {"learning_rate": probe_train.RATE, "momentum": probe_train.MOMENTUM},
        )
        self._kept = []
        self.settle()
        probe_train.stamp("device")

    def step(self, number):
        """Train on one batch, to the end: the engine works behind the caller's back."""
        picked = number % probe_train.BATCHES
        with self.framework.autograd.record():
            loss = self._loss(self._model(self._images[picked]), self._labels[picked]).mean()
        loss.backward()
        self._trainer.step(1)
        self._kept.append(loss)
        self.settle()

    def settle(self):
        """Wait until the engine is idle."""
        self.framework.nd.waitall()

    def clock(self):
        """Give a clock."""
        return probe_train.Clock()

    def losses(self):
        """Give the losses of all steps, warm-up included."""
        return [float(loss.asscalar()) for loss in self._kept]

    def counts(self):
        """Give what else was counted."""
        return {}
