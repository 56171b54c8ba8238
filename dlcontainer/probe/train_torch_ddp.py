"""PyTorch's own data parallelism: gloo between CPUs, else the devices' library. Python >= 3.6.

Running statistics of the normalizations are rank 0's, sent round before each step: DDP's default.
"""

import os

import nccl_log
import ranks
import probe_train
import train_torch


class Trainer(train_torch.Trainer):
    """One rank of several that average their gradients; see probe_train.py."""

    def __init__(self, wanted):
        super(Trainer, self).__init__(wanted)
        self._group = self.framework.distributed
        if not self._group.is_available():
            raise RuntimeError("this PyTorch was built without torch.distributed")
        wanted.place.export(os.environ)
        self._backend, self._log = self._on.backend(), ranks.aside(wanted.place, "nccl")
        if self._backend is None:
            raise RuntimeError("this PyTorch has no backend between devices of type " + self.device)
        # Read once, when the first communicator is made; in steps NCCL writes nothing of this.
        log = self._on.log_variables(self._log)
        os.environ.update(log)
        self._log = self._log if log else None
        self._group.init_process_group(self._backend, init_method=self._on.init_method)
        probe_train.stamp("process_group")
        self._model = self._together(wanted)

    def _together(self, _wanted):
        """Give the network as ranks train it together."""
        devices = [self._index] if self._on.is_numbered else None
        parallel = self.framework.nn.parallel.DistributedDataParallel
        return parallel(self._model, device_ids=devices)

    def apart(self, number):
        """Train on one batch, and talk to nobody; tell whether that can be."""
        if not hasattr(self._model, "no_sync"):
            return False
        with self._model.no_sync():
            self.step(number)
        return True

    def transport(self):
        """Give what is known of the way between ranks."""
        found = {"backend": self._backend}
        if self._log:
            try:
                with open(self._log, errors="replace") as file:
                    shown = nccl_log.parsed(file.read())
                found.update(channels=shown["channels"], network=shown["networks"])
            except OSError:
                found["channels"] = None
        return found

    def close(self):
        """Leave the group."""
        self._group.destroy_process_group()
