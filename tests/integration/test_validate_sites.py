"""An image against its site: one without a framework where there are GPUs, another site's image, an
MPI that is declared and not there. Real builds, the real engine.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.world import TINY, VERIFY, Built, World
from tests.values import write_yaml

GPU = {"vendor": "nvidia", "model": "NVIDIA A100", "per_node": 4, "remembered": ["vendor", "model"]}
SWAP = {
    "family": "mpich",
    "mode": "swap",
    "name": "Cray MPICH",
    "soname": "libmpi.so.12",
    "remembered": ["family", "mode", "name", "soname"],
}
STACK = "stack: {mpi: {family: mpich, name: MPICH 4.0.2}}\n"


def site(folder: Path, name: str = "local", **facts: Any) -> Path:
    """Write a site of this machine with facts more; `local` is what the images are built for."""
    own = {"schema": 1, "name": name, "summary": "For tests", "default_recipe": "tiny"}
    return write_yaml(folder / f"{name}.yaml", {**own, "facts": "host", **facts})


def states(world: World, image: Path, at: Path, code: int = 0) -> dict[str, dict[str, Any]]:
    done = world.run("validate", image, "--site", at, "--json", code=code)
    return {check["name"]: check for check in json.loads(done.stdout)["checks"]}


def declared(world: World, wheels: Path, folder: Path, *packages: str) -> Path:
    """Build the tiny recipe with an MPI that it declares, and these packages more."""
    more = "".join(f", {package}" for package in packages)
    text = TINY.replace("steps:", f"{STACK}steps:").replace("python3-venv]", f"python3-venv{more}]")
    assert STACK in text
    recipe = folder / "recipe"
    recipe.mkdir(parents=True)
    (recipe / "recipe.yaml").write_text(text)
    (recipe / "verify.py").write_text(VERIFY)
    found = f"{world.environ.get('PIP_FIND_LINKS', '')} {wheels}".strip()
    return world.having(PIP_FIND_LINKS=found).build(recipe, folder / "image").image


def test_an_image_without_a_framework_is_published_at_a_site_of_gpus(
    world: World, tiny_image: Built, tmp_path: Path
) -> None:
    gpus = site(tmp_path, accelerator={**GPU, "remembered": ["vendor", "model", "per_node"]})
    found = states(world, tiny_image.image, gpus)
    assert found["devices"]["state"] == "not tried"
    assert "torch, tensorflow, mxnet, jax, caffe" in found["devices"]["detail"]
    assert found["site"]["detail"].endswith("(--cpu): programs leave NVIDIA A100 alone")
    done = world.run("publish", tiny_image.image, "--site", gpus, "--root", tmp_path / "root")
    assert "module load tiny/1.0" in done.stdout


def test_another_site_s_image_is_told_by_validate_and_publish_alike(
    world: World, tiny_image: Built, tmp_path: Path
) -> None:
    other = site(tmp_path, "kestrel")
    found = states(world, tiny_image.image, other, code=1)["site"]
    assert found["detail"].startswith("built for the site local, not for kestrel: ")
    step = "build it for this site: dlcontainer build tiny --site kestrel"
    assert found["next_step"] == step
    done = world.run("validate", tiny_image.image, "--site", other, code=1)
    assert done.stderr.endswith(f" checks failed: site\n  next: {step}\n")
    done = world.run(
        "publish", tiny_image.image, "--site", other, "--root", tmp_path / "root", code=6
    )
    assert "was built for the site local, not for kestrel" in done.stderr
    assert done.stderr.endswith(f"  next: {step}\n")


@pytest.mark.parametrize("with_record", [True, False])
def test_the_manifest_says_the_site_too(
    world: World, as_built: Built, tmp_path: Path, with_record: bool
) -> None:
    if not with_record:
        as_built.record.unlink()
    found = states(world, as_built.image, site(tmp_path, "kestrel"), code=1)
    assert found["site"]["state"] == "failed"
    assert found["record"]["state"] == ("ok" if with_record else "failed")


def test_an_mpi_that_is_declared_and_missing(world: World, wheels: Path, tmp_path: Path) -> None:
    image = declared(world, wheels, tmp_path)
    found = states(world, image, site(tmp_path), code=1)["mpi"]
    assert found["detail"].startswith("MPICH 4.0.2 is declared (stack.mpi), and no library of")
    found = states(world, image, site(tmp_path, mpi=SWAP), code=1)["mpi"]
    assert "nothing in the image asks for libmpi.so.12: the site's Cray MPICH" in found["detail"]
    done = world.run(
        *("publish", image, "--site", site(tmp_path), "--root", tmp_path / "root"), code=6
    )
    assert " checks failed: mpi\n" in done.stderr


@pytest.mark.long  # an image with MPICH; tests/unit/publish/test_host_libraries.py has its names
def test_debian_s_mpich_has_a_name_that_no_cray_has(
    world: World, wheels: Path, tmp_path: Path
) -> None:
    image = declared(world, wheels, tmp_path, "libmpich12", "python3-mpi4py")
    found = states(world, image, site(tmp_path))["mpi"]
    assert found["state"] == "ok"
    assert "libmpich.so.12" in found["detail"]
    found = states(world, image, site(tmp_path, mpi=SWAP), code=1)["mpi"]
    assert found["detail"].endswith("it has libmpich.so.12")
    debian = {**SWAP, "soname": "libmpich.so.12"}
    found = states(world, image, site(tmp_path, mpi=debian))["mpi"]
    assert found["state"] == "ok"
    assert "libmpichcxx.so" in found["detail"]
