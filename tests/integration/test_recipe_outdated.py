"""`recipe outdated` with the real resolver, on wheels of our own: newer, held back, written."""

import json
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.packages.resolve import resolvers
from dlcontainer.system import machine
from tests import wheelhouse
from tests.integration.world import World
from tests.values import write_yaml

RECIPE = """\
schema: 1
name: aging
version: "1.0"
summary: Pins of another year, for tests
space_mb: 300
base:
  image: docker://registry.example.org/os@sha256:DIGEST
  system: {distribution: debian, release: bookworm, glibc: "2.36", python: "PYTHON", source: a test}
prefix: /opt/aging
versions: {dlctop: "1.0"}  # the newest of last year
steps:
  - name: packages
    python_packages:
      packages:
        - dlctop=={{ versions.dlctop }}
        - dlc_low==1.0  # kept by dlctop
        - dlcfree==1.0    # free
        - dlcbuild==1.0+cpu
exposes: [python]
verify:
  script: verify.py
  imports: {dlctop: "{{ versions.dlctop }}", dlcfree: "1.0"}
"""


@pytest.fixture
def world(world: World) -> World:
    """Give a user without an index."""
    return world.having(PIP_NO_INDEX="1", PIP_FIND_LINKS="", PIP_CONFIG_FILE="/dev/null")


@pytest.fixture
def aging(world: World, tmp_path: Path) -> Path:
    """Write a recipe and a site whose packages come from one folder."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for version, bound in (("1.0", "<2"), ("2.0", "<3")):
        wheelhouse.wheel(wheels, "dlctop", version, [f"dlc-low{bound}"])
    for version in ("1.0", "2.5", "3.1"):
        wheelhouse.wheel(wheels, "dlc-low", version)
    for version in ("1.0", "1.1"):
        wheelhouse.wheel(wheels, "dlcfree", version)
    wheelhouse.wheel(wheels, "dlcbuild", "1.1")
    recipe = tmp_path / "recipe"
    recipe.mkdir()
    text = RECIPE.replace("DIGEST", "ab" * 32).replace("PYTHON", resolvers.python_here())
    (recipe / "recipe.yaml").write_text(text)
    (recipe / "verify.py").write_text("")
    site = {"schema": 1, "name": "own", "summary": "For tests", "default_recipe": "aging"}
    routing = {"wheels": [str(wheels)]}
    arch = machine.read_host({}).arch
    write_yaml(tmp_path / "own.yaml", {**site, "arch": arch, "routing": routing})
    return tmp_path


def ages(world: World, folder: Path, *more: str, code: int = 0) -> dict[str, Any]:
    argv = ("recipe", "outdated", folder / "recipe", "--site", folder / "own.yaml", "--json")
    return dict(json.loads(world.run(*argv, *more, code=code).stdout))


def states(body: dict[str, Any]) -> dict[str, tuple[str, str | None, str | None]]:
    (variant,) = body["variants"]
    return {pin["name"]: (pin["state"], pin["newest"], pin["fitting"]) for pin in variant["pins"]}


def test_what_is_newer_is_said_and_written(world: World, aging: Path) -> None:
    file = aging / "recipe/recipe.yaml"
    before = file.read_text()
    assert states(ages(world, aging)) == {
        "dlctop": ("newer", "2.0", "2.0"),
        "dlc-low": ("newer", "3.1", "2.5"),
        "dlcfree": ("newer", "1.1", "1.1"),
        "dlcbuild": ("not checked", None, None),
    }
    assert file.read_text() == before
    body = ages(world, aging, "--write")
    assert len(body["written"]) == 4
    after = before.replace('dlctop: "1.0"', 'dlctop: "2.0"').replace("dlc_low==1.0", "dlc_low==2.5")
    after = after.replace("dlcfree==1.0", "dlcfree==1.1").replace(
        'dlcfree: "1.0"', 'dlcfree: "1.1"'
    )
    assert file.read_text() == after
    again = ages(world, aging, "--write")
    assert (again["written"], file.read_text()) == ([], after)
    assert states(again)["dlc-low"] == ("held back", "3.1", "2.5")


def test_a_new_need_is_said_and_nothing_is_written(world: World, aging: Path) -> None:
    wheelhouse.wheel(aging / "wheels", "dlctop", "2.1", ["dlc-low<3", "dlcmore"])
    wheelhouse.wheel(aging / "wheels", "dlcmore", "0.1")
    before = (aging / "recipe/recipe.yaml").read_text()
    body = ages(world, aging, "--write")
    assert body["variants"][0]["needed"] == ["dlcmore==0.1"]
    assert body["written"] == []
    assert "pin dlcmore==0.1 there first" in body["unwritten"][0]
    assert (aging / "recipe/recipe.yaml").read_text() == before


def test_without_an_index_nothing_is_called_newest(world: World, aging: Path) -> None:
    for wheel in (aging / "wheels").iterdir():
        wheel.unlink()
    body = ages(world, aging)
    assert {state for state, *_ in states(body).values()} == {"not checked"}
    said = world.run("recipe", "outdated", aging / "recipe", "--site", aging / "own.yaml").stdout
    assert "not checked: no index answered" in said
    # An address at which nobody listens.
    away = world.having(
        PIP_NO_INDEX="0", PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_RETRIES="0"
    )
    body = ages(away, aging)
    assert {state for state, *_ in states(body).values()} == {"not checked"}
    assert body["variants"][0]["why"] == "cannot reach the package index"
