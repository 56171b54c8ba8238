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


# Pins over two files, and variants: one that sites choose, one by its name alone, one for none.
VARIANTS = """\
variants:
  first: {file: first.yaml}
  spare:
    kind: distro
    summary: as the first
    needs: {arch: [x86_64]}
    changes: {summary: spare}
  nowhere:
    kind: vendor
    summary: a GPU beside a Xeon Phi
    needs: {accelerator: [nvidia], cpu: [knl]}
    changes: {summary: nowhere}
"""
FIRST = """\
kind: distro
summary: with one package more
needs: {arch: [x86_64]}
changes:
  steps:
    - name: packages
      python_packages:
        packages:
          - dlctop=={{ versions.dlctop }}
          - dlc-low==1.0
          - dlcfree==1.0
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


def test_a_new_need_is_written_below_the_pin_that_needs_it(world: World, aging: Path) -> None:
    wheelhouse.wheel(aging / "wheels", "dlctop", "2.1", ["dlc-low<3", "dlcmore"])
    wheelhouse.wheel(aging / "wheels", "dlcmore", "0.1")
    before = (aging / "recipe/recipe.yaml").read_text()
    body = ages(world, aging, "--write")
    assert body["variants"][0]["needed"] == ["dlcmore==0.1"]
    assert body["variants"][0]["needed_by"] == {"dlcmore": "dlctop"}
    assert [added["pins"] for added in body["added"]] == [["dlcmore==0.1"]]
    after = (aging / "recipe/recipe.yaml").read_text()
    line = "        - dlctop=={{ versions.dlctop }}\n"
    assert after.replace(f"{line}        - dlcmore==0.1\n", line).count("\n") == before.count("\n")
    assert ages(world, aging, "--write")["variants"][0]["needed"] == []


def test_builds_are_compared_with_builds_and_move_with_what_they_need(
    world: World, aging: Path
) -> None:
    wheelhouse.wheel(aging / "wheels", "dlcbuild", "1.0+cpu")
    wheelhouse.wheel(aging / "wheels", "dlcbuild", "1.2")
    assert states(ages(world, aging))["dlcbuild"] == ("newest", "1.0+cpu", "1.0+cpu")
    wheelhouse.wheel(aging / "wheels", "dlcbuild", "1.1+cpu", ["dlcfree<1.1", "dlcmore"])
    wheelhouse.wheel(aging / "wheels", "dlcmore", "0.1")
    body = ages(world, aging, "--write")
    assert states(body)["dlcbuild"] == ("newer", "1.1+cpu", "1.1+cpu")
    assert states(body)["dlcfree"] == ("held back", "1.1", "1.0")
    text = (aging / "recipe/recipe.yaml").read_text()
    assert "        - dlcbuild==1.1+cpu\n        - dlcmore==0.1\n" in text
    # One that fits nothing is said, and stays.
    wheelhouse.wheel(aging / "wheels", "dlcbuild", "1.3+cpu", ["dlc-low>9"])
    body = ages(world, aging, "--write")
    assert states(body)["dlcbuild"] == ("held back", "1.3+cpu", "1.1+cpu")
    assert body["written"] == []


def test_where_a_build_is_looked_for_is_said(world: World, aging: Path) -> None:
    file = aging / "recipe/recipe.yaml"
    upstream = "upstreams:\n  away: {url: https://127.0.0.1:9/cpu, source: a test}\nsteps:\n"
    text = file.read_text().replace("steps:\n", upstream)
    file.write_text(
        text.replace("    python_packages:\n", "    python_packages:\n      upstream: away\n")
    )
    said = world.run("recipe", "outdated", aging / "recipe", "--site", aging / "own.yaml").stdout
    assert "builds +cpu are not compared: look at https://127.0.0.1:9/cpu" in said


def test_caps_of_pip_and_held_pins_stay(world: World, aging: Path) -> None:
    file = aging / "recipe/recipe.yaml"
    file.write_text(file.read_text().replace("steps:\n", "held: {dlcfree: a test}\nsteps:\n"))
    (aging / "caps.txt").write_text("dlctop<2\n")
    capped = world.having(PIP_CONSTRAINT=str(aging / "caps.txt"))
    body = ages(capped, aging, "--write")
    assert states(body)["dlctop"] == ("held back", "2.0", "1.0")
    assert states(body)["dlcfree"] == ("held back", "1.1", "1.0")
    whys = {pin["name"]: pin["why"] for pin in body["variants"][0]["pins"]}
    assert whys["dlcfree"] == "the recipe holds it: a test"
    assert whys["dlctop"] == f"{aging / 'caps.txt'}:1 allows dlctop<2 alone"
    assert 'dlctop: "1.0"' in file.read_text()
    assert states(ages(world, aging))["dlctop"][0] == "newer"


def test_each_variant_is_compared_or_named(world: World, aging: Path) -> None:
    file = aging / "recipe/recipe.yaml"
    file.write_text(file.read_text() + VARIANTS)
    (aging / "recipe/first.yaml").write_text(FIRST)
    argv = ("recipe", "outdated", aging / "recipe")
    said = world.run(*argv).stdout
    assert f"no site takes the variant nowhere of {aging / 'recipe'}: not compared" in said
    body = json.loads(world.run(*argv, "--json").stdout)
    assert [variant["variant"] for variant in body["variants"]] == ["first", "spare"]
    assert body["untaken"] == {str(aging / "recipe"): ["nowhere"]}


def test_what_was_cut_off_is_put_back_first(world: World, aging: Path) -> None:
    file, journal = aging / "recipe/recipe.yaml", aging / "recipe/.outdated.json"
    before = file.read_text()
    after = before.replace("dlcfree==1.0", "dlcfree==1.1")
    files = {"recipe.yaml": [before, after]}
    journal.write_text(json.dumps({"schema": 1, "files": files}))
    file.write_text(after)
    argv = (aging / "recipe", "--site", aging / "own.yaml")
    assert "cut off" in world.run("plan", *argv, code=3).stderr
    said = world.run("recipe", "outdated", *argv, "--write")
    assert f"put {file} back" in said.stderr
    assert not journal.exists()
    assert "dlcfree==1.1" in file.read_text()
    world.run("plan", *argv)


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
