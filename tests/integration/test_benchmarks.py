"""Every script of benchmarks/ is started, at its smallest size: what is run once a year rots."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from benchmarks.storm_sshfs import SFTP_SERVERS
from dlcontainer.config.field_types import ARCHES
from dlcontainer.engines import emulation
from dlcontainer.engines.apptainer import RUN_MODES, Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.lab.slowfs.mounting import DEVICE
from dlcontainer.system.machine import find_program
from tests import residents
from tests.integration import standin
from tests.integration.test_bench import environment_with, twin_packages
from tests.integration.test_bench_slownet import kinds
from tests.integration.test_emulation import (
    SITE,
    VERIFY,
    small,
    sources,
    whole_release,
    write_recipe,
)
from tests.integration.world import Built, World, missing
from tests.values import ROOT, write_yaml

BENCHMARKS = ROOT / "benchmarks"
# What each prints with --json, or with the option that is given.
SMALL: dict[str, tuple[str, ...]] = {
    "analysis": ("-n", "2000", "--json"),
    "calibration": ("-n", "1", "--pairs", "2", "--json"),
    "step_hook": ("--pairs", "2", "--steps", "20", "--json"),
    "process_watch": ("--pairs", "2", "--seconds", "0.2", "--json"),
    "probe_overhead": ("--idle", "0.1", "--pairs", "8", "--raw"),
    "statistics": ("-n", "20", "--json"),
    "trace_reading": ("--spans", "20000", "--json"),
    "how_many": ("-n", "1", "--json"),
    "storm_calls": ("--packages", "packaging", "--modules", "packaging.version",
                    "--ranks", "1", "--json"),
    "tmpdir": ("-n", "2", "--files", "50", "--json"),
}  # fmt: skip
# The points of a storm: one, held out from those that calibrate.
STORM = ("--module", "yaml", "--points", "1", "-n", "1", "--json")
IN_THE_IMAGE = ("--module", "dlctiny", "--python", "/opt/tiny/bin/python", "-n", "1", "--json")
# On the tiny image.
ON_AN_IMAGE: dict[str, tuple[str, ...]] = {
    "level": ("--levels", "1", "-n", "1", "--json"),
    "order": ("--read-ms", "1", *IN_THE_IMAGE),
    "squash": ("--settings", "gzip", *IN_THE_IMAGE),
    "static_validation": ("-n", "1", "--json"),
}
MOUNTING = ("squashfuse", "fusermount3")
NEEDS: dict[str, tuple[str, ...]] = {
    "build": ("debootstrap",),
    "order": ("strace", "fusermount3"),
    "squash": ("squashfuse_ll", "fusermount3"),
    "storm": MOUNTING,
    "storm_calls": MOUNTING,
    "storm_sshfs": ("sshfs", "fusermount3"),
}
# What the engine writes into an image by itself: the date of the build, and folders' names.
ENGINES_OWN = {".singularity.d/Singularity", ".singularity.d/labels.json"}
# These take minutes; beside their long test they are started with --help.
LONG = {
    *("before_after", "beside_launches", "build", "emulation", "pack", "resident", "squash"),
    *(
        "held_out_steps",
        "traced_forecast",
        "planted_limits",
        "slownet_beta",
        "storm",
        "storm_sshfs",
    ),
}
# These have a test of their own.
APART = {
    *(*LONG, "group_rules", "hybrid_gate", "import_figures", "page_faults", "slow_tree", "startup"),
    *("bill", "node_to_nodes", "osv_agreement", "published_points", "small_batches"),
    *("strategy_choice", "verdict_table"),
    # A torch of their own: test_memory_forecast.py runs the last; a GPU the second.
    *("memory_forecast", "memory_on_gpu", "memory_truth"),
    "trace_cost",
    # An MPI with a compiler: test_bench_trace_mpi.py runs it.
    "mpi_call",
    # The ranks of held_out_steps.
    "emulated_steps",
}


def require(*programs: str) -> None:
    for program in programs:
        if find_program(program, os.environ) is None:
            missing(program)
    if "fusermount3" in programs and not os.access(DEVICE, os.R_OK | os.W_OK):
        missing(f"{DEVICE} that you may open")


def run(name: str, *argv: object, world: World | None = None) -> str:
    given = world.environ if world else os.environ
    environ = {**given, "PATH": f"{Path(sys.executable).parent}:{given['PATH']}"}
    words = [sys.executable, str(BENCHMARKS / f"{name}.py"), *map(str, argv)]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize("name", SMALL)
def test_it_runs_at_its_smallest(name: str) -> None:
    require(*NEEDS.get(name, ()))
    assert json.loads(run(name, *SMALL[name]))


@pytest.mark.long
def test_pack(world: World, tiny_image: Built) -> None:
    require("squashfuse_ll", "fusermount3")
    sides = ("--native", f"tree={sys.prefix}", "--image", f"tiny={tiny_image.image}")
    python = ("--python", "/opt/tiny/bin/python", "--module", "json", "--ranks", 1, "-n", 1)
    more = ("--measure", "requests", "fresh", "cold", "--json")
    body = json.loads(run("pack", *sides, *python, *more, world=world))
    assert body["requests"]["tiny"]["OPEN"] > 0
    assert body["cold"]["tiny"]["calls"] > 10
    assert body["cold"]["tiny"]["MB"] > 1
    assert set(body["samples"]["1"]) == {"seconds", "processor seconds"}
    assert [len(one) for one in body["samples"]["1"]["processor seconds"].values()] == [1] * 3


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_planted_limits(world: World, pytorch_image: Built, tmp_path: Path) -> None:
    argv = (pytorch_image.image, "-o", tmp_path / "studies", "--pairs", 1, "--only", "one-thread")
    table = run("planted_limits", *argv, world=world)
    # One pair is sure of nothing: what it names is the machine's.
    assert [line.split("|")[1:3] for line in table.splitlines()[-1:]] == [
        [" one-thread ", " kernel "]
    ]


def test_what_bills_and_records_tell(tiny_image: Built) -> None:
    told = json.loads(run("bill", tiny_image.image.with_suffix(".cdx.json")))
    assert told["components"] >= told["hashes"] > 0
    assert "records read: 20, not read: 0" in run("osv_agreement", ROOT / "tests/recorded/osv")


def test_a_slow_tree(tmp_path: Path) -> None:
    require("fusermount3")
    tree = tmp_path / "a tree"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tree)], check=True)
    (site,) = tree.glob("lib/python3*/site-packages")
    for number in range(200):
        (site / f"dlc_{number}.py").write_text("")
    (site / "dlc_all.py").write_text("".join(f"import dlc_{n}\n" for n in range(200)))
    # Byte code is what a pack holds.
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(site)], check=True)
    more = ("--module", "dlc_all", "--delay-ms", "0", "-n", "1", "--json")
    body = json.loads(run("slow_tree", tree, *more))
    assert body["calls"]["packed"] < body["calls"]["plain"]


@pytest.mark.parametrize("name", sorted(LONG))
def test_it_starts(name: str) -> None:
    assert "usage:" in run(name, "--help")


@pytest.mark.parametrize(
    "name", [pytest.param("squash", marks=pytest.mark.long), *sorted({*ON_AN_IMAGE} - LONG)]
)
def test_it_runs_on_the_tiny_image(name: str, world: World, tiny_image: Built) -> None:
    require(*NEEDS.get(name, ()))
    body = json.loads(run(name, tiny_image.image, *ON_AN_IMAGE[name], world=world))
    assert body["rounds"] == 1


@pytest.mark.long
@pytest.mark.timeout(2400)
@pytest.mark.parametrize(
    ("name", "words"),
    [("resident", ("--cells", "nothing-5", "--sessions", 1)), ("beside_launches", ("--rounds", 1))],
    ids=["resident", "beside_launches"],
)
def test_sessions_of_groups(
    name: str, words: tuple[object, ...], world: World, tmp_path: Path
) -> None:
    recipe, wheels = standin.write(tmp_path / "standin", standin.ASLEEP)
    user = world.having(PIP_FIND_LINKS=f"{world.environ.get('PIP_FIND_LINKS', '')} {wheels}")
    image = user.build(recipe, tmp_path / "image").image
    place = ("--image", image, "--recipe", recipe, "--out", tmp_path / "sessions")
    text = run(name, *place, *words, world=user)
    assert run(name, "--report", "--out", tmp_path / "sessions") in text


# Makes a session ready whose steps are longer, and looks whether they are; measures nothing.
PLANTED = """
import sys
from pathlib import Path
root, image, folder = sys.argv[1:]
sys.path[:0] = [root]
from benchmarks import one_image
from benchmarks.one_image import File, Place
place = Place(
    image=Path(image), site="local", recipe=None, folder=Path(folder), threads=1, group=2
)
options = place.options(seed=1, margin=0.05, file=File(path=Path(folder, "x.jsonl")))
with one_image.ready(options, slower=0.03) as it:
    print(*it.sides.candidate.context.surroundings.binds)
