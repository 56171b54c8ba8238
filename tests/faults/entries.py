"""What the zygote runs: the command line, as a user calls it, and two things that have none."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dlcontainer.cli import main


def run(argv: Sequence[str]) -> None:
    """Run the command line; it exits."""
    sys.argv = ["dlcontainer", *argv]
    main.run()


def publish(argv: Sequence[str]) -> None:
    """Run it where every check of an image passes: these run the image, and write no tree."""
    from dlcontainer.validate import validate
    from dlcontainer.validate.inspected import CheckResult

    def passed(*_: Any) -> list[CheckResult]:
        return [CheckResult(name="runs", ok=True, detail="not run", state="ok")]

    validate.validate = passed  # type: ignore[assignment]
    run(argv)


def collect(argv: Sequence[str]) -> None:
    """Run it where no process has anything open: what others run here is another each time."""
    from dlcontainer.publish.tree import in_use
    from dlcontainer.publish.tree.in_use import OpenFiles

    in_use.seen = OpenFiles  # type: ignore[assignment]
    run(argv)


def trace(argv: Sequence[str]) -> None:
    """Trace; where a killed one left its folder, as its text says: into a new one.

    Of looks at processes it reads those that were made: real ones differ from run to run.
    """
    from dlcontainer.bench.trace.watch import watch_file

    watch_file.SUFFIX = "-n-1.watch"
    folder = argv[list(argv).index("-o") + 1]
    if os.access(folder, os.F_OK):
        shutil.rmtree(folder)
    run(argv)


def session(argv: Sequence[str]) -> None:
    """Write a session of `bench` as its measuring does; one that was cut goes on."""
    from dlcontainer.bench.samples import continuation
    from dlcontainer.bench.samples.records import AttestedStack, Resume
    from dlcontainer.bench.samples.writer import Writer
    from dlcontainer.errors import BenchDataError
    from tests import benchseries

    path, plan = Path(argv[0]), benchseries.Plan(pairs=2, control_pairs=1)
    begun = None
    # A look at the file is this entry's own, and fails in no way of the product's.
    if os.access(path, os.F_OK):
        try:
            begun = continuation.read(path)
        except BenchDataError:
            # Complete, or without a launch; as its text says: into a new file.
            path.unlink()
    try:
        with Writer(path, benchseries.session(plan), after=begun) as writer:
            if begun is None:
                writer.stack(AttestedStack(arm="native", facts=plan.reference))
                writer.stack(AttestedStack(arm="container", facts=plan.candidate))
            else:
                writer.resume(Resume(started=begun.session.started, dropped_bytes=begun.dropped))
            for sample in benchseries.draw(plan)[len(begun.samples) if begun else 0 :]:
                writer.sample(sample)
            writer.end(complete=True)
    except BenchDataError as error:
        main._report(error, as_json=False)
        sys.exit(error.exit_code)
