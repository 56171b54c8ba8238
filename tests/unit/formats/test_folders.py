"""Folders of texts that an image is built in without dlcontainer."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import ConfigError
from dlcontainer.formats import output_folder, standing_alone, texts
from dlcontainer.planning.plan import Plan
from tests.values import ROOT, TEMPLATES, folder_of, plan_of

REGISTRY = {"image": f"docker://registry.example/base/debian:12@sha256:{'ab' * 32}"}
BOTH = ("apptainer.def", "Dockerfile")


def demo(tmp_path: Path, **changes: Any) -> Plan:
    steps = [
        {"name": "a", "os_packages": ["python3"]},
        {"name": "b", "files": {"verify.py": "/opt/copy"}},
    ]
    probe = (ROOT / "dlcontainer/probe/image_check.py",)
    return plan_of(folder_of(tmp_path, **{"steps": steps, **changes}), probe=probe)


def write(plan: Plan, target: Path, *names: str, base: bool = False) -> dict[str, str]:
    """Write a plan's folder; give all its files."""
    forms = {"apptainer.def": "apptainer", "Dockerfile": "dockerfile"}
    written = {name: texts.text(plan, forms[name], [TEMPLATES]) for name in names or BOTH}  # type: ignore[arg-type]

    def lay(folder: Path) -> None:
        for name in ("base.sqfs", "rootfs.tar"):
            (folder / name).write_text(name)

    standing_alone.write(plan, written, target, [TEMPLATES], lay if base else None)
    return {
        str(path.relative_to(target)): path.read_text()
        for path in target.rglob("*")
        if path.is_file()
    }


def test_all_that_the_texts_name_is_in_the_folder(tmp_path: Path) -> None:
    found = write(demo(tmp_path), tmp_path / "it's new", base=True)
    named = {
        "files/manifest.json",
        "files/00-verify.py",
        "files/01-copy",
        "files/probe/image_check.py",
    }
    bases = {"base.sqfs", "rootfs.tar"}
    own = {"README.txt", ".dockerignore", output_folder.MARK}
    assert set(found) == {*BOTH, *named, *bases, *own}
    for name in BOTH:
        assert all(f" {file} " in found[name] for file in ("files/manifest.json", "files/01-copy"))
    assert "From: base.sqfs\n" in found["apptainer.def"]
    assert "ADD rootfs.tar /\n" in found["Dockerfile"]
    assert not any(str(tmp_path) in text for text in found.values())


def test_the_same_bytes_whoever_writes_them(tmp_path: Path) -> None:
    plan, modes = demo(tmp_path), []
    found = [write(plan, tmp_path / name, base=True) for name in ("one", "a/b c")]
    assert found[0] == found[1]
    for folder in (tmp_path / "one/files", tmp_path / "a/b c/files"):
        modes.append({path.name: path.stat().st_mode & 0o777 for path in folder.rglob("*.*")})
        assert set(modes[-1].values()) == {0o644}
    assert modes[0] == modes[1]


def test_the_checksums_are_those_of_the_files(tmp_path: Path) -> None:
    found = write(demo(tmp_path), tmp_path / "out", base=True)
    lines = found.pop(output_folder.MARK).splitlines()
    wanted = [
        f"{hashlib.sha256(text.encode()).hexdigest()}  {name}" for name, text in found.items()
    ]
    assert sorted(lines) == sorted(wanted)


@pytest.mark.parametrize("base", [True, False])
def test_the_readme_of_a_base_that_no_registry_has(tmp_path: Path, *, base: bool) -> None:
    plan = demo(tmp_path)
    readme = write(plan, tmp_path / "out", base=base)["README.txt"]
    assert f"plan: sha256:{plan.digest}\n" in readme
    assert "\n    apptainer build demo-1.0-demo.sif apptainer.def\n" in readme
    assert "\n    docker build -t demo:1.0-demo .\n" in readme
    assert ("the base that lies here (base.sqfs, rootfs.tar)" in readme) is base
    assert ("MISSING here: base.sqfs, rootfs.tar" in readme) is not base
    assert ("--with-base" in readme) is not base
    assert "OS packages from the archive of debian bookworm" in readme


def test_the_readme_names_what_apptainer_changes_in_a_docker_image(tmp_path: Path) -> None:
    quiet = write(demo(tmp_path), tmp_path / "quiet", base=True)["README.txt"]
    assert "3328" not in quiet
    loud = demo(tmp_path, environment={"PLAIN": "a b'c", "TICKS": "`x`", "DOLLAR": "a$$b"})
    readme = write(loud, tmp_path / "loud", base=True)["README.txt"]
    assert "\nDOLLAR, TICKS, whose values hold" in readme


def test_the_readme_of_a_base_in_a_registry(tmp_path: Path) -> None:
    system = {"distribution": "rocky", "release": "9", "source": "its files"}
    plan = demo(tmp_path, base={**REGISTRY, "system": system})
    found = write(plan, tmp_path / "out")
    pinned = f"registry.example/base/debian@sha256:{'ab' * 32}"
    assert f"begins with {pinned}, which the engine fetches" in found["README.txt"]
    assert "the archive of rocky 9" in found["README.txt"]
    assert f"From: {pinned}\n" in found["apptainer.def"]
    assert f"FROM {pinned}\n" in found["Dockerfile"]
    assert "base.sqfs" not in found["apptainer.def"] + found["README.txt"]


def test_the_readme_names_the_texts_that_are_there(tmp_path: Path) -> None:
    found = write(demo(tmp_path), tmp_path / "out", "Dockerfile")
    assert "apptainer build demo-" not in found["README.txt"]
    assert "base.sqfs" not in found["README.txt"]
    assert "apptainer.def" not in found


@pytest.mark.parametrize("more", ["demo.sif", "apptainer.def", ".hidden", "files/more", "a link"])
def test_what_somebody_put_there_is_kept(tmp_path: Path, more: str) -> None:
    plan, target = demo(tmp_path), tmp_path / "out"
    before = write(plan, target)
    assert write(plan, target) == before  # its own earlier folder is replaced
    if more == "a link":
        (target / more).symlink_to("apptainer.def")
    else:
        (target / more).write_text("hours of work")
    with pytest.raises(ConfigError, match=rf"out contains other files: {more}\n"):
        write(plan, target)
    assert (target / more).read_text() in ("hours of work", before["apptainer.def"])
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_folder_of_others_and_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = demo(tmp_path)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/draft.tex").write_text("years")
    with pytest.raises(ConfigError, match=r"contains other files: draft\.tex"):
        write(plan, tmp_path / "thesis")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    with pytest.raises(ConfigError, match="your current folder"):
        write(plan, Path())


def test_a_base_that_fails_leaves_no_folder(tmp_path: Path) -> None:
    plan, target = demo(tmp_path), tmp_path / "out"

    def lay(folder: Path) -> None:
        (folder / "base.sqfs").write_text("half of it")
        raise ConfigError("no base")

    with pytest.raises(ConfigError, match="no base"):
        standing_alone.write(plan, {"Dockerfile": ""}, target, [TEMPLATES], lay)
    assert [path.name for path in tmp_path.iterdir()] == ["it's a recipe"]
