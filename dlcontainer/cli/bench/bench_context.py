"""The context of a benchmark's session: this host, its engine, a private folder, the cache held."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dlcontainer.cli import output

if TYPE_CHECKING:
    from dlcontainer.bench.measure.bench_image import BenchImage
    from dlcontainer.bench.measure.context import BenchContext
    from dlcontainer.cli.context import CliContext
    from dlcontainer.planning.launch.here import HostSurroundings
    from dlcontainer.planning.plan import Plan
    from dlcontainer.sites.site import Site


@contextmanager
def opened(
    world: "CliContext",
    console: output.Console,
    plan: "Plan",
    near: Path | None,
    image: "BenchImage | None" = None,
) -> Iterator["BenchContext"]:
    """Make a context ready for a plan's site; see `at_site`."""
    with at_site(world, console, plan.site, near, image) as context:
        yield context


@contextmanager
def at_site(
    world: "CliContext",
    console: output.Console,
    site: "Site",
    near: Path | None,
    image: "BenchImage | None" = None,
) -> Iterator["BenchContext"]:
    """Make a context ready and take it down; its folder lies in `near`, else where TMPDIR says.

    With an image it has what the site puts around that.

    Raises EngineError where images can't be run here.
    """
    from dlcontainer.bench.measure.context import BenchContext
    from dlcontainer.sites import gpu_flags
    from dlcontainer.system import file_locks
    from dlcontainer.system.workspace import workspace

    surroundings = _around(world, site, image)
    for fact in surroundings.left_out:
        console.note(f"left out here: {fact}")
    execution = world.execution(console)
    parent = near or world.scratch
    with (
        file_locks.building(world.cache, console.note),
        workspace(parent, execution.runner, console.note) as work,
    ):
        yield BenchContext(
            execution=execution,
            templates=tuple(world.resources.template_folders()),
            work=work,
            accelerators=gpu_flags.here(site),
            surroundings=surroundings,
        )


def _around(world: "CliContext", site: "Site", image: "BenchImage | None") -> "HostSurroundings":
    from dlcontainer.planning.launch import on_host
    from dlcontainer.planning.launch.here import HostSurroundings
    from dlcontainer.planning.launch.surroundings import ImageFacts

    # An image that nobody trusted yet gets nothing of the site's.
    if image is None or image.is_contained:
        return HostSurroundings()
    facts = ImageFacts(uses_mpi=image.uses_mpi, environment=image.environment)
    return on_host.here(site, facts, world.environ)
