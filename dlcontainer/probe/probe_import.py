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
    import ranks

    stamps.update(ranks.stamps(os.environ))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    body = {
        "schema": SCHEMA,
        "probe": "import",
        "ok": error is None,
        "error": error,
        "module": module,
        "stamps_ns": stamps,
        "values": {
            "import_cpu_s": cpu_s,
        },
        "counts": {
            "modules": len(sys.modules),
            "minor_faults": usage.ru_minflt,
            "major_faults": usage.ru_majflt,
            "max_rss_mb": usage.ru_maxrss / 1024.0,
        },
        "affinity": sorted(os.sched_getaffinity(0)),
        "stack": attest.stack(loaded) if ranks.attests() else None,
    }
    ranks.say(body)
    sys.exit(0 if error is None else 1)
