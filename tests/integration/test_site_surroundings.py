"""A made-up site's binds and variables with the real engine: in `bench` and in `validate`."""

import json
from pathlib import Path
from typing import Any

from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.records import SURROUNDINGS
from dlcontainer.bench.scale import matrix_file
from tests.integration.test_bench import options
from tests.integration.test_scale import user
from tests.integration.world import Built, World
from tests.values import write_yaml

__all__ = ["user"]  # a fixture

# Nothing but the bind has it.
MODULE = '__version__ = "7"\n'


def site(folder: Path, **jobs: Any) -> Path:
    data = {"schema": 1, "name": "made-up", "summary": "For tests", "extends": "local"}
    return write_yaml(folder / "made-up.yaml", {**data, "jobs": jobs})


def test_a_bench_launch_has_the_site_s_bind_and_variables(
    world: World, tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    own = tmp_path / "a folder"
    own.mkdir()
    (own / "dlcofsite.py").write_text(MODULE)
    inside = {"PYTHONPATH": "/data", "NCCL_SOCKET_IFNAME": "hsn0"}
    binds = ["$OWN:/data:ro", "$OWN/no-such-folder"]
    made_up = site(tmp_path, binds=binds, inside=inside, flags=["--no-init"])
    output, page = tmp_path / "x.jsonl", tmp_path / "x.md"
    more = ("--arms", "unpacked,container", "--pairs", 1, "--controls", 0)
    argv = options(tiny_image, tiny, output, *more, "--module", "dlcofsite")
    argv[argv.index("local")] = str(made_up)
    said = world.having(OWN=own).run("bench", "import", *argv)
    assert "left out here: bind $OWN/no-such-folder" in said.stderr
    series = reader.read(output)
    assert all(sample.error is None for sample in series.samples)
    around = series.session.declared.workload[SURROUNDINGS]
    assert isinstance(around, dict)
    assert around["binds"] == binds
    for stack in series.stacks:
        environment = stack.facts["environment"]
        assert isinstance(environment, dict)
        assert environment["NCCL_SOCKET_IFNAME"] == "hsn0"
        assert environment["PYTHONPATH"] == "/data"
    world.run("report", output, "-o", page)
    assert "Around the image at" in page.read_text()


MATRIX = """\
schema: 1
module: dlcofsite
rounds: 1
reference: {subject: image, open: engine, mount: rank}
factors: {subject: [image], open: [engine, squashfuse], mount: [rank, node], state: [warm]}
"""


def test_a_matrix_has_them_as_a_bench_launch_does(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    """A module that only the bind has: in an image of each rank, of an instance, and unpacked."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own/dlcofsite.py").write_text(MODULE)
    made_up = site(tmp_path, binds=["$OWN:/data:ro"], inside={"PYTHONPATH": "/data"})
    matrix, output, page = tmp_path / "m.yaml", tmp_path / "x.jsonl", tmp_path / "x.md"
    matrix.write_text(MATRIX)
    here = user.having(OWN=tmp_path / "own")
    argv = ("--site", made_up, "--image", tiny_image.image, "--recipe", tiny, "-o", output)
    here.run("bench", "import-matrix", matrix, *argv)
    measured = matrix_file.read(output)
    assert [one.error for one in measured.launches] == [None] * 3
    subject = measured.header.declared.subjects["image"]
    assert subject[SURROUNDINGS] == {
        "binds": ["$OWN:/data:ro"],
        "variables": ["PYTHONPATH=/data"],
    }
    here.run("report", output, "-o", page)
    assert "Around the image at" in page.read_text()


def test_validate_runs_with_them_and_says_what_this_host_has_not(
    world: World, tiny_image: Built, tmp_path: Path
) -> None:
    def states(**jobs: Any) -> dict[str, str]:
        # The image is this machine's: another site's would fail.
        own = {"schema": 1, "name": "local", "summary": "For tests", "default_recipe": "tiny"}
        made_up = write_yaml(tmp_path / "local.yaml", {**own, "facts": "host", "jobs": jobs})
        done = world.run("validate", tiny_image.image, "--site", made_up, "--json")
        return {check["name"]: check["state"] for check in json.loads(done.stdout)["checks"]}

    # A bind below /mnt is no leftover of the build.
    bound = states(binds=[f"{tmp_path}:/mnt/data"], inside={"NCCL_DEBUG": "INFO"})
    assert bound["surroundings"] == "ok"
    assert set(bound.values()) <= {"ok", "not tried"}
    for jobs in ({"binds": ["/no/such/folder"]}, {"flags": ["--no-such-flag"]}):
        found = states(**jobs)
        assert (found["surroundings"], found["runs"]) == ("not tried", "ok")