"""


@pytest.mark.long
@pytest.mark.timeout(900)
def test_planted_steps_are_used_though_the_image_has_a_module_pack(
    world: World, pytorch_image: Built, tmp_path: Path
) -> None:
    environ = {**world.environ, "PATH": f"{Path(sys.executable).parent}:{world.environ['PATH']}"}
    words = [sys.executable, "-c", PLANTED, str(ROOT), str(pytorch_image.image), str(tmp_path)]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    # `planted` refuses a plant that no process would run.
    assert done.returncode == 0, done.stderr
    assert "/own.pyc:/opt/pytorch/lib/" in done.stdout


def test_verdict_table() -> None:
    words = ("-n", "4", "--untouched", "4", "--only", "groups, nothing")
    text = run("verdict_table", *words)
    assert len([line for line in text.splitlines() if "nothing" in line]) == 1


def test_group_rules() -> None:
    text = run("group_rules", "-n", "2")
    assert len([line for line in text.splitlines() if "arms' own AR(1)" in line]) == 12


def test_strategy_choice(tmp_path: Path) -> None:
    """Two invented models; steps in milliseconds, the columns of vTrain's table."""
    rows = tmp_path / "rows.csv"
    rows.write_text(
        "P,N,B,b,h,a,l,s,t,d,p,T\n"
        "1,8,64,2,1024,16,8,1024,2,4,1,100\n"
        "1,8,64,2,1024,16,8,1024,1,4,2,90\n"
        "2,16,64,2,1024,16,8,1024,2,8,1,70\n"
        "2,16,64,2,1024,16,8,1024,1,16,1,40\n"
    )
    picks = json.loads(run("strategy_choice", rows, "--json"))["picks"]
    assert [(pick["model"], pick["strategies"]) for pick in picks] == [("1", 2), ("2", 2)]
    # tp2 sends twelve all-reduces a layer for nothing here, and dp16 has no bubble.
    assert picks[1]["pick"] == picks[1]["best"] == "dp16 micro-batch 2"
    assert picks[1]["regret"] == 0 < picks[1]["median_regret"]


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_held_out_steps(world: World, pytorch_image: Built, tmp_path: Path) -> None:
    if "tbf" not in kinds():
        missing("what --by tbf takes: iproute2 and util-linux, as root")
    packages = twin_packages(world, pytorch_image, tmp_path)
    python = packages.parents[2] / "bin/python3"
    words = ("--python", python, "--tiny", "--rate", "40Mbit", "--repetitions", 3, "--json")
    body = json.loads(run("held_out_steps", *words, world=world))
    assert [row["name"] for row in body["rows"]] == ["dp3", "tp3", "pp3"]
    # A rank sleeps for 50 ms of each step, and messages come on top.
    assert all(row["median_s"] >= row["least_s"] > 0.05 for row in body["rows"])
    assert all(row["low_s"] <= row["high_s"] for row in body["rows"])


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_traced_forecast(world: World, pytorch_image: Built, tmp_path: Path) -> None:
    if "tbf" not in kinds():
        missing("what --by tbf takes: iproute2 and util-linux, as root")
    packages = twin_packages(world, pytorch_image, tmp_path)
    python = packages.parents[2] / "bin/python3"
    words = ("--python", python, "--tiny", "--steps", 3, "--repetitions", 3, "--json")
    body = json.loads(run("traced_forecast", *words, world=world))
    # 8 layers of 32 KiB, in buckets of 50 kB.
    (row,) = body["measured"]
    sent = {each["bytes"]: each["calls"] / 6 for each in row["trace"]["collectives"]}
    assert sum(size * calls for size, calls in sent.items()) == 1 << 18
    assert {each["way"] for each in body["rows"]} == {"without", "bytes", "trace"}
    assert all(each["forecast"]["low"] <= each["forecast"]["high"] for each in body["rows"])


