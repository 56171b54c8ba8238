"""MXNet's GPUs. Python >= 3.6."""

import mxnet as mx


class Devices(object):
    """See prove_devices.py."""

    def names(self):
        """Give the devices' names: MXNet knows their number alone."""
        # A build without CUDA has the function too, and counts none.
        return ["GPU {}".format(index) for index in range(int(mx.context.num_gpus()))]

    def losses(self, index, steps):
        """Train on a device, or on the CPU; give the losses."""
        nd, where = mx.nd, mx.cpu() if index is None else mx.gpu(index)
        mx.random.seed(20190617, ctx=mx.cpu())
        # Made on the CPU, then copied: the same numbers on every device.
        images = nd.random.normal(shape=(64, 3, 16, 16), ctx=mx.cpu())
        labels = nd.arange(64, ctx=mx.cpu()) % 2
        # The second kind is brighter: something to learn in a few steps.
        images = (images + labels.reshape((64, 1, 1, 1))).as_in_context(where)
        labels = labels.as_in_context(where)
        shapes = ((8, 3, 3, 3), (2, 8))
        weights = [nd.random.normal(scale=0.3, shape=shape, ctx=mx.cpu()) for shape in shapes]
        weights = [part.as_in_context(where) for part in weights]
        losses = []
        entropy = mx.gluon.loss.SoftmaxCrossEntropyLoss()
        for part in weights:
            part.attach_grad()
        for _ in range(steps):
            with mx.autograd.record():
                hidden = nd.relu(
                    nd.Convolution(
                        images, weights[0], kernel=(3, 3), pad=(1, 1), num_filter=8, no_bias=True
                    )
                )
                scores = nd.dot(hidden.mean(axis=(2, 3)), weights[1], transpose_b=True)
                loss = entropy(scores, labels).mean()
            loss.backward()
            for part in weights:
                part[:] = part - 0.5 * part.grad
            losses.append(float(loss.asscalar()))
        return losses
