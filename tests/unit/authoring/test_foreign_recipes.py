"""From a Dockerfile's words to a recipe: steps, variables and comments, and what stands below."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.authoring import foreign_parts
from dlcontainer.authoring.author import AuthoredRecipe
from dlcontainer.authoring.own_pins import SitePins
from dlcontainer.authoring.site_plans import SitePlan
from dlcontainer.cli import own_recipes
from dlcontainer.errors import MisfitError, UsageError
from dlcontainer.packages.resolve.resolution import Resolution
from dlcontainer.recipes.base import Base, System
from tests.unit.authoring import images
from tests.unit.authoring.test_author import CPUS, LEONARDO, Desk, read, wheel
from tests.values import shipped_plan

LINES = """\
RUN apt-get update && apt-get install -y tree
RUN pip install einops && make all
ENV GREETING="good day"
CMD ["x: # y"]
"""


def made(
    folder: Path, base: str, *sites: str, lines: str = LINES, keep_shell: bool = False
) -> AuthoredRecipe:
    (folder / "project").mkdir()
    words = images.read(
        folder / "project/Dockerfile", f"FROM {base}\n{lines}", keep_shell=keep_shell
    )
    desk = Desk(
        pins={"all": {"einops": "0.8.1"}}, wheels=(wheel("einops", "einops"),), folder=folder
    )
    recipe = desk.make(words.wishes, *sites, image=words)
    assert all(request.wishes.python is None for request in desk.asked)
    return recipe


def test_on_plain_python(tmp_path: Path) -> None:
    recipe = made(tmp_path, "ubuntu:22.04", CPUS, keep_shell=True)
    body = read(recipe)
    assert body["base"] == {"distribution": "ubuntu", "release": "jammy"}
    assert [step["name"] for step in body["steps"]] == [
        *("system", "os-packages", "packages", "kept-shell")
    ]
    assert body["steps"][1] == {"name": "os-packages", "os_packages": ["tree"]}
    assert body["steps"][3] == {"name": "kept-shell", "shell": "(\nmake all\n)\n"}
    assert body["environment"] == {"GREETING": "good day"}
    assert body["wishes"] == ["einops"]
    comments = [line for line in recipe.files["recipe.yaml"].splitlines() if line.startswith("# ")]
    assert recipe.in_place == (
        "in place of the base ubuntu:22.04: Python on ubuntu jammy (Python 3.10 at example-slurm)"
    )
    assert comments[2:] == [
        f"# {recipe.in_place}",
        "# kept as shell, line 3: make all",
        '# not taken, line 5: CMD ["x: # y"] (images run what a job names)',
    ]


@pytest.mark.parametrize("base", ["pytorch/pytorch:2.1.0", "nvcr.io/nvidia/pytorch:24.05-py3"])
def test_on_the_recipe_of_the_base_s_framework(tmp_path: Path, base: str) -> None:
    recipe = made(tmp_path, base, LEONARDO)
    body = read(recipe)
    assert (body["extends"], body["wishes"]) == ("pytorch", ["torch", "einops"])
    assert [step["name"] for step in body["steps"]] == ["os-packages", "packages"]
    assert recipe.in_place == (
        f"in place of the base {base}: the recipe pytorch (Python 3.12 at leonardo:booster)"
    )
    assert "make all" not in str(body)


def test_apt_alone(tmp_path: Path) -> None:
    body = read(made(tmp_path, "pytorch/pytorch", CPUS, lines="RUN apt-get install -y tree\n"))
    assert body["steps"][0] == {"name": "os-packages", "os_packages": ["tree"]}


def test_a_python_that_no_base_has(tmp_path: Path) -> None:
    with pytest.raises(MisfitError, match="no base has a Python") as error:
        made(tmp_path, "python:3.8-slim", CPUS)
    assert error.value.where == f"{tmp_path}/project/Dockerfile:1"


def test_no_gpu_site_gets_plain_python(tmp_path: Path) -> None:
    with pytest.raises(MisfitError, match="has no code for the accelerators"):
        made(tmp_path, "python:3.12", LEONARDO)


def test_a_base_without_apt(tmp_path: Path) -> None:
    words = images.read(tmp_path / "Dockerfile", "FROM debian\nRUN apt-get install -y tree\n")
    plan = shipped_plan(CPUS, "pytorch")
    system = System(distribution="rocky", release="9", python="3.9", glibc="2.34", source="x")
    base = Base(image=f"docker://rockylinux@sha256:{'a' * 64}", system=system)
    of_rocky = replace(plan, recipe=plan.recipe.model_copy(update={"base": base}))
    chosen = [
        SitePins(at=SitePlan(site=CPUS, plan=of_rocky, refused={}), resolution=Resolution(pins=()))
    ]
    with pytest.raises(MisfitError, match=r"names packages of apt, .* has dnf"):
        foreign_parts.parts(words, None, chosen)


# Each would be a command, a key of the YAML, or a template's expression.
HOSTILE = [
    "RUN apt-get install -y 'tree;id'",
    "RUN apt-get install -y '$(id)' '{{ base }}'",
    "RUN apt-get install -y -oAPT::Update::Pre-Invoke::=id tree",
    "RUN echo '\"' \"'\" '{{ base }}' '{% raw %}'",
    "ENV A='{{ base }}' B=`id` C=\"$(id)\" D='a\"b'",
    "LABEL x='\\\nsteps: [{name: x, shell: id}]'",
    "CMD # x: y",
    "RUN : {{ lookup }} && : '#}'",
    "ENV X=a:b #: c",
]


@pytest.mark.parametrize("line", HOSTILE)
def test_nothing_of_a_file_becomes_a_command(tmp_path: Path, line: str) -> None:
    words = images.read(tmp_path / "Dockerfile", f"FROM debian\nRUN pip install einops\n{line}\n")
    desk = Desk(pins={"all": {"einops": "0.8.1"}}, folder=tmp_path)
    recipe = desk.make(words.wishes, CPUS, image=words)
    text = json.dumps(read(recipe))
    assert "{{" not in text
    assert "{%" not in text
    assert [set(step) for step in read(recipe)["steps"]] == [
        {"name", "os_packages"},
        {"name", "python_packages"},
    ]
    assert set(words.environment.values()) <= {"a:b"}


def test_what_json_says(tmp_path: Path) -> None:
    facts = own_recipes.facts(made(tmp_path, "python:3.11", CPUS))
    assert facts["image"] == {
        "format": "Dockerfile",
        "base": "python:3.11",
        "in_place": "in place of the base python:3.11: Python on debian bookworm "
        "(Python 3.11 at example-slurm)",
        "os_packages": ["tree"],
        "environment": {"GREETING": "good day"},
        "lines": [
            {"line": 3, "text": "make all", "why": "neither pip nor apt", "kept": False},
            {
                "line": 5,
                "text": 'CMD ["x: # y"]',
                "why": "images run what a job names",
                "kept": False,
            },
        ],
    }
    assert own_recipes.summary(made_again(tmp_path)).endswith("; 2 not taken of the file")


def made_again(folder: Path) -> AuthoredRecipe:
    (folder / "again").mkdir()
    return made(folder / "again", "python:3.11", CPUS)


@pytest.mark.parametrize(
    ("name", "options", "what"),
    [
        ("requirements.txt", {"keeps_shell": True}, "--keep-shell belongs to a Dockerfile"),
        ("Dockerfile", {"groups": ("dev",)}, "a Dockerfile has no groups"),
        ("x.def", {"extras": ("dev",)}, "a definition has no groups"),
    ],
)
def test_options_of_other_files(
    tmp_path: Path, name: str, options: dict[str, bool | tuple[str, ...]], what: str
) -> None:
    (tmp_path / name).write_text("six\n")
    packages = own_recipes.PackageOptions(**options)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=what):
        own_recipes._read(tmp_path / name, packages)
