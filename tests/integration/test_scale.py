"""A matrix by a real mpirun on real mounts: every cell is measured, or says why not."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.scale import matrix_analysis, matrix_file
from dlcontainer.bench.scale.matrix_records import CellLaunch, MatrixSession
from dlcontainer.lab.slowfs import mounting
from tests.integration.test_bench import environment_with
from tests.integration.world import Built, World, missing

MATRIX = """\
schema: 1
module: json
rounds: 1
reference: {subject: native, open: files}
"""


@pytest.fixture
def user(world: World, wheels: Path) -> World:
    for name in ("mpirun", "squashfuse", "fusermount3"):
        if shutil.which(name) is None:
            missing(name)
    if not os.access(mounting.DEVICE, os.R_OK | os.W_OK):
        missing("/dev/fuse that you may open")
    own: dict[str, Any] = {"OMPI_MCA_rmaps_base_oversubscribe": "1"}
    if os.getuid() == 0:
        own |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return world.having(PIP_FIND_LINKS=wheels, **own)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "it's a $(folder)"
    found.mkdir()
    return found


def options(built: Built, tiny: Path, native: Path, matrix: Path) -> list[str | Path]:
    argv: list[str | Path] = ["bench", "import-matrix", matrix, "--site", "local", "--seed", "3"]
    return [*argv, "--image", built.image, "--recipe", tiny, "--native", native]


def by_name(scale: MatrixSession) -> dict[str, CellLaunch]:
    return {scale.cells[one.cell].name: one for one in scale.launches}


def row_of(scale: MatrixSession, one: CellLaunch) -> matrix_analysis.CellRow:
    return matrix_analysis.rows(scale)[one.cell]


def reached(one: CellLaunch) -> int:
    """Count the metadata operations that reached the stand-in."""
    return int(str((one.stand_in or {})["metadata"]))


def test_mounts_are_counted_and_cold_is_shown(
    user: World, tiny_image: Built, tiny: Path, folder: Path
) -> None:
    matrix, output = folder / "m.yaml", folder / "a 'quoted' file.jsonl"
    matrix.write_text(
        MATRIX + "stand_in: {latency_ms: 1}\nfactors:\n  open: [files, engine, squashfuse]\n"
        "  mount: [rank, node, kept]\n  state: [cold, warm]\n  ranks: [1, 3]\n"
    )
    native = environment_with(folder / "native")
    user.run(*options(tiny_image, tiny, native, matrix), "-o", output)
    scale = matrix_file.read(output)
    assert scale.end is not None
    assert scale.end.complete
    found = by_name(scale)
    for name, one in found.items():
        assert one.error is None, name
        ranks = scale.cells[one.cell].ranks
        assert [rank["rank"] for rank in one.ranks] == list(range(ranks))
        assert one.t_last_s == max(matrix_analysis.ready(one))
        assert {"launcher", "runtime", "import"} <= set(matrix_analysis.phases(row_of(scale, one)))
        assert one.stand_in is not None
    cold = found["native, shared, files, cold, storm, 3 ranks"]
    warm = found["native, shared, files, warm, storm, 3 ranks"]
    assert cold.before.is_proved
    assert not warm.before.is_proved
    assert reached(cold) > 20
    assert reached(warm) < reached(cold)
    per_rank = found["image, shared, engine, a mount per rank, cold, storm, 3 ranks"]
    per_node = found["image, shared, engine, a mount per node, cold, storm, 3 ranks"]
    assert per_node.mounted["image_mounts"] == 1
    assert per_rank.mounted["image_mounts"] == 3
    kept = found["image, shared, squashfuse, one mount kept, warm, storm, 3 ranks"]
    assert (kept.mounted["image_mounts"], kept.mounted["fuse_processes"]) == (1, 1)
    # What the launch that warmed it has read is not asked for again.
    assert reached(kept) <= reached(
        found["image, shared, squashfuse, a mount per node, warm, storm, 3 ranks"]
    )
    assert str(folder) not in Path("/proc/mounts").read_text()
    said = user.run("report", output, "-o", folder / "page.html").stdout
    assert "Import at scale" in said
    assert "Against the reference cell" in (folder / "page.html").read_text()
    # A whole matrix does not go on, and is not replaced.
    again = options(tiny_image, tiny, native, matrix)
    assert "the matrix is complete" in user.run(*again, "--resume", output, code=7).stderr
    assert "the file exists already" in user.run(*again, "-o", output, code=7).stderr


@pytest.mark.long
def test_a_cell_that_fails_is_recorded_and_the_others_go_on(
    user: World, tiny_image: Built, tiny: Path, folder: Path
) -> None:
    matrix, output = folder / "m.yaml", folder / "m.jsonl"
    environment_with(folder / "bad one", "import os; os._exit(3)")
    matrix.write_text(
        MATRIX.replace("rounds: 1", "rounds: 2") + "subjects: {bad: {prefix: bad one}}\n"
        "factors: {subject: [native, bad], open: [files], where: [tmpfs, local], state: [cold]}\n"
    )
    native = environment_with(folder / "native")
    argv = options(tiny_image, tiny, native, matrix)
    done = user.run(*argv, "-o", output, code=7)
    assert "1 of 2 cells failed; the others were measured" in done.stderr
    assert "exit code 3" in done.stderr
    assert "tmpfs is memory" in done.stderr
    scale = matrix_file.read(output)
    assert scale.end is not None
    assert not scale.end.complete
    rows = {row.cell.subject: row for row in matrix_analysis.rows(scale)}
    assert (len(rows["native"].launches), len(rows["bad"].launches)) == (2, 0)
    assert "exit code 3" in rows["bad"].failed
    # Given up after its first: once in two rounds.
    assert [one.error is None for one in scale.launches].count(False) == 1
    assert {one.why for one in scale.header.left_out} == {"tmpfs is memory: nothing in it is cold"}


def test_it_goes_on_where_it_was_cut(
    user: World, tiny_image: Built, tiny: Path, folder: Path
) -> None:
    matrix, output = folder / "m.yaml", folder / "m.jsonl"
    matrix.write_text(
        MATRIX.replace("rounds: 1", "rounds: 2")
        + "factors: {open: [files, engine], ranks: [1, 2]}\n"
    )
    native = environment_with(folder / "native")
    argv = options(tiny_image, tiny, native, matrix)
    user.run(*argv, "-o", output)
    before = matrix_file.read(output)
    lines = output.read_bytes().splitlines(keepends=True)
    output.write_bytes(b"".join(lines[:5]) + lines[5][:30])
    other = folder / "other.yaml"
    other.write_text(matrix.read_text().replace("[1, 2]", "[1, 3]"))
    refused = user.run(*options(tiny_image, tiny, native, other), "--resume", output, code=7)
    assert "the matrix or the machine differs" in refused.stderr
    user.run(*argv, "--resume", output)
    after = matrix_file.read(output)
    assert len(after.resumes) == 1
    assert after.resumes[0].dropped_bytes == 30
    order = [(one.cell, one.round) for one in before.launches]
    assert [(one.cell, one.round) for one in after.launches] == order
    assert after.launches[:4] == before.launches[:4]


@pytest.mark.parametrize(
    ("factors", "more", "code", "says"),
    [
        ("factors: {rank: [1]}", (), 3, "m.yaml:5:11: factors.rank: "),
        ("factors: {nodes: [2]}", (), 7, "no cell of the matrix can be measured here"),
        (
            "factors: {}",
            ("--launcher", "no-such-launcher"),
            2,
            "launcher no-such-launcher not found",
        ),
        ("subjects: {x: {prefix: gone}}\nfactors: {subject: [native, x]}", (), 2, "no bin/python"),
    ],
)
def test_bad_input(
    user: World, tiny_image: Built, tiny: Path, folder: Path, factors: str,
    more: tuple[str, ...], code: int, says: str,
) -> None:  # fmt: skip
    matrix, output = folder / "m.yaml", folder / "m.jsonl"
    matrix.write_text(f"{MATRIX}{factors}\n")
    native = environment_with(folder / "native")
    argv = options(tiny_image, tiny, native, matrix)
    assert says in user.run(*argv, "-o", output, *more, code=code).stderr
    assert not output.exists()
