"""The import probe's report: stamps since the launch, and the stack that was loaded."""

import os
import resource
import sys

SCHEMA = "dlcontainer/probe/1"


def report(module, loaded, error, stamps, cpu_s):
    """Give the report of one import; exit 1 when it failed.

    Stamps are nanoseconds of CLOCK_REALTIME, which no container has of its own.
    """
    import attest
    import calibrate
    import ranks

    stamps.update(ranks.stamps(os.environ))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    read_mb = storage_read_mb()
    stack = attest.stack(loaded) if ranks.attests() else None
    values = {"import_cpu_s": cpu_s}
    calibrated = calibrate.alone(values)
    body = {
        "schema": SCHEMA,
        "probe": "import",
        "ok": error is None,
        "error": error,
        "module": module,
        "stamps_ns": stamps,
        "values": values,
        "calibration": calibrated,
        "counts": {
            "modules": len(sys.modules),
            "minor_faults": usage.ru_minflt,
            "major_faults": usage.ru_majflt,
            # The page cache: 0 where all that was read lay in memory.
            "storage_read_mb": read_mb,
            "max_rss_mb": usage.ru_maxrss / 1024.0,
        },
        "affinity": sorted(os.sched_getaffinity(0)),
        "stack": stack,
    }
    ranks.say(body)
    sys.exit(0 if error is None else 1)


def storage_read_mb():
    """Give what this process has caused to be read from storage; None where nobody counts."""
    try:
        with open("/proc/self/io") as file:
            for line in file:
                if line.startswith("read_bytes:"):
                    return int(line.split()[1]) / 1e6
    except OSError:
        pass
    return None
