"""The job of a release: which images and sites have one, and what it says of the image."""

from pathlib import Path
from typing import Any

from dlcontainer.image.record import ImageContent
from dlcontainer.publish import job_files
from dlcontainer.publish.job_files import ReleaseJob
from tests.publishing import RECIPE
from tests.unit.publish.test_modulefiles import RELEASE
from tests.values import TEMPLATES, site_of

FORM = {"summary": "f", "launcher": ["srun", "-n{ranks}"], "ranks_per_node": 2}
SLURM = {"kind": "slurm", "forms": {"a": FORM}}


def job(image: str = "image.sif", *, exposes: Any = ("python",), **site: Any) -> ReleaseJob:
    content = {"site": "lab", "recipe": {**RECIPE, "exposes": exposes}}
    return job_files.of_release(
        ImageContent.model_validate(content, strict=False),
        RELEASE,
        site_of(name="lab", **{"scheduler": SLURM, **site}).value,
        Path("/a tree/releases/D") / image,
        [TEMPLATES],
    )


def test_it_names_its_folder_once_and_the_image_there() -> None:
    text = job().files["job/job.sh"]
    assert "dlc_image=${DLCONTAINER_IMAGE:-$dlc_release/image.sif}\n" in text
    assert text.count("/a tree/") == 1
    assert "\ndlc_release='/a tree/releases/D'\n" in text


def test_an_unpacked_image_is_neither_copied_nor_mounted() -> None:
    staged: dict[str, Any] = {"jobs": {"staging": {"how": "sbcast", "to": "/tmp"}}}
    packed = job(**staged).files["job/job-functions.sh"]
    assert "sbcast" in packed
    assert "sif list" in packed
    found = job("tree", **staged).files
    assert "dlc_image=${DLCONTAINER_IMAGE:-$dlc_release/tree}\n" in found["job/job.sh"]
    assert "sbcast" not in found["job/job-functions.sh"]
    assert "sif list" not in found["job/job-functions.sh"]


def test_the_form_of_ray_is_known_by_its_command() -> None:
    assert "dlc_form=${DLCONTAINER_FORM:-ray}" in job(exposes=("python", "ray")).files["job/job.sh"]
    assert "dlc_form" not in job().files["job/job.sh"]


def test_without_a_launcher_no_rank_reads_a_script() -> None:
    assert set(job(scheduler={"kind": "none"}).files) == {"job/job.sh", "job/job-functions.sh"}


def test_an_adopted_image_has_none() -> None:
    offer = {
        **RECIPE,
        "source": "x",
        "digest": f"sha256:{'a' * 64}",
        "python": "/opt/demo/bin/python",
    }
    content = ImageContent.model_validate({"site": "lab", "adopted": offer}, strict=False)
    site = site_of(name="lab", scheduler=SLURM).value
    found = job_files.of_release(content, RELEASE, site, Path("/r/image.sif"), [TEMPLATES])
    assert (found.files, found.missing) == ({}, "the image brings no proof of dlcontainer's")
