"""The exported test and settings, in the real ReFrame."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_bench import user
from tests.integration.world import Built, World, missing
from tests.judging import by_chance
from tests.values import GOLDEN, ROOT

__all__ = ["user"]  # a fixture


@pytest.fixture(scope="session")
def reframe() -> str:
    found = shutil.which("reframe")
    if found is None:
        missing("ReFrame")
    return found


@pytest.fixture
def runner(reframe: str, user: World, tmp_path: Path) -> "Running":
    # The job's shell finds `dlcontainer` as a user's would.
    folder = str(Path(user.program[0]).parent)
    environ = {**user.environ, "PATH": f"{folder}:{user.environ['PATH']}"}
    return Running(reframe, environ, tmp_path)


class Running:
    def __init__(self, program: str, environ: Mapping[str, str], folder: Path) -> None:
        self.program, self.environ, self.folder = program, environ, folder

    def __call__(self, *words: str | Path, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, self.program, "--prefix", str(self.folder / "rfm"), *map(str, words)],
            env=dict(self.environ),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout


def renamed(built: Built, name: str) -> Path:
    """Give a built image another name, its record with it."""
    image = built.image.with_name(f"{name}.sif")
    built.image.rename(image)
    built.record.rename(built.record.with_name(built.record.name.replace(built.image.stem, name)))
    return image


def without_modules(settings: Path) -> None:
    """Take the module system away, which ReFrame wants to find."""
    settings.write_text(re.sub('"(lmod|tmod4)"', '"nomod"', settings.read_text()))


def performance(report: Path) -> dict[str, tuple[float, Any, Any, Any, str]]:
    """Give the figures of a run's one test: name -> value, reference, bounds, unit."""
    (run,) = json.loads(report.read_text())["runs"]
    (case,) = run["testcases"]
    return {key.split(":")[-1]: tuple(value[:5]) for key, value in case["perfvalues"].items()}


def test_reframe_runs_the_bench_and_reads_its_figures(
    user: World, runner: Running, as_built: Built, tiny: Path, tmp_path: Path
) -> None:
    image = renamed(as_built, 'it\'s "$(touch owned)" `id` {{ x }}')
    test, settings, report = tmp_path / "test.py", tmp_path / "settings.py", tmp_path / "r.json"
    user.run(
        "export", "reframe", "--site", "local", "--image", image, "-o", test,
        "--settings", settings, "--reference", "import.ratio=1,-0.99,1000",
        "--", "--recipe", tiny, "--pairs", "2", "--controls", "1", "--seed", "3",
    )  # fmt: skip
    # On a busy machine so few launches may fail the calibration: a verdict of its own, see below.
    words = ("--system=local", "-S", "fail_on=FASTER", "--report-file", report, "-r")
    runner("-C", settings, "-c", test, *words)
    found = performance(report)
    assert set(found) == {
        "verdict", "ratio", "ratio_low", "native", "container", "pairs",
        "import_cpu_s", "max_rss_mb",
    } | ({"ratio_high"} & set(found))  # fmt: skip
    assert found["pairs"][0] == 2
    assert found["ratio"][1:] == (1.0, -0.99, 1000.0, "1")
    assert found["ratio_low"][0] <= found["ratio"][0]
    assert 0 < found["native"][0] < 60
    assert 0 < found["container"][0] < 60
    assert not list(tmp_path.rglob("owned"))
    (kept,) = tmp_path.glob("rfm/output/**/report.json")
    said = json.loads(kept.read_text())["sessions"][0]
    # Two pairs decide nothing.
    assert (found["verdict"][0], said["verdict"]) in {(2, "INCONCLUSIVE"), (3, "NOT COMPARABLE")}
    if said["verdict"] == "NOT COMPARABLE":
        assert by_chance(said["reasons"])
    assert found["ratio"][0] == pytest.approx(said["intervals"]["difference"]["ratio"])
    for name in ("session.jsonl", "report.html"):
        assert kept.with_name(name).stat().st_size > 0


