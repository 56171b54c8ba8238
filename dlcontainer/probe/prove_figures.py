"""What the time of an all-reduce comes to. Standard library, Python >= 3.6."""


def figures(size, seconds, count):
    """Give a size's time and bandwidths, as nccl-tests define them (doc/PERFORMANCE.md), GB/s."""
    algorithm = size / seconds / 1e9
    bus = algorithm * 2 * (count - 1) / count
    return {"bytes": size, "seconds": seconds, "algbw": algorithm, "busbw": bus}
