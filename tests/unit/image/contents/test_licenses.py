"""Licences and lists of installed files, as packages' own files state them."""

from pathlib import Path

import license_expression
import pytest

from dlcontainer.image.licensing import spdx
from dlcontainer.image.licensing.package_license import PackageLicense
from dlcontainer.system import digests
from tests.unit.image.contents.test_scan import SITE, dist_info, lay, take

DOC = "/usr/share/doc"
HEAD = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
STATUS = "Package: {name}\nStatus: install ok installed\nVersion: 1\nArchitecture: amd64\n"


def debian_license(root: Path, text: str, link: str = "") -> PackageLicense | None:
    """Return the licence of a package `a`, whose copyright file, or that of `b`, has a text."""
    lay(root, {"/var/lib/dpkg/status": STATUS.format(name="a")})
    lay(root, {f"{DOC}/{'b' if link else 'a'}/copyright": text})
    if link:
        (root / DOC.lstrip("/") / "a").symlink_to(link)
    (package,) = take(root).packages
    return package.license


def python_license(root: Path, *headers: str) -> PackageLicense | None:
    text = "\n".join(
        ("Metadata-Version: 2.4", "Name: a", "Version: 1", *headers, "", "License: no")
    )
    (package,) = take(lay(root, dist_info("a", "1", METADATA=text))).packages
    return package.license


def test_identifiers_are_spdx_s_own() -> None:
    written = [*spdx.IDS.values(), *spdx.CLASSIFIERS.values()]
    written += [spdx.identifier(name) for name in spdx._WRITTEN]
    written += [spdx.of_debian(name) for name in spdx._DEBIAN]
    known = license_expression.get_spdx_licensing()
    assert known.validate(" AND ".join(written)).errors == []


@pytest.mark.parametrize(
    ("name", "means"),
    [
        ("GPL-2+", "GPL-2.0-or-later"),
        ("GPL-3", "GPL-3.0-only"),
        ("LGPL-2.1", "LGPL-2.1-only"),
        ("gpl-3.0", "GPL-3.0-only"),
        ("GFDL-NIV-1.3+", "GFDL-1.3-no-invariants-or-later"),
        ("Expat", "MIT"),
        ("BSD-3-clause", "BSD-3-Clause"),
        ("Zlib", "Zlib"),
        # These are not one licence.
        ("MIT", "LicenseRef-Debian-MIT"),
        ("GPL", "LicenseRef-Debian-GPL"),
        ("Artistic", "LicenseRef-Debian-Artistic"),
        ("LGPL-2.7+", "LicenseRef-Debian-LGPL-2.7-or-later"),
        ("public-domain", "LicenseRef-Debian-public-domain"),
        ("GPL-3+ with Bison exception", "LicenseRef-Debian-GPL-3-or-later-with-Bison-exception"),
        (" ", ""),
    ],
)
def test_debian_names(name: str, means: str) -> None:
    assert spdx.of_debian(name) == means


@pytest.mark.parametrize(
    ("stated", "means"),
    [
        ("GPL-2+", "GPL-2.0-or-later"),
        ("GPL-2+ or Expat", "GPL-2.0-or-later OR MIT"),
        ("Expat and ISC", "ISC AND MIT"),
        ("GPL-2 or Expat and ISC", "GPL-2.0-only OR MIT AND ISC"),
        ("GPL-1+ or Artistic-2, and Expat", "(Artistic-2.0 OR GPL-1.0-or-later) AND MIT"),
    ],
)
def test_a_machine_readable_copyright(tmp_path: Path, stated: str, means: str) -> None:
    """What stands beside files counts; a paragraph that only has a licence's text does not."""
    text = f"{HEAD}\nFiles: *\nCopyright: x\nLicense: {stated}\n the text\n\nLicense: X11\n text\n"
    license_ = debian_license(tmp_path, text)
    assert license_ == PackageLicense(expression=means, source=f"{DOC}/a/copyright")
    license_expression.get_spdx_licensing().parse(means, validate=True)


def test_all_files_count(tmp_path: Path) -> None:
    text = f"{HEAD}License: ISC\n\nFiles: *\nLicense: Expat or X11\n\nFiles: b\nLicense: ISC\n"
    license_ = debian_license(tmp_path, text)
    assert license_ is not None
    assert license_.expression == "ISC AND (MIT OR X11)"