@pytest.mark.long
def test_trace_cost(world: World, pytorch_image: Built, tmp_path: Path) -> None:
    python = twin_packages(world, pytorch_image, tmp_path).parents[2] / "bin/python3"
    words = (python, "--steps", 40, "--rounds", 1, "--json")
    body = json.loads(run("trace_cost", *words, world=world))
    one_each = {"sizes": 1, "names": 1, "none": 1}
    assert {kind: len(costs) for kind, costs in body["cost_us"].items()} == one_each
    assert {kind: len(ratios) for kind, ratios in body["step"].items()} == one_each
    # Cuts of 12 and of 30 steps for each block.
    assert set(body["held"]) == {"12", "30"}
    assert all(isinstance(hold, bool) for holds in body["held"].values() for hold in holds)


def test_page_faults(tmp_path: Path) -> None:
    text = run("page_faults", residents.write(tmp_path / "session.jsonl", residents.Truth()))
    assert "| turns of a process | 256 |" in text
    assert "| session.jsonl |" in text


def test_published_points() -> None:
    lines = run("published_points", "--draws", "20").splitlines()
    assert len([line for line in lines if " KNL" in line and line.startswith("| ")]) == 18
    assert any("by one input alone: link_share" in line for line in lines)


def test_node_to_nodes(tmp_path: Path) -> None:
    rates = "| DDP | PyTorch 9 | mahti |{0}| 2024-01-0{1} | {2} |".format
    rows = [rates(n, day, 95 * n) for day in (1, 2) for n in (1, 4, 8)]
    table = tmp_path / "results.md"
    table.write_text("\n".join(rows))
    assert "image: 2 sets" in run("node_to_nodes", table)


