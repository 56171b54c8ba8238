"""The base's kind: content, chosen by recipe, site or user; images pinned by a site's table."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer import config
from dlcontainer.config import Document
from dlcontainer.errors import ConfigError
from dlcontainer.planning.plan import Plan
from tests.values import TAGGED_BASE, folder_of, plan_of, site_of

DIGEST = f"sha256:{'ab' * 32}"
SLIM = "docker://debian:bookworm-slim"
MIRRORED = f"docker://r.example:5000/mirror/debian:12@{DIGEST}"


def oci(**more: str) -> Document:
    settings = ["base.kind=oci", *(f"base.{key}={value}" for key, value in more.items())]
    return config.from_settings(settings)


def plan(folder: Path, *changes: Document, site: Any = None, **recipe: Any) -> Plan:
    return plan_of(folder_of(folder, **recipe), site=site or site_of(), changes=list(changes))


def origin(made: Plan, key: str) -> str:
    return next(str(origin) for name, _, origin in made.origins if name == key)


def test_a_distribution_as_its_own_image(tmp_path: Path) -> None:
    base = plan(tmp_path, oci()).recipe.base
    assert (base.image, base.distribution, base.reference and base.reference.digest) == (
        *(SLIM, None),
        None,
    )
    # Wheels and apt's sources are chosen by these.
    facts = base.facts
    assert facts is not None
    assert (facts.distribution, facts.release, facts.python) == ("debian", "bookworm", "3.11")
    pinned = plan(tmp_path, oci(digest=DIGEST)).recipe.base
    assert str(pinned.reference) == f"docker://debian@{DIGEST}"


def test_a_site_chooses_it(tmp_path: Path) -> None:
    made = plan(tmp_path, site=site_of(base={"kind": "oci"}))
    assert made.recipe.base.image == SLIM
    back = plan(
        tmp_path, config.from_settings(["base.kind=tree"]), site=site_of(base={"kind": "oci"})
    )
    assert back.recipe.base.image is None
    assert back.recipe.base.release == "bookworm"


def test_the_kind_itself_is_no_content(tmp_path: Path) -> None:
    plain, said = plan(tmp_path), plan(tmp_path, config.from_settings(["base.kind=tree"]))
    assert said.digest == plain.digest
    assert plan(tmp_path, oci()).digest != plain.digest


def test_an_image_is_no_tree(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'kind: tree' and 'image' exclude each other"):
        plan(tmp_path, config.from_settings(["base.kind=tree"]), base=TAGGED_BASE)


def test_a_sites_table_pins_an_image(tmp_path: Path) -> None:
    site = site_of(base={"kind": "oci"}, images={SLIM: MIRRORED})
    made = plan(tmp_path, site=site)
    assert str(made.recipe.base.reference) == f"docker://r.example:5000/mirror/debian@{DIGEST}"
    assert origin(made, "base.image").startswith("site")
    # What a user says of the image lies over it, and other images are left alone.
    other = f"sha256:{'cd' * 32}"
    mine = plan(tmp_path, config.from_settings([f"base.digest={other}"]), site=site)
    assert str(mine.recipe.base.reference) == f"docker://debian@{other}"
    trixie = plan(tmp_path, site=site, base={"distribution": "debian", "release": "trixie"})
    assert trixie.recipe.base.image == "docker://debian:trixie-slim"


def test_a_recipes_own_image_and_its_own_pin(tmp_path: Path) -> None:
    tagged = TAGGED_BASE["image"]
    site = site_of(images={tagged: MIRRORED})
    assert plan(tmp_path, site=site, base=TAGGED_BASE).recipe.base.image == MIRRORED
    own = {"image": f"{tagged}@{'sha256:' + 'ef' * 32}"}
    assert plan(tmp_path, site=site, base=own).recipe.base.image == own["image"]


@pytest.mark.parametrize(
    ("images", "what"),
    [
        ({SLIM: "docker://r.example/debian:12"}, "expected a digest: docker"),
        ({f"{SLIM}@{DIGEST}": MIRRORED}, "as recipes name it, without a digest"),
        ({"debian": MIRRORED}, "not docker://NAME"),
    ],
    ids=["a tag alone", "a digest in the name", "no image"],
)
def test_what_is_no_pin(images: dict[str, str], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        site_of(images=images)


def test_local_on_a_host_that_no_base_is_made_of(tmp_path: Path) -> None:
    host = config.from_data({"base": {"distribution": "rocky", "release": "9.4"}}, layer="host")
    site = site_of()
    from dataclasses import replace

    of_host = replace(site, document=config.merge(site.document, host))
    assert plan(tmp_path, site=of_host).recipe.base.release == "bookworm"
