"""PyTorch's gradients averaged by Horovod, over MPI between CPUs. Python >= 3.6."""

import horovod_init
import train_torch


class Trainer(train_torch.Trainer):
    """One rank of several that average their gradients; see probe_train.py."""

    def __init__(self, wanted):
        import horovod.torch as hvd

        # Loaded first, and with it the framework: it is part of what is imported.
        super(Trainer, self).__init__(wanted)
        self._hvd = hvd
        horovod_init.begin(hvd, wanted.place)
        # A check more than a need: the seed has made them the same.
        hvd.broadcast_parameters(self._model.state_dict(), root_rank=0)
        self._optimizer = hvd.DistributedOptimizer(
            self._optimizer, named_parameters=self._model.named_parameters()
        )

    def transport(self):
        """Give what is known of the way between ranks."""
        return horovod_init.transport(self._hvd, self.device)

    def close(self):
        """Leave the group."""
        self._hvd.shutdown()
