"""The report of a probe that has no more to say than its figures. Standard library, Python >= 3.6.

A probe_NAME.py calls `report` last. `stamps` are those that `run` was given, with its own, in
nanoseconds of CLOCK_REALTIME; `values` hold `wall_s`, unless the time ends at one of the stamps.
`rows` are those of rows.py, `framework` is the module that was measured, `more` what else a probe's
own gate takes, `attested` the facts that it adds to those of the process.
"""

import os
import resource

import attest
import calibrate
import ranks

SCHEMA = "dlcontainer/probe/1"


def report(
    name, stamps, values, workload, counts=None, steps_s=(), rows=(), framework=None, more=None,
    attested=None,
):  # fmt: skip
    """Hand over what was measured: printed by a single process, written to a file by a rank."""
    stamps = dict(stamps, **ranks.stamps(os.environ))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    measured = {"max_rss_mb": usage.ru_maxrss / 1024.0}
    measured.update(counts or {})
    values = dict(values)
    calibrated = calibrate.alone(values)
    body = {
        "schema": SCHEMA,
        "probe": name,
        "ok": True,
        "error": None,
        "workload": workload,
        "stamps_ns": stamps,
        "values": values,
        "calibration": calibrated,
        "counts": measured,
        "steps_s": [round(step, 9) for step in steps_s],
        "affinity": sorted(os.sched_getaffinity(0)),
        "stack": dict(attest.stack(framework), **(attested or {})) if ranks.attests() else None,
    }
    if rows:
        body["rows"] = list(rows)
    body.update(more or {})
    ranks.say(body)


def failed(name, problem):
    """Say why there is no report: into a rank's file; a single process prints its traceback."""
    if ranks.asked():
        error = "{}: {}".format(type(problem).__name__, problem)
        ranks.say({"schema": SCHEMA, "probe": name, "ok": False, "error": error})
