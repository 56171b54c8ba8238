"""The bill of materials: against CycloneDX's own schema and purl's own library."""

import json
from dataclasses import replace
from typing import Any

import pytest
from packageurl import PackageURL

from dlcontainer.errors import ChecksFailedError
from dlcontainer.image import bill_file, sbom
from dlcontainer.image.contents import InstalledPackage, TreeContents
from dlcontainer.image.licensing import spdx
from dlcontainer.image.licensing.package_license import PackageLicense

SUBJECT = sbom.BillSubject(name="demo-1.0-demo", version="1.0", digest="ab" * 32, arch="x86_64")
SITE = "/opt/x/lib/python3.11/site-packages"
PACKAGES = (
    InstalledPackage(kind="deb", name="libstdc++6", version="1:12.2~rc+b1", arch="amd64", size=5),
    InstalledPackage(
        kind="rpm", name="glibc", version="2.34-1", arch="x86_64", details=(("epoch", "2"),)
    ),
    InstalledPackage(
        kind="pypi",
        name="Torch_Vision",
        version="1.0+cpu",
        places=(SITE, "/usr/lib/python3/dist-packages"),
        details=(("installer", "pip"),),
    ),
    InstalledPackage(
        kind="conda",
        name="numpy",
        version="2.0",
        details=(("build", "py_0"), ("channel", "conda-forge"), ("subdir", "linux-64")),
    ),
)
CONTENTS = TreeContents(
    packages=PACKAGES, distribution="debian", release="12", files=1, size=1, folders={}
)
WHEELS = [{"name": "torch-vision", "version": "1.0+cpu", "sha256": "cd" * 32}]


def validator() -> Any:
    """Give CycloneDX's own, which takes long to import."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    return JsonStrictValidator(SchemaVersion.V1_6)


def rendered(
    subject: sbom.BillSubject = SUBJECT, contents: TreeContents = CONTENTS
) -> dict[str, Any]:
    return dict(json.loads(sbom.render(subject, contents)))


@pytest.mark.parametrize(
    ("subject", "contents"),
    [
        (SUBJECT, CONTENTS),
        (replace(SUBJECT, moment=1700000000), sbom.with_hashes(CONTENTS, WHEELS)),
        (SUBJECT, replace(CONTENTS, packages=(), distribution="", release="")),
        (SUBJECT, replace(CONTENTS, packages=(replace(PACKAGES[0], name="a b/ü?#%&="),))),
    ],
)
def test_the_official_schema(subject: sbom.BillSubject, contents: TreeContents) -> None:
    text = sbom.render(subject, contents)
    assert validator().validate_str(text) is None
    # The validator does see what is wrong.
    spoilt = json.loads(text)
    spoilt["metadata"]["component"]["type"] = "image"
    assert validator().validate_str(json.dumps(spoilt)) is not None


@pytest.mark.parametrize(
    ("package", "distribution", "url"),
    [
        (
            PACKAGES[0],
            "debian",
            "pkg:deb/debian/libstdc%2B%2B6@1:12.2~rc%2Bb1?arch=amd64&distro=debian-12",
        ),
        (PACKAGES[1], "rhel", "pkg:rpm/redhat/glibc@2.34-1?arch=x86_64&distro=rhel-12&epoch=2"),
        (PACKAGES[2], "debian", "pkg:pypi/torch-vision@1.0%2Bcpu"),
        (
            PACKAGES[3],
            "debian",
            "pkg:conda/numpy@2.0?build=py_0&channel=conda-forge&subdir=linux-64",
        ),
    ],
)
def test_package_urls(package: InstalledPackage, distribution: str, url: str) -> None:
    assert sbom.purl(package, distribution, "12") == url
    assert PackageURL.from_string(url).to_string() == url


def test_licences_in_the_official_schema() -> None:
    """The schema lists SPDX's identifiers; an expression is not held against that list."""
    licenses = [PackageLicense(expression=name) for name in spdx.IDS.values()]
    licenses += [PackageLicense(expression="MIT AND (ISC OR LicenseRef-Debian-x)", source="/c")]
    licenses += [PackageLicense(names=("GPL", "BSD"), is_declared=False)]
    packages = tuple(
        replace(PACKAGES[0], name=f"a{number}", license=license_)
        for number, license_ in enumerate(licenses)
    )
    text = sbom.render(SUBJECT, replace(CONTENTS, packages=packages))
    assert validator().validate_str(text) is None
    stated = {one["name"]: one["licenses"] for one in json.loads(text)["components"]}
    *ids, expression, names = (stated[package.name] for package in packages)
    assert [one[0]["license"]["id"] for one in ids] == list(spdx.IDS.values())
    assert expression[0]["expression"] == "MIT AND (ISC OR LicenseRef-Debian-x)"
    assert [one["license"]["name"] for one in names] == ["GPL", "BSD"]
    assert {one["license"]["acknowledgement"] for one in names} == {"concluded"}


