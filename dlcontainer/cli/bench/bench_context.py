"""The lab of a benchmark's session: this host, its engine, a private folder, the cache held."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dlcontainer.cli import output

if TYPE_CHECKING:
    from dlcontainer.bench.measure.context import Lab
    from dlcontainer.cli.context import World
    from dlcontainer.planning.plan import Plan


@contextmanager
def opened(
    world: "World", console: output.Console, plan: "Plan", beside: Path | None
) -> Iterator["Lab"]:
    """Make a lab ready and take it down; its folder lies in `beside`, else where TMPDIR says.

    Raises EngineError where images can't be run here.
    """
    import tempfile

    from dlcontainer.bench.measure.context import Lab
    from dlcontainer.engines import apptainer, capabilities
    from dlcontainer.sites import gpu_flags
    from dlcontainer.system import file_locks
    from dlcontainer.system.workspace import workspace

    runner = console.runner(world.environ)
    engine = apptainer.find(world.environ)
    tried = capabilities.require(world.cache, engine, world.host, runner)
    parent = beside or Path(tempfile.gettempdir())
    with (
        file_locks.building(world.cache, console.note),
        workspace(parent, runner, console.note) as work,
    ):
        yield Lab(
            engine=engine,
            trial=tried,
            host=world.host,
            runner=runner,
            cache=world.cache,
            templates=tuple(world.resources.template_folders()),
            progress=console,
            work=work,
            accelerators=gpu_flags.here(plan.site),
        )
