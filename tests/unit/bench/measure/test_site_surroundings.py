"""A site's flags, binds and variables in a session: on which side, declared, shown, resumed."""

from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.measure import arms, declaration, shared_mount
from dlcontainer.bench.measure.arms import ContainerArm, Native, Workload
from dlcontainer.bench.measure.context import BenchContext
from dlcontainer.bench.measure.ranks import RankGroup, RankLaunch
from dlcontainer.bench.probes.import_ import IMPORT, cell
from dlcontainer.bench.report import html_report, markdown_report
from dlcontainer.bench.samples.reader import read
from dlcontainer.bench.samples.records import SURROUNDINGS, Json
from dlcontainer.errors import BenchDataError
from dlcontainer.planning.launch.here import HostSurroundings
from tests import benchseries
from tests.benchrunner import Bench, ProbeRunner
from tests.benchseries import FACTS, INSIDE, Plan
from tests.judging import analyse
from tests.values import TEMPLATES, execution_of

AROUND = HostSurroundings(
    flags=("--workdir", "/w"),
    binds=("/scratch:/data",),
    environment={"APPTAINER_CONTAINLIBS": "/usr/lib64/libcxi.so.1", "FI_CXI": "it's"},
    inside={"NCCL_SOCKET_IFNAME": "hsn0", "OMP_NUM_THREADS": "64"},
    image_paths={"LD_LIBRARY_PATH": "/opt/fabric/lib"},
    left_out=("bind /p: there is no /p on this host",),
    facts={"binds": ("/scratch:/data", "/p"), "flags": ("--workdir", "/w"), "libraries": ()},
)
WORDS = ["--workdir", "/w", "--bind", "/scratch:/data"]
DECLARED = {
    "binds": ["/scratch:/data", "/p"],
    "flags": ["--workdir", "/w"],
    "left out": ["bind /p: there is no /p on this host"],
}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, surroundings=AROUND)


def test_the_container_gets_them_and_all_sides_the_variables(bench: Bench) -> None:
    runner = ProbeRunner()
    bench.run(runner)
    for argv in runner.launches:
        contained = "/bin/apptainer" in argv
        assert all(word in argv for word in WORDS) == contained
        assert ("LD_LIBRARY_PATH=/opt/fabric/lib" in argv) == contained
        # The session's own threads come before a site's.
        assert "OMP_NUM_THREADS=64" not in argv
    assert any("--workdir" in argv for argv in runner.others)  # the look at the image's probe


def test_the_session_declares_them_and_the_report_shows_them(bench: Bench) -> None:
    series = read(bench.run(ProbeRunner()))
    assert series.session.declared.workload[SURROUNDINGS] == DECLARED
    analysis = analyse(series)
    page = markdown_report.page(html_report.page([analysis]))
    assert "### Around the image at demo" in page
    assert "| binds | /scratch:/data, /p |" in page
    assert "there is no /p on this host" in html_report.html([analysis], [TEMPLATES])
    assert f"| {SURROUNDINGS} |" not in page


def test_a_site_that_adds_nothing_leaves_a_session_as_it_was(bench: Bench) -> None:
    bench.surroundings = HostSurroundings()
    series = read(bench.run(ProbeRunner()))
    assert SURROUNDINGS not in series.session.declared.workload
    assert "Around the image" not in markdown_report.page(html_report.page([analyse(series)]))


def test_a_session_goes_on_in_the_same_surroundings_alone(bench: Bench) -> None:
    def cut(index: int) -> None:
        if index == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.run(ProbeRunner(odd=cut))
    begun = read(bench.folder / "samples.jsonl")
    bench.surroundings = HostSurroundings()
    with pytest.raises(BenchDataError, match="differ from those of the session") as caught:
        bench.run(ProbeRunner(), cut=begun)
    assert "surroundings.binds" in str(caught.value.why)
    bench.surroundings = AROUND
    assert read(bench.run(ProbeRunner(), cut=begun)).complete


def context(folder: Path) -> BenchContext:
    execution = execution_of(folder, ProbeRunner())
    return BenchContext(execution=execution, templates=(), work=folder, surroundings=AROUND)


