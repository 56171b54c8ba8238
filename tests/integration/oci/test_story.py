"""`dlcontainer build --engine docker|podman`: the same story, whatever its steps run in."""

import json
from pathlib import Path

from tests.integration.oci.conftest import Builder, one_engine
from tests.integration.world import World


def as_user(plain: Builder, wheels: Path) -> World:
    found = f"{plain.world.environ.get('PIP_FIND_LINKS', '')} {wheels}".strip()
    return plain.world.having(PIP_FIND_LINKS=found)


@one_engine("docker")
def test_explain_looks_into_the_engines_store(
    plain: Builder, tiny: Path, wheels: Path, tmp_path: Path
) -> None:
    world = as_user(plain, wheels)
    argv = ("build", tiny, "--site", "local", "--engine", plain.service.kind)
    world.run(*argv, "-o", tmp_path, "--until", "system")
    body = json.loads(world.run(*argv, "--explain", "--json").stdout)
    assert {step["step"]: step["cached"] for step in body["steps"]}["system"] is True
    assert list(tmp_path.glob("*.sif")) == []


def test_what_apptainer_can_not_make_is_refused(world: World, tiny: Path, tmp_path: Path) -> None:
    argv = ("build", tiny, "--site", "local", "-o", tmp_path)
    for outcome in ("image", "docker-archive"):
        said = world.run(*argv, "--to", outcome, code=2).stderr
        assert f"--to {outcome}: Apptainer makes only SIFs" in said
        assert "use --engine docker or --engine podman" in said
    assert "'oci'" in world.run(*argv, "--to", "oci", code=2).stderr
    assert list(tmp_path.iterdir()) == []
