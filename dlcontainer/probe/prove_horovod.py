"""Ranks of a proof with TensorFlow meet by Horovod, where the image has it. Python >= 3.6."""

import horovod.tensorflow as hvd
import tensorflow as tf


class Group(object):
    """All ranks as Horovod counts them, which must be as the launcher does."""

    def __init__(self, place):
        self._place = place
        hvd.init()
        self.size = hvd.size()
        if (self.size, hvd.rank()) != (place.size, place.rank):
            raise RuntimeError(
                "Horovod says rank {} of {}, the launcher rank {} of {}: it was built without "
                "MPI, or its MPI does not know this launcher".format(
                    hvd.rank(), self.size, place.rank, place.size
                )
            )
        count = len(tf.config.list_physical_devices("GPU"))
        on_device = count > 0 and hvd.nccl_built()
        # Each rank of a node its own device, or all would sum on the first.
        self.where = "/GPU:{}".format(place.local_rank % count) if on_device else "/CPU:0"
        self.backend = "nccl" if on_device else "mpi" if hvd.mpi_enabled() else "gloo"

    def off(self):
        """Sum what each rank gives, check each value; give the largest difference (0 is right)."""
        total = self._place.size * (self._place.size + 1) // 2
        with tf.device("/CPU:0"):
            pattern = tf.cast(tf.range(1 << 14) % 7 + 1, tf.float32)
        with tf.device(self.where):
            mine = tf.identity(pattern * (self._place.rank + 1))
            mine = hvd.allreduce(mine, op=hvd.Sum, name="proof")
            return float(tf.reduce_max(tf.abs(mine - pattern * total)).numpy())

    def bandwidth(self):
        """Time nothing: what Horovod adds is not the network's."""
        return []

    def close(self):
        """Leave the group."""
        hvd.shutdown()