def test_an_instance_starts_in_them_too(tmp_path: Path) -> None:
    own = context(tmp_path)
    spec = shared_mount.starting(own, tmp_path / "x.sif")
    argv = own.execution.engine.start_argv(spec, "x")
    assert all(word in argv for word in WORDS)
    given = shared_mount.environment(own, tmp_path / "state")
    assert given["APPTAINER_CONTAINLIBS"] == "/usr/lib64/libcxi.so.1"


def test_a_site_s_variables_are_every_probe_s_but_for_its_threads(tmp_path: Path) -> None:
    given = declaration.common({"NCCL_SOCKET_IFNAME": "eth0", "A": "1"}, 2, context(tmp_path))
    assert (given["NCCL_SOCKET_IFNAME"], given["A"]) == ("hsn0", "1")
    assert given["OMP_NUM_THREADS"] == "2"


def work(gathering: RankLaunch | None = None) -> Workload:
    environment = dict(AROUND.inside)
    one = cell("torch", threads=1)
    return Workload(probe=IMPORT, cell=one, environment=environment, gathering=gathering)


def test_the_engine_s_own_variables_are_no_other_side_s(tmp_path: Path) -> None:
    python = "/opt/x/bin/python"
    side = ContainerArm(context=context(tmp_path), image=tmp_path / "x.sif", python=python)
    given = side.launch(work()).environment
    assert given["APPTAINER_CONTAINLIBS"] == "/usr/lib64/libcxi.so.1"
    native = Native(prefix=tmp_path, probe=tmp_path, home=tmp_path)
    assert "APPTAINER_CONTAINLIBS" not in native.launch(work()).environment
    assert native.launch(work()).environment["NCCL_SOCKET_IFNAME"] == "hsn0"


def test_ranks_on_other_nodes_get_the_engine_s_variables_too(tmp_path: Path) -> None:
    group = RankGroup(launcher=("mpirun",), ranks=2, per_node=2, environment={})
    gathering = RankLaunch(
        rank_group=group, folder=tmp_path, patience_s=1.0, meet=1, master=2, token="t"
    )
    python = "/opt/x/bin/python"
    side = ContainerArm(context=context(tmp_path), image=tmp_path / "x.sif", python=python)
    argv = side.launch(work(gathering)).argv
    (script,) = [word for word in argv if "dlc_own=" in word]
    assert script.startswith("export APPTAINER_CONTAINLIBS=/usr/lib64/libcxi.so.1; ")
    assert """export FI_CXI='it'"'"'s'; """ in script
    # The site's binds come first: one below /mnt can't hide the folder of the ranks' results.
    assert argv.index("/scratch:/data") < argv.index(f"{tmp_path.parent}:/mnt")


def test_an_image_is_looked_at_as_it_is_launched(tmp_path: Path) -> None:
    runner = ProbeRunner(stdout="")
    here = replace(context(tmp_path), execution=execution_of(tmp_path, runner))
    subject = Bench(tmp_path).subject()
    assert arms.container(here, subject, IMPORT).image == subject.image
    assert all(word in runner.others[0] for word in WORDS)


@pytest.mark.parametrize(
    ("parts", "refuses"),
    [
        ({"LD_PRELOAD": ["$CRAY/gtl.so"]}, False),
        ({"variables": ["LD_PRELOAD=/x.so"]}, False),
        ({"variables": ["NCCL_DEBUG=INFO"]}, True),
        (None, True),
    ],
)
def test_a_preload_that_the_site_declares_does_not_forbid_the_comparison(
    tmp_path: Path, parts: Json, refuses: bool
) -> None:
    inside = INSIDE["environment"]
    assert isinstance(inside, dict)
    preloaded: dict[str, Json] = {**INSIDE, "environment": {**inside, "LD_PRELOAD": "/x.so"}}
    plan = Plan(pairs=8, reference=FACTS, candidate=preloaded)
    series = read(benchseries.write(tmp_path / "a.jsonl", plan))
    declared = series.session.declared
    around = {SURROUNDINGS: parts} if parts else {}
    declared = replace(declared, workload={**declared.workload, **around})
    series = replace(series, session=replace(series.session, declared=declared))
    assert (analyse(series).verdict.word == "NOT COMPARABLE") == refuses
