"""`export ecl`: what Apptainer reads, by a reader of TOML and as its own parser parts lines."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.cli import main
from dlcontainer.errors import PublishError
from dlcontainer.publish import ecl
from tests.trees import image_file, put

KEYS = ("5994BE54C31CF1B5E1994F987C52CF6D055F072B", "7064b1d6eff01b1262fed3f03581d99fe87eafd1")
# pkg/util/apptainerconf/parser.go of Apptainer.
_LINE = re.compile(r"^\s*([a-zA-Z _-]+)[ \t]*=[ \t]*(.*)$", re.MULTILINE)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root, images = tmp_path / 'a "root" \u00e9', tmp_path / "images"
    root.mkdir()
    put(root, image_file(images))
    put(root, image_file(images, b"another"), "2.0")
    return root


def groups(limits: ecl.EclLimits) -> list[dict[str, Any]]:
    body = tomllib.loads(ecl.ecl(limits))
    assert body.pop("activated") is True
    found: list[dict[str, Any]] = body.pop("execgroup")
    assert body == {}
    return found


def settings(limits: ecl.EclLimits) -> dict[str, str]:
    return {key.strip(): value for key, value in _LINE.findall(ecl.apptainer_conf(limits))}


def test_a_group_for_each_release(root: Path) -> None:
    found = groups(ecl.read(root, KEYS, "whitelist"))
    assert [one["dirpath"] for one in found] == sorted(map(str, (root / "releases").iterdir()))
    assert all((Path(one["dirpath"]) / "image.sif").is_file() for one in found)
    assert {one["mode"] for one in found} == {"whitelist"}
    assert {tuple(one["keyfp"]) for one in found} == {tuple(key.upper() for key in KEYS)}
    # Apptainer refuses a folder twice.
    assert len({one["dirpath"] for one in found}) == len(found)


def test_without_keys_the_keyring_decides(root: Path) -> None:
    """An empty list under `whitelist` refuses all; under `whitestrict` it asks for a good one."""
    found = groups(ecl.read(root, (), "whitelist"))
    assert {(one["mode"], tuple(one["keyfp"])) for one in found} == {("whitestrict", ())}
    assert groups(ecl.read(root, KEYS, "whitestrict"))[0]["mode"] == "whitestrict"


def test_links_are_resolved(root: Path, tmp_path: Path) -> None:
    """Apptainer refuses a list with a link in any folder."""
    (tmp_path / "link").symlink_to(root)
    assert groups(ecl.read(tmp_path / "link", (), "whitelist")) == groups(
        ecl.read(root, (), "whitelist")
    )


def test_limits(root: Path) -> None:
    limits = ecl.read(root, (), "whitelist")
    found = settings(limits)
    owner = root.owner()
    assert found["limit container paths"] == str(root / "releases")
    assert found["limit container owners"] == owner
    kinds = ("sif", "dir", "squashfs", "extfs", "encrypted")
    allowed = [found[f"allow container {kind}"] for kind in kinds]
    assert allowed == ["yes", "no", "no", "no", "no"]
    assert found["allow setuid-mount squashfs"] == "iflimited"


def test_an_unpacked_release(root: Path) -> None:
    """No signature covers it: it is allowed by path, owner and kind, and is in no group."""
    (first, second) = sorted((root / "releases").iterdir())
    (first / "image.sif").unlink()
    (first / "tree").mkdir()
    limits = ecl.read(root, (), "whitelist")
    assert [one["dirpath"] for one in groups(limits)] == [str(second)]
    assert settings(limits)["allow container dir"] == "yes"


@pytest.mark.parametrize("name", ["a,b", "line\nbreak"])
def test_a_root_that_can_not_be_named(tmp_path: Path, name: str) -> None:
    root = tmp_path / name
    root.mkdir()
    put(root, image_file(tmp_path / "images"))
    with pytest.raises(PublishError, match=r"apptainer.conf can't contain the path"):
        ecl.read(root, (), "whitelist")


@pytest.mark.parametrize("key", ["", "0" * 39, "0" * 41, "g" * 40, '0"]\n'])
def test_no_fingerprint(root: Path, key: str) -> None:
    with pytest.raises(PublishError, match="is not a PGP key fingerprint"):
        ecl.read(root, [key], "whitelist")


def test_the_command(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    words = ["export", "ecl", "--root", str(root), "-o", str(tmp_path / "out")]
    assert main._run([*words, "--key", KEYS[0]], as_json=False) == 0
    assert "wrote" in capsys.readouterr().out
    body = tomllib.loads((tmp_path / "out/ecl.toml").read_text())
    assert body["execgroup"][0]["keyfp"] == [KEYS[0]]
    assert (tmp_path / "out/apptainer.conf.limits").is_file()
    assert main._run([*words, "--key", "x"], as_json=False) == 6
    assert main._run([*words[:-1], str(tmp_path / "out/ecl.toml")], as_json=False) == 7
