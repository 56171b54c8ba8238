"""`dlcontainer build --engine docker|podman`: the same story, whatever its steps run in."""

import json
from pathlib import Path

from tests.integration.oci.conftest import Builder
from tests.integration.world import World


def as_user(plain: Builder, wheels: Path) -> World:
    found = f"{plain.world.environ.get('PIP_FIND_LINKS', '')} {wheels}".strip()
    return plain.world.having(PIP_FIND_LINKS=found, **plain.service.variables)


def test_by_an_archive_and_through_a_registry(
    plain: Builder, registry: str, tiny: Path, wheels: Path, tmp_path: Path
) -> None:
    world, kind = as_user(plain, wheels), plain.service.kind
    first = world.build(tiny, tmp_path / "archive", "--engine", kind, "--no-cache")
    assert all(ok for ok, _ in world.checks(first.image).values())
    recorded = first.recorded()
    assert [wheel["name"] for wheel in recorded["python_packages"]] == ["dlctiny"]
    assert [(step["name"], step["kept"]) for step in recorded["work"]] == [
        ("system", None),
        ("wheel", None),
        ("image", None),
    ]
    argv = ("--engine", kind, "--registry", f"{registry}/story-{kind}")
    second = world.build(tiny, tmp_path / "registry", *argv)
    assert world.checks(second.image).keys() == world.checks(first.image).keys()
    kept = {step["name"] for step in second.recorded()["work"] if step["kept"]}
    assert "system" in kept


def test_explain_looks_into_the_engines_store(
    plain: Builder, tiny: Path, wheels: Path, tmp_path: Path
) -> None:
    world = as_user(plain, wheels)
    argv = ("build", tiny, "--site", "local", "--engine", plain.service.kind)
    world.run(*argv, "-o", tmp_path, "--until", "system")
    body = json.loads(world.run(*argv, "--explain", "--json").stdout)
    assert {step["step"]: step["cached"] for step in body["steps"]}["system"] is True
    assert list(tmp_path.glob("*.sif")) == []
