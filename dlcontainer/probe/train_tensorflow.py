"""The train probe's network in TensorFlow 2, on a CPU. Python >= 3.6.

TensorFlow's own operations under tf.function, without Keras: which Keras is there, and how its
loop works, differs from version to version, and is not what is measured.
"""

import sys

import probe_train

DECAY = 0.9  # of the running statistics, PyTorch's default


class Network(object):
    """A residual network: a stem, three stages of two basic blocks, a linear head."""

    def __init__(self, tf, width, seed):
        self.tf, self.seed = tf, seed
        # What is trained, and the running means and variances, which only are kept.
        self.weights, self.statistics = [], []
        self.stem = self._unit(3, 3, width, 1)
        self.blocks = []
        for inner, outer, stride in probe_train.stages(width):
            self.blocks += [self._block(inner, outer, stride), self._block(outer, outer, 1)]
        bound = (4 * width) ** -0.5
        self.head = self._weight((4 * width, probe_train.CLASSES), bound)
        self.bias = self._weight((probe_train.CLASSES,), bound)

    def _weight(self, shape, bound):
        seed = (self.seed, len(self.weights))
        value = self.tf.random.stateless_uniform(shape, seed, -bound, bound)
        self.weights.append(self.tf.Variable(value))
        return self.weights[-1]

    def _unit(self, side, inner, outer, stride):
        """Make a convolution with its normalization; the bounds are PyTorch's defaults."""
        tf = self.tf
        kernel = self._weight((side, side, inner, outer), (side * side * inner) ** -0.5)
        scale, shift = tf.Variable(tf.ones(outer)), tf.Variable(tf.zeros(outer))
        self.weights += [scale, shift]
        running = tf.Variable(tf.zeros(outer)), tf.Variable(tf.ones(outer))
        self.statistics += running

        def apply(x):
            y = tf.nn.conv2d(x, kernel, stride, "SAME")
            y, mean, variance = tf.compat.v1.nn.fused_batch_norm(y, scale, shift, epsilon=1e-5)
            for kept, new in zip(running, (mean, variance)):
                kept.assign_sub((1 - DECAY) * (kept - new))
            return y

        return apply

    def _block(self, inner, outer, stride):
        relu = self.tf.nn.relu
        first, second = self._unit(3, inner, outer, stride), self._unit(3, outer, outer, 1)
        short = None
        if stride != 1 or inner != outer:
            short = self._unit(1, inner, outer, stride)

        def apply(x):
            return relu(second(relu(first(x))) + (x if short is None else short(x)))

        return apply

    def __call__(self, x):
        """Give the scores of a batch."""
        x = self.tf.nn.relu(self.stem(x))
        for block in self.blocks:
            x = block(x)
        return self.tf.matmul(self.tf.reduce_mean(x, axis=(1, 2)), self.head) + self.bias


def stepper(tf, network, averaged=lambda slopes: slopes):
    """Give one step of training as one graph: loss, gradients, momentum.

    `averaged` makes the gradients of all ranks of one rank's own.
    """
    speeds = [tf.Variable(tf.zeros_like(weight)) for weight in network.weights]

    @tf.function
    def step(images, labels):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, network(images))
            loss = tf.reduce_mean(losses)
        slopes = averaged(tape.gradient(loss, network.weights))
        for weight, speed, slope in zip(network.weights, speeds, slopes):
            weight.assign_sub(probe_train.RATE * speed.assign(probe_train.MOMENTUM * speed + slope))
        return loss

    return step


class Trainer(object):
    """Data, network and step; see probe_train.py. The CPU only: no GPU build was tried."""

    device = "cpu"

    def __init__(self, wanted):
        if wanted.device == "cuda":
            sys.exit("--device cuda: this probe trains with TensorFlow on the CPU only")
        import tensorflow as tf

        probe_train.stamp("import")
        self.framework = tf
        tf.config.set_visible_devices([], "GPU")
        if wanted.threads:
            tf.config.threading.set_intra_op_parallelism_threads(wanted.threads)
            tf.config.threading.set_inter_op_parallelism_threads(wanted.threads)
        self._found(wanted)
        probe_train.settle_sizes(wanted, self.device)
        shape = (wanted.batch, wanted.size, wanted.size, 3)
        seeds = [(wanted.seed + 1 + wanted.place.rank, number) for number in range(probe_train.BATCHES)]
        self._images = [tf.random.stateless_normal(shape, seed) for seed in seeds]
        self._labels = [
            tf.random.stateless_uniform(shape[:1], seed, 0, probe_train.CLASSES, tf.int32)
            for seed in seeds
        ]
        self._network = Network(tf, wanted.width, wanted.seed)
        self._step = self._stepper()
        self._kept = []
        self.settle()
        probe_train.stamp("device")

    def _found(self, wanted):
        """Find other ranks before any operation has run: ways that need it so override this."""

    def _stepper(self):
        return stepper(self.framework, self._network)

    def step(self, number):
        """Train on one batch; on a CPU the call returns when the graph has run."""
        picked = number % probe_train.BATCHES
        self._kept.append(self._step(self._images[picked], self._labels[picked]))

    def settle(self):
        """Wait until the device is idle: the last loss is there."""
        if self._kept:
            self._kept[-1].numpy()

    def clock(self):
        """Give a clock."""
        return probe_train.Clock()

    def losses(self):
        """Give the losses of all steps, warm-up included."""
        return [float(loss) for loss in self._kept]

    def weights(self):
        """Give all weights that are trained."""
        return [value for one in self._network.weights for value in one.numpy().ravel().tolist()]

    def counts(self):
        """Give what else was counted."""
        return {}
