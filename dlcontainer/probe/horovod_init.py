"""What Horovod's trainers share: begin among the ranks, say the way between them. Python >= 3.6.

The ranks find each other by MPI: what started them must be the MPI's own launcher, or one that it
knows. Horovod's own launcher, and its Gloo rendezvous, have no part in it.
"""

import probe_train


def begin(hvd, place):
    """Begin; raises RuntimeError where Horovod sees other ranks than there are."""
    hvd.init()
    if (hvd.size(), hvd.rank()) != (place.size, place.rank):
        raise RuntimeError(
            "Horovod says rank {} of {}, this is rank {} of {}: it was built without MPI, or its "
            "MPI does not know this launcher".format(
                hvd.rank(), hvd.size(), place.rank, place.size
            )
        )
    probe_train.stamp("process_group")


def transport(hvd, device):
    """Give what is known of the way between ranks."""
    backend = "mpi" if hvd.mpi_enabled() else "gloo"
    if device != "cpu" and hvd.nccl_built():
        backend = "nccl"
    import horovod

    return {"backend": backend, "horovod": horovod.__version__}