@pytest.mark.parametrize("link", ["b", "/usr/share/doc/b"])
def test_a_folder_that_is_a_link(tmp_path: Path, link: str) -> None:
    license_ = debian_license(tmp_path, f"{HEAD}\nFiles: *\nLicense: ISC\n", link)
    assert license_ == PackageLicense(expression="ISC", source=f"{DOC}/b/copyright")


@pytest.mark.parametrize("link", ["a", "../../../../../../etc", "nowhere"])
def test_a_link_that_leads_nowhere(tmp_path: Path, link: str) -> None:
    assert debian_license(tmp_path, "License: ISC", link) is None


def test_a_copyright_for_people(tmp_path: Path) -> None:
    text = "On Debian see /usr/share/common-licenses/GPL-3, and /usr/share/common-licenses/LGPL.\n"
    license_ = debian_license(tmp_path, text)
    source = f"{DOC}/a/copyright"
    assert license_ == PackageLicense(names=("GPL-3", "LGPL"), source=source, is_declared=False)


def test_a_copyright_without_a_name(tmp_path: Path) -> None:
    assert debian_license(tmp_path, "Do with it as you like.\n") is None


@pytest.mark.parametrize(
    ("headers", "expression", "names"),
    [
        (("License-Expression: mit or (Apache-2.0 and X-1)",), "MIT OR (Apache-2.0 AND X-1)", ()),
        (("License-Expression: LicenseRef-A", "License: MIT"), "LicenseRef-A", ()),
        (("License-Expression: MIT OR", "License: MIT"), "MIT", ()),
        (("License: Apache License 2.0",), "Apache-2.0", ()),
        (("License: Apache-2.0 AND MIT",), "Apache-2.0 AND MIT", ()),
        (("License: BSD",), "", ("BSD",)),
        (("License: GPL-3.0+",), "GPL-3.0-or-later", ()),
        (("License: GPL-3",), "", ("GPL-3",)),
        (("License: LGPLv2+",), "", ("LGPLv2+",)),  # 2.0 or 2.1
        (("License: UNKNOWN", "Classifier: License :: OSI Approved :: MIT License"), "MIT", ()),
        (("Classifier: License :: OSI Approved :: BSD License",), "", ("BSD License",)),
        (
            (
                "Classifier: License :: OSI Approved :: MIT License",
                "Classifier: License :: OSI Approved :: ISC License (ISCL)",
            ),
            "",
            ("MIT License", "ISC License (ISCL)"),  # both, or one of them? it does not say
        ),
    ],
)
def test_python(
    tmp_path: Path, headers: tuple[str, ...], expression: str, names: tuple[str, ...]
) -> None:
    license_ = python_license(tmp_path, *headers)
    source = f"{SITE}/a-1.dist-info/METADATA"
    assert license_ == PackageLicense(expression=expression, names=names, source=source)


def test_python_without_a_name(tmp_path: Path) -> None:
    """A whole text in the field is no name, and its lines are no further fields."""
    assert python_license(tmp_path / "a", "License: Copyright x", "        License: MIT") is None
    assert python_license(tmp_path / "b", "License: " + "x" * 101) is None
    assert python_license(tmp_path / "c", "Classifier: License :: OSI Approved") is None


@pytest.mark.parametrize("text", ["", "MIT OR", "(MIT", "MIT)", "MIT ISC", "OR", "MIT WITH", "a/b"])
def test_no_expressions(text: str) -> None:
    assert spdx.expression(text) == ""


def test_lists_of_installed_files(tmp_path: Path) -> None:
    """Without a package's own file it is a list's sum, and the bill names the list."""
    info = "/var/lib/dpkg/info"
    status = "\n".join(STATUS.format(name=name) for name in ("a", "b", "c"))
    files = {"/var/lib/dpkg/status": status, f"{info}/a.md5sums": "1  usr/a\n"}
    files |= {f"{info}/b:amd64.md5sums": "2  usr/b\n", f"{info}/c:arm64.md5sums": "3  usr/c\n"}
    files |= dist_info("d", "1", RECORD="d.py,sha256=x,1\n") | dist_info("e", "1")
    root = lay(tmp_path, files)
    lists = {package.name: package.sha256_of for package in take(root).packages}
    record = f"{SITE}/d-1.dist-info/RECORD"
    sums = (f"{info}/a.md5sums", f"{info}/b:amd64.md5sums", "", record, "")
    assert lists == dict(zip("abcde", sums, strict=True))
    for package in take(root).packages:
        path = root / package.sha256_of.lstrip("/")
        assert package.sha256 == (digests.of_file(path) if package.sha256_of else "")
