"""Where recipes, templates and site configs are found."""

from pathlib import Path

import pytest

from dlcontainer.config.resources import ResourceFolders, Root, locate
from dlcontainer.errors import ConfigError


def fill(root: Path, *files: str) -> Path:
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text("")
    return root


SHIPPED = ("recipes/pytorch/recipe.yaml", "templates/image/Dockerfile", "site-configs/local.yaml")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = fill(tmp_path / "check out", *SHIPPED, "dlcontainer/__init__.py")
    (root / "pyproject.toml").write_text('[project]\nname = "dlcontainer"\n')
    return root


def test_a_checkout(checkout: Path) -> None:
    found = locate(None, package=checkout / "dlcontainer")
    assert found.roots == (Root(origin="checkout", path=checkout),)


@pytest.mark.parametrize("lost", ["recipes", "templates", "site-configs", "pyproject.toml", "name"])
def test_not_a_checkout(checkout: Path, lost: str) -> None:
    if lost == "name":
        (checkout / "pyproject.toml").write_text('[project]\nname = "other"\n')
    else:
        (checkout / lost).rename(checkout / "elsewhere")
    package = checkout / "dlcontainer"
    assert locate(None, package=package).roots == (Root(origin="wheel", path=package / "_data"),)


def test_a_pyproject_of_other_bytes(checkout: Path) -> None:
    (checkout / "pyproject.toml").write_bytes(b"\xff")
    assert locate(None, package=checkout / "dlcontainer").roots[0].origin == "wheel"


def test_the_users_folder_comes_first(checkout: Path, tmp_path: Path) -> None:
    user = fill(
        tmp_path / "user's",
        "recipes/pytorch/recipe.yaml",
        "recipes/mine/recipe.yaml",
        "templates/module/x",
    )
    found = locate(user, package=checkout / "dlcontainer")
    assert [root.origin for root in found.roots] == ["user", "checkout"]
    assert found.names("recipes") == ["mine", "pytorch"]
    assert found.names("templates") == ["image", "module"]
    assert found.names("site-configs") == ["local"]
    assert found.find("recipes", "pytorch") == user / "recipes/pytorch/recipe.yaml"
    assert found.find("site-configs", "local") == checkout / "site-configs/local.yaml"
    assert found.find("templates", "image") == checkout / "templates/image"
    assert found.template_folders() == [user / "templates", checkout / "templates"]


def test_names_that_are_not_names(tmp_path: Path) -> None:
    root = fill(
        tmp_path,
        "recipes/Upper/recipe.yaml",
        "recipes/.hidden/recipe.yaml",
        "recipes/a b/recipe.yaml",
        "recipes/new\nline/recipe.yaml",
        "recipes/a'; echo x/recipe.yaml",
        "recipes/empty/other.yaml",
        "recipes/file",
        "recipes/ok-1.2_x/recipe.yaml",
        "site-configs/a.yml",
        "site-configs/a.yaml~",
        "site-configs/.yaml",
        "site-configs/dir.yaml/x",
        "site-configs/1.yaml",
    )
    found = ResourceFolders(roots=(Root(origin="user", path=root),))
    assert found.names("recipes") == ["ok-1.2_x"]
    assert found.names("site-configs") == ["1"]


def test_an_unknown_name(checkout: Path) -> None:
    found = locate(Path("/no/such"), package=checkout / "dlcontainer")
    with pytest.raises(ConfigError) as caught:
        found.find("recipes", "pytroch")
    assert str(caught.value) == (
        "there is no recipe named 'pytroch'; did you mean 'pytorch'?\n  why: "
        f"searched: /no/such/recipes, {checkout}/recipes"
    )
    with pytest.raises(ConfigError, match=r"there is no site config named 'zzz'; known: local"):
        found.find("site-configs", "zzz")


def test_a_file_that_is_given_for_a_recipe(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my list.txt").touch()
    with pytest.raises(ConfigError, match=r"`dlcontainer build 'my list.txt' --site SITE"):
        locate(None, package=checkout / "dlcontainer").find("recipes", "my list.txt")


@pytest.mark.parametrize(
    "name", ["", "..", "../recipes/pytorch", "/etc", "pytorch/", "a\0b", "pytorch\n"]
)
def test_hostile_names(checkout: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="there is no recipe named"):
        locate(None, package=checkout / "dlcontainer").find("recipes", name)


def test_a_folder_that_cannot_be_read(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    found = locate(None, package=checkout / "dlcontainer")
    monkeypatch.setattr(Path, "is_file", refuse)
    with pytest.raises(
        ConfigError, match=r"recipes/pytorch/recipe.yaml: cannot be read: Permission"
    ):
        found.find("recipes", "pytorch")
    with pytest.raises(ConfigError, match=r"recipes: cannot be read: Permission denied"):
        found.names("recipes")


def test_display(checkout: Path, tmp_path: Path) -> None:
    found = locate(tmp_path / "user", package=checkout / "dlcontainer")
    assert found.display(checkout / "recipes/pytorch/recipe.yaml") == "recipes/pytorch/recipe.yaml"
    mine = tmp_path / "user/recipes/x/recipe.yaml"
    assert found.display(mine) == str(mine)
    assert found.display(Path("x/../y.yaml")) == "x/../y.yaml"


@pytest.mark.parametrize("ending", [".yml", ".YAML", ".Yml"])
def test_a_file_of_another_ending_is_named(tmp_path: Path, ending: str) -> None:
    user = fill(tmp_path / "user", f"site-configs/lab{ending}", f"recipes/own/recipe{ending}")
    found = locate(user, package=tmp_path / "none")
    for kind, name, file in (
        ("site-configs", "lab", user / f"site-configs/lab{ending}"),
        ("recipes", "own", user / f"recipes/own/recipe{ending}"),
    ):
        with pytest.raises(ConfigError, match=r"its name must end in \.yaml") as caught:
            found.find(kind, name)  # type: ignore[arg-type]
        assert str(file) in caught.value.what
        assert str(caught.value.next_step).startswith("mv ")
    with pytest.raises(ConfigError, match="there is no site config named 'other'"):
        found.find("site-configs", "other")
