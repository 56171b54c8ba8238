"""A matrix over nodes of an allocation, by the real srun."""

from pathlib import Path

from dlcontainer.bench.scale import matrix_file
from tests.integration.slurm.cluster import Cluster
from tests.integration.test_bench import environment_with
from tests.integration.world import Built, World
from tests.processes import poll

MATRIX = """\
schema: 1
module: json
rounds: 1
reference: {subject: native, open: files}
factors: {open: [files, engine, squashfuse], state: [warm], ranks: [1, 2], nodes: [1, 2]}
"""


def test_cells_of_one_node_and_of_two(
    user: World, cluster: Cluster, site: Path, tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    matrix, output = tmp_path / "m.yaml", tmp_path / "m.jsonl"
    matrix.write_text(MATRIX)
    native = environment_with(tmp_path / "native")
    argv: list[str | Path] = ["--image", tiny_image.image, "--recipe", tiny, "--native", native]
    argv += ["-o", output]
    inside = cluster.allocated(user, "--nodes=2", "--ntasks=4")
    inside.run("bench", "import-matrix", matrix, "--site", site, "--seed", "3", *argv)
    scale = matrix_file.read(output)
    assert scale.end is not None
    assert scale.end.complete
    for one in scale.launches:
        cell = scale.cells[one.cell]
        wanted = [
            (node * cell.ranks + rank, f"n{node + 1}")
            for node in range(cell.nodes)
            for rank in range(cell.ranks)
        ]
        assert [(rank["rank"], rank["node"]) for rank in one.ranks] == wanted, cell.name
    measured = {(scale.cells[one.cell].open, scale.cells[one.cell].nodes) for one in scale.launches}
    assert {("files", 1), ("files", 2), ("engine", 1), ("engine", 2)} <= measured
    assert poll(lambda: cluster.steps() == [], 60)
