"""The threads probe: the same kernels by number of threads and by library. Python >= 3.6."""

import probe_kernels


def run(arguments, stamps):
    """Measure and report; `stamps` are those of this process until now, ns."""
    probe_kernels.run(arguments, stamps, "threads")
