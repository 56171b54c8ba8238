"""The folder of a user's own at a site, and the variables that have a default there."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import ConfigError
from dlcontainer.formats import job_folders
from dlcontainer.planning.launch import model_folders, surroundings
from dlcontainer.planning.launch.surroundings import ImageFacts
from dlcontainer.publish import launch_files, modulefiles
from tests.unit.publish.test_modulefiles import RELEASE
from tests.values import TEMPLATES, shipped_sites, site_of


def site_with(*folders: str | None, **more: Any) -> Any:
    systems = [
        {
            "path": f"/fs{at}",
            "kind": "lustre",
            "purpose": "scratch",
            **({"user_folder": folder} if folder else {}),
        }
        for at, folder in enumerate(folders)
    ]
    return site_of(filesystems=systems, **more).value


@pytest.mark.parametrize(
    ("folders", "found"),
    [
        ((), None),
        ((None,), None),
        ((None, "$SCRATCH", "/b/$USER"), "$SCRATCH"),
        (("/fs0/${USER}/x",), "/fs0/${USER}/x"),
    ],
)
def test_the_first_that_is_written(folders: tuple[str | None, ...], found: str | None) -> None:
    assert model_folders.of(site_with(*folders)) == found


@pytest.mark.parametrize(
    "folder", ["scratch/$USER", "/scratch", "/a b/$USER", "/x/../$USER", "$(id)/x", "/x/$", "~/$A"]
)
def test_what_is_no_folder_of_a_users_own(folder: str) -> None:
    with pytest.raises(ConfigError, match="user_folder"):
        site_with(folder)


def test_what_site_or_image_set_has_no_default() -> None:
    shown = job_folders.models(site_with("$SCRATCH"), {"HF_HOME", "MXNET_HOME"})
    assert shown is not None
    assert "HF_HOME=" not in str(shown["names"])
    assert "TORCH_HOME=torch" in str(shown["names"])
    assert shown["token"] is False
    assert job_folders.models(site_with("$SCRATCH"), set(model_folders.FOLDERS)) is None
    assert job_folders.models(site_with(None), ()) is None


def test_a_bind_of_it_shows_it() -> None:
    site = site_with("${SCRATCH}/me", jobs={"binds": ["$SCRATCH:$SCRATCH"]})
    applied = surroundings.of(site, ImageFacts())
    shown = job_folders.models(site, (), applied)
    assert shown is not None
    assert shown["shown"] is None
    other = site_with("$SCRATCH")
    shown = job_folders.models(other, (), surroundings.of(other, ImageFacts()))
    assert shown is not None
    assert "/fs0/*" in str(shown["shown"])


def test_the_modules_help_names_it() -> None:
    for folder, said in (("$SCRATCH", True), (None, False)):
        site = site_with(folder)
        epoch = modulefiles.epoch_of(site)
        context = launch_files.around({epoch: site}, RELEASE, epoch)
        texts = modulefiles.modulefiles(RELEASE, Path("/m"), [TEMPLATES], context)
        assert all(("HF_HOME" in text) == said for text in texts)


def test_shipped_sites_name_variables_alone() -> None:
    found = {name: model_folders.of(site) for name, site in shipped_sites()}
    assert found["leonardo:booster"] == "$SCRATCH"
    assert found["perlmutter:gpu"] == "$SCRATCH"
    assert found["alps"] == "$SCRATCH"
    assert found["local"] is None
    assert all("$" in folder for folder in found.values() if folder)
