#!/usr/bin/env python3
"""How far real OSV records of Python packages agree with the ranges as `scan` reads them.

Each record lists versions, and has ranges: two statements of one fact. A version that is listed
must lie in a range. A benchmark, not a test: the database is yours, and the exit code stays 0.
"""

import argparse
import resource
import sys
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Not this folder: its statistics.py is not Python's.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from dlcontainer.vulnerabilities import database, orders, ranges
from dlcontainer.vulnerabilities.database import UnreadableRecord
from dlcontainer.vulnerabilities.records import AffectedPackage


def main() -> None:
    """Read a database twice: alone, for its time, and with every listed version decided."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("database", type=Path, help="folder or zip of OSV records")
    path = parser.parse_args().database
    begun = time.perf_counter()
    kinds = Counter(isinstance(record, UnreadableRecord) for record in database.read(path))
    seconds = time.perf_counter() - begun
    print(f"records read: {kinds[False]}, not read: {kinds[True]}, in {seconds:.1f} s")
    print(f"most memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
    counts: Counter[str] = Counter()
    for record in database.read(path):
        if isinstance(record, UnreadableRecord):
            continue
        for affected in record.affected or ():
            if affected.package and affected.package.ecosystem == "PyPI":
                counts += decided(affected)
    for answer, count in sorted(counts.items()):
        print(f"{answer}: {count}")


def decided(affected: AffectedPackage) -> "Counter[str]":
    """Decide each listed version by the ranges alone."""
    counts: Counter[str] = Counter()
    alone = affected.model_copy(update={"versions": None})
    if not any(span.type == "ECOSYSTEM" for span in affected.ranges or ()):
        return counts
    for version in affected.versions or ():
        try:
            agrees = ranges.decide(version, alone, orders.of("PyPI")).affected
        except ranges.UndecidedError:
            counts["versions that have no order"] += 1
            continue
        counts["listed versions in a range" if agrees else "listed versions in no range"] += 1
    return counts


if __name__ == "__main__":
    main()