@pytest.mark.long  # three ReFrame runs; the others run it once each
def test_a_reference_that_is_not_met_and_a_verdict_fail_the_test(
    user: World, runner: Running, tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    test, settings = tmp_path / "test.py", tmp_path / "settings.py"
    user.run(
        "export", "reframe", "--site", "local", "--image", tiny_image.image, "-o", test,
        "--settings", settings, "--reference", "import.native=0.0001,,0.1",
        "--", "--recipe", tiny, "--pairs", "1", "--controls", "0",
    )  # fmt: skip
    base = ("-C", settings, "-c", test, "--system=local", "-r")
    said = runner(*base, "-S", "fail_on=FASTER", code=1)
    assert "failed to meet reference" in said
    said = runner(*base, "-S", "fail_on=INCONCLUSIVE,NOT COMPARABLE", code=1)
    assert "SanityError" in said or "sanity" in said
    # With the reason, which is in no other line of ReFrame's.
    assert "INCONCLUSIVE: " in said or "NOT COMPARABLE: " in said


def test_ranks_and_rows_are_figures(
    launching: World, runner: Running, tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    test, settings, report = tmp_path / "test.py", tmp_path / "settings.py", tmp_path / "r.json"
    launching.run(
        "export", "reframe", "--site", "local", "--image", tiny_image.image, "-o", test,
        "--settings", settings, "--probe", "variability",
        "--reference", "variability.tail_ratio=2,-0.99,1000",
        "--", "--recipe", tiny, "--ranks", "2", "--threads", "1", "--kernel", "hash",
        "--timed", "100", "--quick", "--pairs", "2",
    )  # fmt: skip
    base = ("-C", settings, "-c", test, "--system=local", "-S", "fail_on=FASTER")
    # What lets the launcher start ranks here is in a user's own environment.
    own = {name: value for name, value in launching.environ.items() if name.startswith("OMPI_")}
    runner = Running(runner.program, {**runner.environ, **own}, tmp_path)
    runner(*base, "--report-file", report, "-r")
    found = performance(report)
    (kept,) = tmp_path.glob("rfm/output/**/report.json")
    (said,) = json.loads(kept.read_text())["sessions"]
    assert said["declared"]["workload"]["ranks"] == 2
    (row,) = said["rows"]
    median = row["arms"]["container"]["median_s"]
    assert found["hash_cpu_1_median"][0] == pytest.approx(median)
    assert found["hash_cpu_1_median"][-1] == "s"
    means = {one["metric"]: one["means"] for one in said["secondary"]}
    assert found["tail_ratio"][0] == pytest.approx(means["counts.tail_ratio"][1])
    assert found["tail_ratio"][1:] == (2.0, -0.99, 1000.0, "p99 / median")
    assert found["max_rss_mb"][0] == pytest.approx(means["counts.max_rss_mb"][1])
    assert "steps_per_s" not in found
    # A row's own value that no row has: named, and the test fails.
    text = test.read_text()
    test.write_text(text.replace('"tail_ratio": (2.0', '"hash_cpu_9_median": (2.0'))
    said_wrong = runner(*base, "-r", code=1)
    assert "this session has no figure hash_cpu_9_median" in said_wrong


def test_a_bench_that_fails_is_said(user: World, runner: Running, tmp_path: Path) -> None:
    test, settings = tmp_path / "test.py", tmp_path / "settings.py"
    user.run(
        "export", "reframe", "--site", "local", "--image", tmp_path / "no.sif", "-o", test,
        "--settings", settings,
    )  # fmt: skip
    said = runner("-C", settings, "-c", test, "--system=local", "-r", code=1)
    assert "no report" in said


# ReFrame's own reading and checking of settings, without its start for each file.
VALIDATE = """
import sys
from reframe.core import config
for path in sys.argv[1:]:
    read = config.load_config(path)
    read.validate()
    print(path)
"""


def test_settings_of_every_site_are_valid(user: World, tmp_path: Path) -> None:
    program = "from dlcontainer.cli.main import app; import sys\n" + "\n".join(
        f"app({words!r}, standalone_mode=False)" for words in exports(tmp_path)
    )
    argv = [sys.executable, "-c", program]
    done = subprocess.run(argv, env=dict(user.environ), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    files = sorted(tmp_path.glob("*_settings.py"))
    # One process knows one launcher of a name.
    own = [path for path in files if "register_launcher" in path.read_text()]
    assert {path.name for path in own} >= {"summit_settings.py", "lassen_settings.py"}
    for group in ([path for path in files if path not in own], *([path] for path in own)):
        argv = [sys.executable, "-c", VALIDATE, *map(str, group)]
        done = subprocess.run(
            argv, env=dict(user.environ), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.split() == [str(path) for path in group]


def exports(folder: Path) -> list[list[str]]:
    """Give the command lines that write settings of every shipped site but Cobalt's."""
    found = []
    for path in sorted((ROOT / "site-configs").glob("*.yaml")):
        name = path.stem
        if "kind: cobalt" in path.read_text():
            continue
        out = [str(folder / f"{name}.py"), "--settings", str(folder / f"{name}_settings.py")]
        found.append(["export", "reframe", "--site", name, "--image", "/x.sif", "-o", *out])
    return found


@pytest.mark.parametrize("site", ["summit", "perlmutter:cpu", "polaris"])
def test_reframe_finds_the_test(site: str, user: World, runner: Running, tmp_path: Path) -> None:
    test, settings = tmp_path / "test.py", tmp_path / "settings.py"
    done = user.run(
        "export", "reframe", "--site", site, "--image", "/images/x.sif", "-o", test,
        "--settings", settings,
    )  # fmt: skip
    without_modules(settings)
    system = re.findall(r"--system=(\S+)", done.stdout)[0]
    said = runner("-C", settings, "-c", test, f"--system={system}", "-l")
    assert "Found 1 check(s)" in said, said


def test_a_job_of_slurm(user: World, runner: Running, tmp_path: Path) -> None:
    test, settings = tmp_path / "test.py", tmp_path / "settings.py"
    user.run(
        "export", "reframe", "--site", "example-slurm", "--image", "/images/it's x.sif", "-o", test,
        "--settings", settings,
    )  # fmt: skip
    without_modules(settings)  # nor is there Slurm, which a dry run does not ask
    runner("-C", settings, "-c", test, "--system=example-slurm", "--dry-run")
    (script,) = tmp_path.glob("rfm/stage/**/rfm_job.sh")
    text = script.read_text()
    for line in ("#SBATCH --partition=batch", "#SBATCH --exclusive", "#SBATCH --ntasks=1"):
        assert line in text.splitlines()
    (command,) = [line for line in text.splitlines() if line.startswith("dlcontainer bench")]
    assert "--image '/images/it'\"'\"'s x.sif'" in command
    assert os.linesep + "dlcontainer report session.jsonl" in text


def test_a_job_of_slurm_has_the_ranks(user: World, runner: Running, tmp_path: Path) -> None:
    test, settings = tmp_path / "test.py", tmp_path / "settings.py"
    user.run(
        "export", "reframe", "--site", "example-slurm", "--image", "/images/x.sif", "-o", test,
        "--settings", settings, "--probe", "collectives",
        "--", "--ranks", "6", "--ranks-per-node", "4", "--nodes", "2",
    )  # fmt: skip
    without_modules(settings)
    runner("-C", settings, "-c", test, "--system=example-slurm", "--dry-run")
    (script,) = tmp_path.glob("rfm/stage/**/rfm_job.sh")
    lines = script.read_text().splitlines()
    for line in ("#SBATCH --ntasks=6", "#SBATCH --ntasks-per-node=4", "#SBATCH --exclusive"):
        assert line in lines
    # The session is started once, and starts the ranks itself.
    (command,) = [line for line in lines if line.startswith("dlcontainer bench collectives")]
    assert "--ranks 6 --ranks-per-node 4 --nodes 2" in command
    assert not [line for line in lines if line.startswith("srun")]


def test_the_texts_are_clean() -> None:
    ruff = shutil.which("ruff")
    if ruff is None:
        missing("ruff")
    checks = ("check", "--isolated", "--select", "A,B,E,F,I,N,RET,SIM,W", "--ignore", "E501")
    files = sorted(GOLDEN.glob("reframe-*.txt"))
    assert files
    for path in files:
        for words in (checks, ("format", "--isolated", "--line-length=100", "--diff")):
            argv = [ruff, *words, "--stdin-filename", "x.py", "-"]
            done = subprocess.run(
                argv, input=path.read_text(), capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{path}\n{done.stdout}{done.stderr}"
