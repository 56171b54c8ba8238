"""JAX's devices: those of its CUDA and ROCm plugins. Syntax of Python 3.6."""

import os

# Or JAX takes three quarters of a device's memory for itself; read when its backend starts.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import numpy

SEED = 20190617


class Devices(object):
    """See prove_devices.py."""

    def __init__(self):
        # Full float32: the default lets a device round products to TF32.
        jax.config.update("jax_default_matmul_precision", "highest")
        self._devices = [device for device in jax.local_devices() if device.platform != "cpu"]

    def names(self):
        """Give the devices' names."""
        return [str(device.device_kind) for device in self._devices]

    def losses(self, index, steps):
        """Train on a device, or on the CPU; give the losses."""
        if index is None:
            device = jax.local_devices(backend="cpu")[0]
        else:
            device = self._devices[index]
        with jax.default_device(device):
            return _losses(device, steps)


def _losses(device, steps):
    # Made by NumPy, then moved: the same numbers on every device.
    make = numpy.random.RandomState(SEED)
    images = make.standard_normal((64, 3, 16, 16)).astype("float32")
    labels = numpy.arange(64) % 2
    # The second kind is brighter: something to learn in a few steps.
    images += labels.reshape(64, 1, 1, 1).astype("float32")
    shapes = ((8, 3, 3, 3), (8, 2))
    weights = [make.standard_normal(shape).astype("float32") * numpy.float32(0.3) for shape in shapes]
    images, labels, weights = jax.device_put((images, labels, weights), device)
    step = jax.jit(jax.value_and_grad(_loss))
    losses = []
    for _ in range(steps):
        loss, slopes = step(weights, images, labels)
        weights = [part - 0.5 * slope for part, slope in zip(weights, slopes)]
        losses.append(float(loss))
    return losses


def _loss(weights, images, labels):
    hidden = jax.lax.conv_general_dilated(images, weights[0], (1, 1), "SAME")
    scores = jax.nn.relu(hidden).mean(axis=(2, 3)) @ weights[1]
    chosen = jax.nn.log_softmax(scores)[jax.numpy.arange(len(labels)), labels]
    return -chosen.mean()
