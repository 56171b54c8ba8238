"""Ranks of a real mpirun: how many mounts and FUSE processes a node has, and who can join late."""

import os
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.measure import ranks, shared_mount
from dlcontainer.bench.measure.context import BenchContext
from dlcontainer.bench.measure.ranks import RankGroup, RankLaunch
from dlcontainer.engines import apptainer
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.engines.engine import RunSpec
from dlcontainer.engines.execution import Execution
from dlcontainer.system import machine
from dlcontainer.system.process import CompletedCommand, ProcessRunner
from tests.fakes import Quiet
from tests.integration.test_bench import holders
from tests.integration.world import Built, World, missing
from tests.skips import skip

RANKS = 3
# Rank 0 ends at once; rank 2 begins when it has gone.
STAYS = '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || sleep 4'
LATE = '[ "$OMPI_COMM_WORLD_RANK" != 2 ] || sleep 2; exec "$@"'


@pytest.fixture
def context(
    world: World, engine: Apptainer, tried: EngineCapabilities, tmp_path: Path
) -> BenchContext:
    if shutil.which("mpirun") is None:
        missing("openmpi-bin")
    work = tmp_path / "work"
    (work / "ranks").mkdir(parents=True)
    return BenchContext(
        execution=Execution(
            engine=engine,
            capabilities=tried,
            host=machine.read_host(world.environ),
            runner=ProcessRunner(environ=world.environ),
            cache=tmp_path / "cache",
            progress=Quiet(),
        ),
        templates=(),
        work=work,
    )


def gathered(context: BenchContext) -> RankLaunch:
    options = ["--oversubscribe", *(["--allow-run-as-root"] if os.getuid() == 0 else [])]
    launcher = ("mpirun", *options, "-n", str(RANKS))
    ours = RankGroup(launcher=launcher, ranks=RANKS, per_node=RANKS, environment={})
    return ranks.gather(ours, context.work / "ranks", 60)


def command(gathering: RankLaunch, script: str) -> tuple[str, ...]:
    handed = gathering.handed(gathering.inside)
    return tuple(ranks.rank(["/bin/sh", "-c", script], handed, cleared=False))


class Count:
    """The most FUSE processes that were below this process at once.

    A process counts when two looks in a row see it: a child of a FUSE process that has forked and
    not yet started `fusermount` bears its parent's name for a moment.
    """

    def __init__(self) -> None:
        self.before, self.most = len(self.now()), 0
        self.over = threading.Event()

    def now(self) -> set[int]:
        pids = holders(os.getpid())
        return {pid for pid in pids if read(Path(f"/proc/{pid}/comm")).startswith("squashfuse")}

    def watch(self) -> None:
        last: set[int] = set()
        while not self.over.wait(0.1):
            now = self.now()
            self.most, last = max(self.most, len(now & last)), now


def read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


@contextmanager
def counting() -> Iterator[Count]:
    count = Count()
    thread = threading.Thread(target=count.watch)
    thread.start()
    try:
        yield count
    finally:
        count.over.set()
        thread.join()


def run(
    context: BenchContext, gathering: RankLaunch, argv: Sequence[str], env: Mapping[str, str]
) -> CompletedCommand:
    argv = gathering.launched(["/bin/sh", "-c", LATE, "sh", *argv])
    return context.execution.runner(argv, env=env, timeout=300)


@pytest.fixture
def fuse(tried: EngineCapabilities) -> None:
    if tried.run_mode == "unpacked":
        missing("/dev/fuse")


@pytest.mark.usefixtures("fuse")
def test_each_rank_mounts_or_all_join_one(context: BenchContext, tiny_image: Built) -> None:
    # On a busy machine the last rank begins when the first ones of a short launch are over.
    for seconds in (4, 16, 60):
        gathering = gathered(context)
        environment = apptainer.environment(context.execution.host.environ, tmpdir=context.work)
        spec = RunSpec(
            image=tiny_image.image,
            argv=command(gathering, f"sleep {seconds}"),
            mode=context.execution.run_mode,
            binds=gathering.binds,
            together=True,
        )
        with counting() as alone:
            run(context, gathering, context.execution.engine.run_argv(spec), environment)
        if alone.most % RANKS == 0:
            break
    if alone.most == 0:
        skip("the kernel mounts images here: no FUSE process to count", elsewhere="another kernel")
    per_rank = alone.most // RANKS
    assert alone.most == RANKS * per_rank

    gathering = gathered(context)
    with (
        counting() as shared,
        shared_mount.shared(context, tiny_image.image, gathering.binds) as instance,
    ):
        state = apptainer.environment(
            context.execution.host.environ, tmpdir=context.work, state=instance.state
        )
        # A short-lived rank 0: an engine's own sharing (--sharens) ends with the first rank.
        joined = replace(spec, argv=command(gathering, STAYS))
        run(context, gathering, context.execution.engine.join_argv(joined, instance.name), state)
    assert shared.most == per_rank
    ends = {path.name: path.read_text() for path in gathering.folder.glob("*.exit")}
    assert ends == {f"rank-{rank:05d}.exit": "0\n" for rank in range(RANKS)}
    assert Count().before == alone.before


def test_ranks_share_what_programs_of_several_ranks_need(
    context: BenchContext, tiny_image: Built
) -> None:
    """Their folder, /dev/shm and one view of the processes; nothing of the user's home."""
    gathering = gathered(context)
    script = (
        'echo x >"$DLC_RANKS_RESULTS/seen-$OMPI_COMM_WORLD_RANK"; '
        'echo "$(readlink /proc/self/ns/pid) $(readlink /proc/self/ns/ipc) $(df -P /dev/shm | '
        'tail -n 1 | cut -d" " -f1) [$HOST_SECRET] $(ls -A "$HOME" 2>/dev/null | wc -l)"'
    )
    spec = RunSpec(
        image=tiny_image.image,
        argv=command(gathering, script),
        mode=context.execution.run_mode,
        binds=gathering.binds,
        together=True,
    )
    environment = apptainer.environment(context.execution.host.environ, tmpdir=context.work)
    environment["HOST_SECRET"] = "secret"
    done = run(context, gathering, context.execution.engine.run_argv(spec), environment)
    lines = set(done.stdout.splitlines())
    (line,) = lines
    own = [str(Path(f"/proc/self/ns/{name}").readlink()) for name in ("pid", "ipc")]
    assert line.split()[:2] == own
    assert "[]" in line
    assert sorted(path.name for path in gathering.folder.glob("seen-*")) == [
        f"seen-{rank}" for rank in range(RANKS)
    ]
