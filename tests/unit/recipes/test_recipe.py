"""Recipes: what is no recipe, and what is said of it."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer import config
from dlcontainer.errors import ConfigError
from dlcontainer.recipes import recipe
from dlcontainer.recipes.distributions import DISTRIBUTIONS
from dlcontainer.recipes.recipe import Recipe
from tests.values import IMAGE_BASE, RECIPE, ROOT, TAGGED_BASE, folder_of, plan_of

DIGEST = f"sha256:{'cd' * 32}"
DEBIAN = {"distribution": "debian", "release": "bookworm"}
SYSTEM = {"distribution": "rocky", "release": "8", "glibc": "2.28", "source": "its os-release"}


def recipe_of(**changes: Any) -> Recipe:
    data = {**RECIPE, "verify": {"script": "verify.py"}, **changes}
    return config.validate(config.from_data(data, layer="recipe"), Recipe)


def steps(*given: dict[str, Any]) -> dict[str, Any]:
    return {"steps": list(given)}


def test_the_smallest_recipe() -> None:
    made = recipe_of()
    assert (made.space_mb, made.mount_points, made.license) == (2000, (), None)
    assert (made.steps[0].os_packages, made.steps[0].native) == (("python3",), False)


@pytest.mark.parametrize("folder", sorted(path.name for path in (ROOT / "recipes").iterdir()))
def test_shipped_recipes_parse(folder: str) -> None:
    path = ROOT / "recipes" / folder / "recipe.yaml"
    written = recipe.read(path, display="r.yaml")
    assert (written.data["name"], written.data["schema"]) == (folder, 1)
    assert written.origin(("name",)).layer == "recipe"


@pytest.mark.parametrize(("name", "release"), sorted(DISTRIBUTIONS))
def test_known_distributions(name: str, release: str) -> None:
    assert recipe_of(base={"distribution": name, "release": release}).base.release == release


def test_an_image_by_digest() -> None:
    base = recipe_of(base=IMAGE_BASE).base
    assert (base.image, base.title, base.facts) == (IMAGE_BASE["image"], IMAGE_BASE["image"], None)


def test_an_image_with_tag_and_digest_apart() -> None:
    base = recipe_of(base={**TAGGED_BASE, "digest": DIGEST, "system": SYSTEM}).base
    assert base.reference is not None
    assert (base.reference.tag, base.reference.digest) == ("8.9", DIGEST)
    assert base.title == f"docker://registry.example.org/base/os@{DIGEST} (tag 8.9)"
    together = {"image": f"{TAGGED_BASE['image']}@{DIGEST}"}
    assert recipe_of(base=together).base.reference == base.reference
    assert recipe_of(base={**together, "digest": DIGEST}).base.reference == base.reference


def test_an_image_that_is_not_pinned() -> None:
    base = recipe_of(base=TAGGED_BASE).base
    assert base.reference is not None
    assert base.reference.digest is None
    assert base.title == f"{TAGGED_BASE['image']}, not pinned"


def test_what_is_known_of_a_base() -> None:
    facts = recipe_of(base={**TAGGED_BASE, "system": SYSTEM}).base.facts
    assert facts is not None
    assert (facts.distribution, facts.release, facts.glibc) == ("rocky", "8", "2.28")
    facts = recipe_of().base.facts
    assert facts is not None
    assert (facts.distribution, facts.glibc, facts.python) == ("debian", "2.36", "3.11")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base": {"image": "example.org/a:1"}}, r"base.image: not docker://NAME\[:TAG\]"),
        (
            {"base": {**IMAGE_BASE, "digest": DIGEST}},
            r"base: two different digests: 'image' has sha256:abab.*, 'digest' is sha256:cdcd",
        ),
        ({"base": {**TAGGED_BASE, "digest": "cd" * 32}}, r"base.digest: not a digest"),
        ({"base": {**DEBIAN, "digest": DIGEST}}, r"base: 'digest' needs 'image'"),
        ({"base": {**DEBIAN, "system": SYSTEM}}, r"base: 'system' needs 'image'"),
        (
            {"base": {**TAGGED_BASE, "system": {"distribution": "rocky", "release": "8"}}},
            r"base.system.source: missing",
        ),
        ({"base": {**IMAGE_BASE, "release": "bookworm"}}, r"base: give 'image', or .* not both"),
        ({"base": {"distribution": "debian"}}, r"base: needs 'distribution' and 'release', or"),
        (
            {"base": {"distribution": "rocky", "release": "9"}},
            r"unknown release rocky 9; known: debian",
        ),
        (steps({"name": "a"}), r"steps\[0\]: empty step: set one of os_packages"),
        (
            steps({"name": "a", "shell": "true", "os_packages": ["gcc"]}),
            r"put os_packages and shell into separate steps",
        ),
        (
            steps({"name": "a", "os_packages": ["gcc"], "native": True}),
            r"only a shell step can have 'native'",
        ),
        (
            steps({"name": "a", "shell": "echo \x07"}),
            r"steps\[0\].shell: the shell text contains control characters",
        ),
        (
            steps({"name": "a", "shell": "a\rb"}),
            r"steps\[0\].shell: the shell text contains control characters",
        ),
        (
            steps({"name": "a", "shell": "b"}, {"name": "a", "shell": "c"}),
            r"two steps are named 'a'",
        ),
        (steps({"name": "a", "pyhton_packages": {}}), r"did you mean 'python_packages'\?"),
        (steps({"name": "a", "python_packages": {"packages": []}}), r"python_packages.packages: "),
        (
            steps({"name": "a", "python_packages": {"packages": ["b==1"], "upstream": "up"}}),
            r"step 'a' uses 'up', which is not in 'upstreams'",
        ),
        (steps({"name": "a", "files": {"../a": "/opt/a"}}), r"files.* not a path inside"),
        (steps({"name": "a", "files": {"a": "/opt/../a"}}), r"files.a: not an absolute path"),
        ({"steps": []}, r"steps: "),
        ({"exposes": []}, r"exposes: "),
        ({"exposes": ["a;b"]}, r"exposes\[0\]: not a command's name"),
        ({"upstreams": {"up": {"url": "http://example.org", "source": "x"}}}, r"not an https://"),
        (
            {"upstreams": {"Up": {"url": "https://example.org", "source": "x"}}},
            r"not an identifier",
        ),
        ({"prefix": "/opt/it's"}, r"prefix: not an absolute path in the image"),
        ({"version": 2.0}, r'version: .*quote it: "2.0"'),
        ({"space_mb": 0}, r"space_mb: must be greater than 0"),
        ({"verify": {"script": "/etc/passwd"}}, r"verify.script: not a path inside"),
    ],
)
def test_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe_of(**changes)


def test_a_step_may_hold_an_environment_alone_or_beside_its_work() -> None:
    made = recipe_of(
        **steps(
            {"name": "a", "environment": {"A": "1"}},
            {"name": "b", "shell": "cat <<'X'\n\tit's\nX\n", "environment": {"B": "2"}},
        )
    )
    assert [dict(step.environment) for step in made.steps] == [{"A": "1"}, {"B": "2"}]


def test_packages_of_the_image_alone_are_not_asked_of_the_host(tmp_path: Path) -> None:
    steps = [
        {"name": "system", "os_packages": ["python3"]},
        {"name": "compiler", "os_packages": ["g++"], "image_only": True},
    ]
    plan = plan_of(folder_of(tmp_path, steps=steps))
    assert plan.recipe.native_packages == ["python3"]
    content = plan.content["recipe"]
    assert isinstance(content, dict)
    # Plans without such a step keep their digest.
    assert ["image_only" in step for step in content["steps"]] == [False, True]
