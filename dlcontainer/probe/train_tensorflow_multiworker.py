"""TensorFlow's own data parallelism: MultiWorkerMirroredStrategy, a loop of one's own, no Keras.

Its collectives run between the ranks (gRPC, ring) in the step's own graph. Each rank is one
worker with one replica; weights are ordinary variables, the same on all ranks by their seed and by
the averaged gradients. Python >= 3.6.
"""

import json
import os
import socket

import train_tensorflow

import probe_train


def address(environ=os.environ):
    """Give HOST:PORT where the others find this rank; the port is free now."""
    meet = environ.get("DLC_RANKS_MEET", "").rpartition(":")[0]
    # One node's ranks meet on its loopback, and so do its workers.
    host = meet if meet.startswith("127.") else os.uname().nodename
    free = socket.socket()
    try:
        free.bind(("", 0))
        return "{}:{}".format(host, free.getsockname()[1])
    finally:
        free.close()


def configuration(addresses, rank):
    """Give what TensorFlow reads of its cluster (TF_CONFIG)."""
    return json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}})


class Trainer(train_tensorflow.Trainer):
    """One rank of several that average their gradients; see probe_train.py."""

    def _found(self, wanted):
        place, distribute = wanted.place, self.framework.distribute
        addresses = wanted.meeting().exchange(address())
        os.environ["TF_CONFIG"] = configuration(addresses, place.rank)
        known = distribute.experimental
        options = known.CommunicationOptions(implementation=known.CommunicationImplementation.RING)
        self._strategy = distribute.MultiWorkerMirroredStrategy(communication_options=options)
        if self._strategy.num_replicas_in_sync != place.size:
            raise RuntimeError(
                "{} replicas for {} ranks".format(self._strategy.num_replicas_in_sync, place.size)
            )
        probe_train.stamp("process_group")

    def _stepper(self):
        tf, strategy = self.framework, self._strategy

        def averaged(slopes):
            return tf.distribute.get_replica_context().all_reduce(
                tf.distribute.ReduceOp.MEAN, slopes
            )

        own = train_tensorflow.stepper(tf, self._network, averaged)

        @tf.function
        def step(images, labels):
            return strategy.run(own, args=(images, labels))

        return step

    def transport(self):
        """Give what is known of the way between ranks."""
        return {"backend": "grpc", "collectives": "ring"}

    def close(self):
        """Leave the group: its workers end with the process."""
