"""TensorFlow 2's GPUs. Python >= 3.6."""

import tensorflow as tf


class Devices(object):
    """See prove_devices.py."""

    def __init__(self):
        experimental = tf.config.experimental
        if hasattr(experimental, "enable_tensor_float_32_execution"):
            experimental.enable_tensor_float_32_execution(False)
        self._devices = tf.config.list_physical_devices("GPU")
        for device in self._devices:
            try:
                # Or TensorFlow takes all memory of all devices for itself.
                experimental.set_memory_growth(device, True)
            except (RuntimeError, ValueError):
                pass  # too late: they are in use already

    def names(self):
        """Give the devices' names."""
        return [self._name(device) for device in self._devices]

    def _name(self, device):
        try:
            details = tf.config.experimental.get_device_details(device)
        except AttributeError:  # before 2.4
            details = {}
        return str(details.get("device_name") or device.name)

    def losses(self, index, steps):
        """Train on a device, or on the CPU; give the losses."""
        where = "/CPU:0" if index is None else "/GPU:{}".format(index)
        with tf.device("/CPU:0"):
            # Stateless: the same numbers on every device and in every version.
            images = tf.random.stateless_normal((64, 16, 16, 3), seed=(2019, 617))
            labels = tf.range(64) % 2
            # The second kind is brighter: something to learn in a few steps.
            images += tf.reshape(tf.cast(labels, tf.float32), (64, 1, 1, 1))
            first = tf.random.stateless_normal((3, 3, 3, 8), seed=(1, 2)) * 0.3
            second = tf.random.stateless_normal((8, 2), seed=(3, 4)) * 0.3
        losses = []
        with tf.device(where):
            images, labels = tf.identity(images), tf.identity(labels)
            weights = [tf.identity(first), tf.identity(second)]
            for _ in range(steps):
                with tf.GradientTape() as tape:
                    tape.watch(weights)
                    hidden = tf.nn.relu(tf.nn.conv2d(images, weights[0], 1, "SAME"))
                    scores = tf.matmul(tf.reduce_mean(hidden, axis=(1, 2)), weights[1])
                    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores)
                    loss = tf.reduce_mean(each)
                slopes = tape.gradient(loss, weights)
                weights = [part - 0.5 * slope for part, slope in zip(weights, slopes)]
                losses.append(float(loss.numpy()))
        return losses
