"""Pins: only a digest that was read from a registry is written, and into the user's own file."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer import config
from dlcontainer.build.base import pins
from dlcontainer.build.base.pins import ImagePin
from dlcontainer.config.image_names import parse_image
from dlcontainer.errors import BuildError, ConfigError, DlcontainerError
from dlcontainer.planning.plan import Plan
from tests.fakeregistry import NAME, FakeRegistry, Reply, serving
from tests.values import IMAGE_BASE, folder_of, host, plan_of, site_of

SLIM = "docker://debian:bookworm-slim"
OCI = config.from_settings(["base.kind=oci"])


def oci_plan(folder: Path) -> Plan:
    quiet = {"ca": "default", "proxy": "none"}
    return plan_of(folder_of(folder), site=site_of(routing=quiet), changes=[OCI])


def read(folder: Path, image: str) -> ImagePin:
    return pins.read(oci_plan(folder), parse_image(image), host(), replaces_tree=True)


def image_of(fake: FakeRegistry, tag: str = "12") -> str:
    return f"docker://{fake.address}/{NAME}:{tag}"


def test_the_digest_is_the_registrys(tmp_path: Path) -> None:
    with serving() as fake:
        digest = fake.put_index("amd64", "ppc64le", tag="12")
        pin = read(tmp_path, image_of(fake))
        assert (pin.image, pin.pinned) == (SLIM, f"{image_of(fake)}@{digest}")
        # A digest that is given is looked up all the same.
        assert read(tmp_path, pin.pinned) == pin


def test_what_it_writes_is_what_a_site_reads(tmp_path: Path) -> None:
    path = tmp_path / "no folder yet" / "pins.yaml"
    first = f"docker://r.example/a:1@sha256:{'ab' * 32}"
    second = first.replace("ab", "cd")
    pins.write(path, "mine", ImagePin(image=SLIM, pinned=first, replaces_tree=True))
    pins.write(path, "other", ImagePin(image=SLIM, pinned=first, replaces_tree=False))
    pins.write(path, "mine", ImagePin(image="docker://a:2", pinned=first, replaces_tree=False))
    pins.write(path, "mine", ImagePin(image=SLIM, pinned=second, replaces_tree=True))
    body = config.load(path, layer="pins", display="pins.yaml").data
    assert body == {
        "sites": {
            "mine": {"base": {"kind": "oci"}, "images": {SLIM: second, "docker://a:2": first}},
            "other": {"images": {SLIM: first}},
        }
    }


def test_the_lines_for_a_site_file(tmp_path: Path) -> None:
    pinned = f"docker://r.example/a:1@sha256:{'ab' * 32}"
    lines = tmp_path / "lines.yaml"
    lines.write_text(pins.as_site_lines(ImagePin(image=SLIM, pinned=pinned, replaces_tree=True)))
    body: dict[str, Any] = config.load(lines, layer="site", display="lines.yaml").data
    assert body == {"base": {"kind": "oci"}, "images": {SLIM: pinned}}
    assert site_of(**body).value.images == {SLIM: pinned}


@pytest.mark.parametrize(
    ("reply", "what"),
    [
        (None, "has no tag '12'"),
        (Reply(status=401, body=b"{}"), "40"),
        (Reply(body=b"{}", headers={"Docker-Content-Digest": f"sha256:{'ab' * 32}"}), "not match"),
        (Reply(body=b"<html>"), "returned no image manifest"),
    ],
    ids=["no such tag", "401", "lies", "no registry"],
)
def test_nothing_is_pinned_that_was_not_read(
    tmp_path: Path, reply: Reply | None, what: str
) -> None:
    with serving() as fake:
        if reply is not None:
            fake.replies[f"/v2/{NAME}/manifests/12"] = reply
        with pytest.raises(DlcontainerError) as caught:
            read(tmp_path, image_of(fake))
    assert what in str(caught.value)


def test_an_image_of_another_architecture(tmp_path: Path) -> None:
    with serving() as fake:
        fake.put_index("ppc64le", tag="12")
        with pytest.raises(BuildError, match="the base image is not available for linux/amd64"):
            read(tmp_path, image_of(fake))


def test_a_recipe_that_is_pinned(tmp_path: Path) -> None:
    plan = plan_of(folder_of(tmp_path, base=IMAGE_BASE))
    with pytest.raises(ConfigError, match="is pinned in its recipe"):
        pins.read(plan, None, host(), replaces_tree=False)


def test_a_file_that_can_t_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="can't write") as caught:
        pins.write(
            tmp_path / "file/pins.yaml", "a", ImagePin(image=SLIM, pinned="b", replaces_tree=True)
        )
    assert "--print" in str(caught.value.next_step)
