"""What needs no resolver: caps, targets, stand-ins, programs."""

import sys
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from dlcontainer.errors import ConfigError, MisfitError
from dlcontainer.packages.pip import pip_config
from dlcontainer.packages.pip.pip_config import PipSettings
from dlcontainer.packages.resolve import index_access, resolvers, stand_ins, target_rules
from dlcontainer.packages.resolve.resolution import ParentPin, Target
from dlcontainer.sites.routing import Routing
from tests.fakes import RecordingRunner, completed
from tests.values import host

TARGET = Target(python="3.12", arch="x86_64", glibc="2.39")


@pytest.mark.parametrize(
    ("arch", "glibc", "platform"),
    [
        ("x86_64", "2.41", "x86_64-manylinux_2_40"),
        ("x86_64", "2.36", "x86_64-manylinux_2_36"),
        ("aarch64", "2.30", "aarch64-manylinux_2_28"),
        ("x86_64", "2.17", "x86_64-manylinux_2_17"),
        ("ppc64le", "2.39", "ppc64le-manylinux_2_39"),
        ("ppc64le", "2.35", "ppc64le-manylinux_2_28"),
    ],
)
def test_the_platform_is_the_highest_that_the_base_takes(
    arch: str, glibc: str, platform: str
) -> None:
    assert target_rules.platform_of(replace(TARGET, arch=arch, glibc=glibc)) == platform


def test_a_base_older_than_all_platforms() -> None:
    for old in (replace(TARGET, glibc="2.12"), replace(TARGET, arch="ppc64le", glibc="2.17")):
        with pytest.raises(MisfitError, match="for no base with glibc"):
            target_rules.platform_of(old)


def caps(path: Path) -> list[str]:
    settings = PipSettings(constraints=(str(path),))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pip_config, "read", lambda _: settings)
        access = index_access.access_of(Routing(), host())
    return [f"{cap.requirement} {Path(cap.origin).name}" for cap in access.caps]


def test_the_caps_of_the_host(tmp_path: Path) -> None:
    path = tmp_path / "caps.txt"
    path.write_bytes(
        b"\xef\xbb\xbf# ours\r\ntorch<=2.14.1  # a cap\r\n\r\n-c more.txt\r\n--pre\r\n"
    )
    (tmp_path / "more.txt").write_text('numpy<3; python_version >= "3.9"\n-c more.txt\n')
    lines = caps(path)
    assert lines[0] == "torch<=2.14.1 caps.txt:2"
    assert lines[1] == 'numpy<3; python_version >= "3.9" more.txt:1'


def test_caps_that_can_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "caps.txt"
    with pytest.raises(ConfigError, match="cannot read the constraints"):
        caps(path)
    path.write_text("fine==1\nnot = one\n")
    with pytest.raises(ConfigError, match="not a constraint") as error:
        caps(path)
    assert error.value.where == f"{path}:2"
    with pytest.MonkeyPatch.context() as patch:
        settings = PipSettings(constraints=("https://u:pass-word1@h/caps.txt",))
        patch.setattr(pip_config, "read", lambda _: settings)
        with pytest.raises(ConfigError, match="stand at an address") as error:
            index_access.access_of(Routing(), host())
    assert "pass-word1" not in str(error.value)


def test_a_stand_in_has_no_needs(tmp_path: Path) -> None:
    pins = [
        ParentPin(requirement=Requirement(text), origin="r:1", strength="hard")
        for text in ("torch==2.9.1+cu128", "triton==3.5")
    ]
    (path,) = stand_ins.write(pins, tmp_path / "folder")
    assert path.name == "torch-2.9.1+cu128-py3-none-any.whl"
    with ZipFile(path) as wheel:
        text = wheel.read("torch-2.9.1+cu128.dist-info/METADATA").decode()
    assert "Version: 2.9.1+cu128\n" in text
    assert "Requires" not in text


def test_the_uv_that_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("path", "python"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "uv").touch(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python/python3"))
    here = host(environ={"PATH": str(tmp_path / "path")})
    old, new = (completed("uv", stdout=f"uv {v} (x)\n") for v in ("0.4.30", "0.13.9"))
    first = resolvers.find_uv(here, RecordingRunner([new]))
    assert first is not None
    assert (first.path, first.version) == (tmp_path / "path/uv", "0.13.9")
    second = resolvers.find_uv(here, RecordingRunner([old, new]))
    assert second is not None
    assert second.path == tmp_path / "python/uv"
    failing = completed("uv", code=1)
    assert resolvers.find_uv(here, RecordingRunner([old, failing])) is None
