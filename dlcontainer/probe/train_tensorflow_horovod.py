"""TensorFlow's gradients averaged by Horovod, over MPI between CPUs. Python >= 3.6.

Its reductions themselves, not its optimizers: those are Keras's, and with Keras 3 Horovod 0.28.1
averages nothing under model.fit, without a word.
"""

import horovod_init
import train_tensorflow


class Trainer(train_tensorflow.Trainer):
    """One rank of several that average their gradients; see probe_train.py."""

    def __init__(self, wanted):
        import horovod.tensorflow as hvd

        # Loaded first, and with it the framework: it is part of what is imported.
        super(Trainer, self).__init__(wanted)
        self._hvd = hvd
        horovod_init.begin(hvd, wanted.place)
        for weight in self._network.weights:
            # A check more than a need: the seed has made them the same.
            weight.assign(hvd.broadcast(weight, root_rank=0))

    def _stepper(self):
        import horovod.tensorflow as hvd

        def averaged(slopes):
            # A name each, the same on all ranks: Horovod sorts by it what came from whom.
            return [
                hvd.allreduce(slope, op=hvd.Average, name="slope.{}".format(number))
                for number, slope in enumerate(slopes)
            ]

        return train_tensorflow.stepper(self.framework, self._network, averaged)

    def transport(self):
        """Give what is known of the way between ranks."""
        return horovod_init.transport(self._hvd, self.device)

    def close(self):
        """Leave the group."""
        self._hvd.shutdown()
