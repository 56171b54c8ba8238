"""The packages of a bill, read back."""

import json
from pathlib import Path

import pytest

from dlcontainer.errors import ChecksFailedError
from dlcontainer.image import listed_packages, sbom
from dlcontainer.image.contents import InstalledPackage, TreeContents
from dlcontainer.image.sbom import BillSubject

PACKAGES = (
    InstalledPackage(kind="deb", name="libssl3", version="3.0.14-1~deb12u2", size=6_000_000),
    InstalledPackage(kind="pypi", name="Jinja2", version="3.1.6", sha256="ab" * 32),
    InstalledPackage(kind="rpm", name="bash", version="5.1", size=7),
)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    contents = TreeContents(
        distribution="debian", release="bookworm", packages=PACKAGES, size=0, files=0, folders={}
    )
    subject = BillSubject(name="a", version="1", digest="ab" * 32, arch="x86_64")
    path = tmp_path / "a.cdx.json"
    path.write_text(sbom.render(subject, contents, {"/opt/pack": "cd" * 32}))
    assert sorted(listed_packages.read(path), key=lambda p: p.kind) == sorted(
        PACKAGES, key=lambda p: p.kind
    )


@pytest.mark.parametrize(
    "body", [None, [], {"components": [1]}, {"components": [{"type": "library", "purl": "no"}]}]
)
def test_what_is_no_bill_is_refused(tmp_path: Path, body: object) -> None:
    path = tmp_path / "a.cdx.json"
    path.write_text(json.dumps(body))
    with pytest.raises(ChecksFailedError, match="can't read the bill of materials"):
        listed_packages.read(path)
