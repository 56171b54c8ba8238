"""Whose files of a centre's folder are taken."""

import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from dlcontainer.config.resources import ResourceFolders, Root, locate
from dlcontainer.errors import ConfigError
from dlcontainer.system import centre_files
from tests.skips import skip
from tests.unit.config.test_resources import fill

SITE = "site-configs/mysite.yaml"
RECIPE = "recipes/ours/recipe.yaml"
VERIFY = "recipes/ours/verify.py"
SOMEBODY = 4242


@pytest.fixture
def centre(tmp_path: Path) -> Path:
    folder = tmp_path / "the centre's"
    fill(folder, SITE, RECIPE, VERIFY)
    for place in (folder, *folder.rglob("*")):
        place.chmod(0o755 if place.is_dir() else 0o644)
    return folder


def searched(*folders: Path) -> ResourceFolders:
    vet = centre_files.require_trusted
    return locate(None, centre=[Root(origin="centre", path=one, vet=vet) for one in folders])


def test_what_nobody_else_can_write_is_taken(centre: Path) -> None:
    found = searched(centre)
    assert found.find("site-configs", "mysite") == centre / SITE
    assert found.find("recipes", "ours") == centre / RECIPE
    assert found.origin(centre / SITE) == str(centre)


def test_a_centre_has_no_templates(centre: Path) -> None:
    fill(centre, "templates/image/Dockerfile.j2")
    found = searched(centre)
    assert centre / "templates" not in found.template_folders()
    assert not found.find("templates", "image").is_relative_to(centre)


def anybody(place: Path) -> None:
    place.chmod(place.stat().st_mode | 0o002)


def a_group(place: Path) -> None:
    require_root()
    os.chown(place, -1, SOMEBODY)
    place.chmod(place.stat().st_mode | 0o020)


def somebody(place: Path) -> None:
    require_root()
    os.chown(place, SOMEBODY, -1)


def require_root() -> None:
    if os.getuid() != 0:
        skip("needs root, which can give a file to another user", elsewhere="a run as root")


WAYS = [
    (anybody, "any user can write to it"),
    (a_group, "its group can write to it"),
    (somebody, f"it belongs to {SOMEBODY}"),
]


@pytest.mark.parametrize(("way", "what"), WAYS)
@pytest.mark.parametrize("place", [SITE, "site-configs", RECIPE, "recipes/ours", VERIFY, "recipes"])
def test_what_others_could_write_is_refused(
    centre: Path, place: str, way: Callable[[Path], None], what: str
) -> None:
    way(centre / place)
    name = SITE if "site" in place else RECIPE
    with pytest.raises(ConfigError, match=what) as refused:
        searched(centre).find(
            "site-configs" if name == SITE else "recipes", Path(name).parts[1].removesuffix(".yaml")
        )
    assert refused.value.where == str(centre / place)
    assert shlex.quote(str(centre / place)) in str(refused.value.next_step)


@pytest.mark.parametrize(
    ("place", "name"), [(SITE, "mysite"), (VERIFY, "ours"), ("recipes", "ours")]
)
def test_a_link_that_leads_out_is_refused(
    centre: Path, tmp_path: Path, place: str, name: str
) -> None:
    """Who may write where it leads is nobody's to tell."""
    elsewhere = tmp_path / "elsewhere"
    (centre / place).rename(elsewhere)
    (centre / place).symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="it leads out of the folder") as refused:
        searched(centre).find("site-configs" if name == "mysite" else "recipes", name)
    assert refused.value.where == str(centre / place)


def test_a_link_within_the_folder_is_taken(centre: Path) -> None:
    (centre / "site-configs/other.yaml").symlink_to("mysite.yaml")
    assert searched(centre).find("site-configs", "other") == centre / "site-configs/other.yaml"


def test_a_folder_that_anybody_may_replace(centre: Path) -> None:
    centre.parent.chmod(0o777)
    with pytest.raises(ConfigError, match="any user can write to it") as refused:
        centre_files.require_trusted(centre, centre / SITE)
    assert refused.value.where == str(centre.parent)
    # As /tmp is: nobody renames there what is another's.
    centre.parent.chmod(0o1777)
    centre_files.require_trusted(centre, centre / SITE)


def test_a_group_that_shares_the_folder(centre: Path) -> None:
    require_root()
    for place in (centre, *centre.rglob("*")):
        os.chown(place, SOMEBODY, SOMEBODY)
        place.chmod(place.stat().st_mode | 0o020)
    os.chown(centre / SITE, SOMEBODY + 1, SOMEBODY)
    centre_files.require_trusted(centre, centre / SITE)


def test_one_name_in_two_folders(centre: Path, tmp_path: Path) -> None:
    other = fill(tmp_path / "other", SITE)
    found = searched(centre, other)
    assert found.find("site-configs", "mysite") == centre / SITE
    [hidden] = found.hidden("site-configs")
    assert (hidden.name, hidden.path, hidden.by) == ("mysite", other / SITE, centre / SITE)
