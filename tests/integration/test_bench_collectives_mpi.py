"""Collective operations of real ranks by MPI in images: mpi4py over the image's MPI and over the
host's in its place, and PyTorch's own MPI.
"""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.probes.collectives import ABSENT, OPERATIONS
from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.rows import agreement
from dlcontainer.bench.samples.series import Series
from tests.integration.publish.test_host_mpi import HOST_MPI, VERIFY, VERSION, intel
from tests.integration.test_bench_ranks import raw
from tests.integration.world import Built, World
from tests.judging import analyse

__all__ = ["intel"]  # a fixture

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

# Ranks in user namespaces of their own: MPICH and its UCX must not copy from process to process.
RECIPE = """\
schema: 1
name: ranks
version: "1.0"
summary: mpi4py over MPICH, for tests
space_mb: 600
base: {distribution: debian, release: bookworm}
prefix: /opt/ranks
stack: {mpi: {family: mpich, name: MPICH 5.0.2}}
steps:
  - name: system
    os_packages: [python3, python3-venv]
  - name: wheels
    python_packages:
      packages: [mpich==5.0.2, mpi4py==4.1.2]
exposes: [python]
environment: {MPIR_CVAR_CH4_CMA_ENABLE: "0", UCX_POSIX_USE_PROC_LINK: n}
verify: {script: verify.py, imports: {mpi4py: 4.1.2}}
"""
SITE = f"""\
schema: 1
name: lab
summary: for tests
facts: host
default_recipe: ranks
{HOST_MPI}"""


def session(user: World, image: Path, output: Path, backend: str, *more: str | Path) -> Series:
    """Measure one pair of two ranks; every operation is checked by value before a time counts."""
    words = ("--ranks", "2", "--backend", backend, "--quick", "--pairs", "1", "--timeout", "200")
    user.run("bench", "collectives", "--image", image, *words, *more, "-o", output)
    series = reader.read(output)
    assert series.complete
    plan = series.session.declared.rows
    assert plan is not None
    known = [name for name in OPERATIONS if name not in ABSENT.get(backend, ())]
    assert sorted({str(row["operation"]) for row in plan.rows}) == sorted(known)
    # Long messages too: they go another way than short ones.
    assert max(int(row["bytes"]) for row in plan.rows) == 4 << 20
    for sample in series.samples:
        assert agreement.problem(plan, sample.rows) == ""
    return series


def libraries(series: Series) -> dict[str, set[str]]:
    """Name the MPI that the ranks of each side say they run."""
    found: dict[str, set[str]] = {}
    for sample in series.samples:
        for rank in raw(sample):
            text = json.dumps(rank["transport"])
            family = re.search(r"Intel\(R\) MPI|MPICH|Open MPI", text)
            found.setdefault(sample.arm, set()).add(family[0] if family else text)
    return found


def test_mpi4py_over_the_image_s_mpi_and_the_host_s_in_its_place(
    launching: World, intel: Path, tmp_path: Path
) -> None:
    recipe, site = tmp_path / "recipe", tmp_path / "lab.yaml"
    recipe.mkdir()
    (recipe / "recipe.yaml").write_text(RECIPE)
    (recipe / "verify.py").write_text(VERIFY)
    site.write_text(SITE)
    built: Built = launching.build(recipe, tmp_path / "image", "--site", site)
    # Its launcher starts ranks of either: what a loaded module of the host's MPI leaves.
    user = launching.having(PATH=f"{intel / 'bin'}:{launching.environ['PATH']}")
    more = ("--site", site, "--recipe", recipe, "--launcher", "mpirun")
    own = session(user, built.image, tmp_path / "own.jsonl", "mpi4py", *more)
    assert libraries(own) == {"native": {"MPICH"}, "container": {"MPICH"}}
    # Of a host with InfiniBand's libraries UCX loads them: that is for the verdict to say.
    assert "mpi" not in {item.name for item in analyse(own).differences}

    loaded = user.having(LAB_MPI_ROOT=intel, LAB_MPI_VERSION=VERSION)
    swapped = session(loaded, built.image, tmp_path / "host.jsonl", "mpi4py", *more)
    assert libraries(swapped) == {"native": {"MPICH"}, "container": {"Intel(R) MPI"}}
    # Other bits than the native side's: no claim about the container.
    judged = analyse(swapped)
    assert judged.verdict.word == "NOT COMPARABLE"
    assert "mpi" in {item.name for item in judged.differences}


def test_pytorch_s_own_mpi(launching: World, tmp_path: Path) -> None:
    patient = replace(launching, patience_s=1500)
    built = patient.build("pytorch", tmp_path / "image", "--variant", "debian")
    series = session(
        patient, built.image, tmp_path / "x.jsonl", "mpi", "--site", "local", "--arms",
        "unpacked,container",
    )  # fmt: skip
    for sample in series.samples:
        assert [rank["transport"] for rank in raw(sample)] == [{"backend": "mpi"}] * 2
    said = patient.run(
        "bench", "collectives", "--site", "local", "--image", built.image, "--ranks", "2",
        "--backend", "mpi", "--operations", "reduce_scatter", "-o", tmp_path / "y.jsonl", code=2,
    )  # fmt: skip
    assert "mpi has no operation 'reduce_scatter'" in said.stderr