def test_sums_and_what_they_are_of() -> None:
    listed = replace(PACKAGES[0], sha256="ef" * 32, sha256_of="/var/lib/dpkg/info/a.md5sums")
    contents = replace(CONTENTS, packages=(listed,))
    key = (listed.name, listed.version, listed.arch)
    for debs, sha256, of in (
        ({}, "ef" * 32, "/var/lib/dpkg/info/a.md5sums"),
        ({key: "ab" * 32}, "ab" * 32, "the package's file"),
        ({(*key[:2], "arm64"): "ab" * 32}, "ef" * 32, "/var/lib/dpkg/info/a.md5sums"),
    ):
        (component,) = rendered(contents=sbom.with_hashes(contents, (), debs))["components"]
        assert component["hashes"] == [{"alg": "SHA-256", "content": sha256}]
        properties = {one["name"]: one["value"] for one in component["properties"]}
        assert properties["org.dlcontainer.sha256-of"] == of


def test_who_needs_whom() -> None:
    """Below the image stands what nothing else needs, and what tells no needs."""
    one, other = (
        replace(PACKAGES[0], name=name, needs=needs) for name, needs in (("a", ("b",)), ("b", ()))
    )
    silent = PACKAGES[3]
    body = rendered(contents=replace(CONTENTS, packages=(one, other, silent)))
    refs = {component["name"]: component["bom-ref"] for component in body["components"]}
    root, *graph = body["dependencies"]
    assert root["dependsOn"] == sorted([refs["a"], refs["numpy"]])
    assert graph == [
        {"ref": refs["a"], "dependsOn": [refs["b"]]},
        {"ref": refs["b"], "dependsOn": []},
    ]


def test_what_it_says() -> None:
    body = rendered(contents=sbom.with_hashes(CONTENTS, WHEELS))
    by_name = {one["name"]: one for one in body["components"]}
    torch = by_name["Torch_Vision"]
    assert torch["hashes"] == [{"alg": "SHA-256", "content": "cd" * 32}]
    assert torch["evidence"]["occurrences"][0] == {"location": SITE}
    assert "hashes" not in by_name["numpy"]
    assert by_name["libstdc++6"]["properties"] == [
        {"name": "org.dlcontainer.installed-bytes", "value": "5"}
    ]
    image = body["metadata"]["component"]
    assert (image["type"], image["version"]) == ("container", "1.0")
    said = {one["name"]: one["value"] for one in image["properties"]}
    assert said["org.dlcontainer.digest"] == f"sha256:{SUBJECT.digest}"
    assert set(body["dependencies"][0]["dependsOn"]) == {
        one["bom-ref"] for one in body["components"]
    }


def test_the_same_packages_are_the_same_bytes() -> None:
    turned = replace(CONTENTS, packages=tuple(reversed(PACKAGES)))
    assert sbom.render(SUBJECT, CONTENTS) == sbom.render(SUBJECT, turned)
    assert "timestamp" not in rendered()["metadata"]
    numbers = {
        rendered()["serialNumber"],
        rendered(replace(SUBJECT, digest="cd" * 32))["serialNumber"],
        rendered(contents=replace(CONTENTS, packages=PACKAGES[:1]))["serialNumber"],
    }
    assert len(numbers) == 3


def test_a_moment() -> None:
    dated = rendered(replace(SUBJECT, moment=1700000000))
    assert dated["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"


def test_a_hash_that_is_none() -> None:
    wheels = [{**WHEELS[0], "sha256": ""}, {"name": "x", "version": "1", "sha256": "zz"}]
    assert "hashes" not in json.dumps(rendered(contents=sbom.with_hashes(CONTENTS, wheels)))


def test_counting() -> None:
    assert bill_file.count(sbom.render(SUBJECT, CONTENTS)) == 4
    assert len(bill_file.names(sbom.render(SUBJECT, CONTENTS))) == 4
    odd = '{"bomFormat": "CycloneDX", "components": [{}, 3, {"name": "g++"}]}'
    assert bill_file.count(odd) == 3
    assert bill_file.names(odd) == {"g++"}
    spdx, none = ('{"bomFormat": "SPDX", "components": []}', '{"bomFormat": "CycloneDX"}')
    for text in ("", "[]", "{}", spdx, none, none[:-1] + ', "components": 3}'):
        with pytest.raises(ChecksFailedError, match="can't read the bill of materials"):
            bill_file.count(text)