def test_small_batches_start() -> None:
    assert "usage:" in run("small_batches", "--help")


@pytest.mark.long  # an image with PyTorch
def test_small_batches(
    world: World, pytorch_image: Built, engine: Apptainer, tried: EngineCapabilities
) -> None:
    mode = RUN_MODES[str(tried.run_mode)]
    words = [engine.program, "exec", *mode, "--bind", ROOT, pytorch_image.image]
    script = (BENCHMARKS / "small_batches.py", "--networks", "convnet")
    more = ("/opt/pytorch/bin/python", *script, "--batches", "4,2,1", "--rounds", "1")
    argv = list(map(str, (*words, *more)))
    done = subprocess.run(argv, env=world.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "fixed, of a step at batch 4:" in done.stdout


def test_import_figures(launching: World, tiny_image: Built, tiny: Path, tmp_path: Path) -> None:
    """The matrix that stands beside the script, of one round, one rank and a small module."""
    require("squashfuse_ll", "fusermount3")
    matrix = yaml.safe_load((BENCHMARKS / "import-calls.yaml").read_text())
    matrix |= {"rounds": 1, "module": "json", "factors": {**matrix["factors"], "ranks": [1]}}
    written, output = write_yaml(tmp_path / "m.yaml", matrix), tmp_path / "m.jsonl"
    native = environment_with(tmp_path / "native")
    argv = ("bench", "import-matrix", written, "--site", "local", "--image", tiny_image.image)
    launching.run(*argv, "--recipe", tiny, "--native", native, "-o", output)
    rows = json.loads(run("import_figures", output, "--json"))["rows"]
    ways = {row["way"] for row in rows}
    assert ways == {
        *("native, files, none", "native, squashfuse_ll, node"),
        *("image, engine, node", "image, engine, rank"),
    }
    # An image asks for fewer names than a tree has files.
    assert all(row["metadata_to_tree"] <= 1 for row in rows)


@pytest.mark.long
@pytest.mark.parametrize("name", ["storm", "storm_sshfs"])
def test_a_storm(name: str) -> None:
    require(*NEEDS[name])
    if name == "storm_sshfs" and not any(Path(path).exists() for path in SFTP_SERVERS):
        missing("sftp-server (openssh-sftp-server)")
    (point,) = json.loads(run(name, *STORM))["points"]
    assert point["measured"][0] > 0


@pytest.mark.long
def test_build(world: World, tiny: Path, wheels: Path, tmp_path: Path) -> None:
    require(*NEEDS["build"])
    user = world.having(PIP_FIND_LINKS=f"{world.environ.get('PIP_FIND_LINKS', '')} {wheels}")
    body = json.loads(run("build", tiny, "-n", "1", "--folder", tmp_path, "--json", world=user))
    assert body["sizes_mb"]["ours"] < body["sizes_mb"]["default"]


@pytest.mark.long
def test_before_and_after(world: World, tiny: Path, wheels: Path, tmp_path: Path) -> None:
    """This checkout against itself."""
    user = world.having(PIP_FIND_LINKS=f"{world.environ.get('PIP_FIND_LINKS', '')} {wheels}")
    argv = (ROOT, ROOT, tiny, "-n", "1", "--folder", tmp_path, "--json")
    body = json.loads(run("before_after", *argv, world=user))
    assert len(body["samples_s"]) == 4
    # The same program: what it costs differs by the machine's moods alone.
    assert all(0.5 < row["value"]["median"] < 2 for row in body["rows"])
    assert list(tmp_path.iterdir()) == []


def test_two_checkouts_are_needed(tmp_path: Path) -> None:
    argv = [sys.executable, str(BENCHMARKS / "before_after.py"), str(ROOT), str(tmp_path), "."]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"{tmp_path}: no checkout of dlcontainer" in done.stderr


@pytest.mark.long
def test_emulated(world: World, tmp_path: Path) -> None:
    arch = next(arch for arch in ARCHES if arch != os.uname().machine)
    if emulation.obstacle(arch):
        missing(f"emulation of {arch} (`make setup-tests` as root)")
    recipe, site = write_recipe(tmp_path / "small", small(arch), VERIFY), tmp_path / f"{arch}.yaml"
    listed = sources(whole_release(arch)) or "auto"
    site.write_text(SITE.format(arch=arch, sources=json.dumps(listed)))
    argv = (recipe, site, "--tmpdir", tmp_path, "--json")
    assert {*json.loads(run("emulation", *argv, world=world))["differing"]} <= ENGINES_OWN


def test_no_script_is_forgotten() -> None:
    scripts = {
        path.stem
        for path in BENCHMARKS.glob("*.py")
        if 'if __name__ == "__main__"' in path.read_text()
    }
    assert scripts == {*SMALL, *ON_AN_IMAGE, *APART}
