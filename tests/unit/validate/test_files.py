"""The static rules as a check of every validation: their errors are failures of the image."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dlcontainer.errors import ChecksFailedError, EngineError
from dlcontainer.validate import validate as validating
from dlcontainer.validate.checks import static_rules
from tests import elves, unpacked
from tests.elves import Elf
from tests.fakes import RecordingRunner
from tests.unit.validate.conftest import with_tree
from tests.unit.validate.inspecting import answers, check, kept_apart
from tests.unit.validate.test_adopted import adopted

MPI: dict[str, Any] = {"family": "openmpi", "mode": "swap", "name": "Open MPI"}


def test_its_files_fit(image: Path) -> None:
    checks = check(image, RecordingRunner(answers(), strict=True), arch="x86_64")
    said = "0 errors, 0 warnings, 0 not decided, 0 notes by the static rules"
    assert (checks["files"].state, checks["files"].detail) == ("ok", said)


def test_without_a_site_nothing_is_held_against_it(image: Path) -> None:
    assert "files" not in check(image, RecordingRunner(answers()))


def test_each_rule_with_errors_fails(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = Elf(needed=("libgone.so.1", "libc.so.6"), needs={"libc.so.6": ("GLIBC_2.38",)})
    core = {unpacked.TORCH.replace("/torch/", "/tool/"): fault}
    with_tree(monkeypatch, elves.write(tmp_path / "image", {**unpacked.IMAGE, **core}))
    runner = RecordingRunner(answers(), strict=True)
    checks = check(image, runner, arch="x86_64", os=unpacked.DEBIAN)
    failures = {name: one for name, one in checks.items() if one.state == "failed"}
    assert list(failures) == ["files missing-library", "files symbol-version"]
    assert "libgone.so.1" in failures["files missing-library"].detail
    with pytest.raises(ChecksFailedError, match="files missing-library, files symbol-version"):
        validating.require_ok(list(checks.values()))


def test_warnings_say_where_they_are_read(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {f"{unpacked.PACKAGES}/extra/_fast.abi3.so": Elf(needed=("libgone.so.1",))}
    with_tree(monkeypatch, elves.write(tmp_path / "image", {**unpacked.IMAGE, **extra}))
    told = check(image, RecordingRunner(answers(), strict=True), arch="x86_64")["files"]
    assert told.state == "ok"
    assert "1 warning, " in told.detail
    assert "; warnings of missing-library: dlcontainer validate '" in told.detail
    assert told.detail.endswith(" --site demo --static")


def test_of_an_adopted_image_nobody_promised_an_mpi(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uses = {f"{unpacked.PACKAGES}/mpi4py/MPI.abi3.so": Elf(needed=("libmpi.so.12",))}
    uses[f"{unpacked.LIB}/libmpi.so.12"] = Elf(soname="libmpi.so.12")
    with_tree(monkeypatch, elves.write(tmp_path / "image", {**unpacked.IMAGE, **uses}))
    site = {"arch": "x86_64", "mpi": {**MPI, "remembered": list(MPI)}}
    told = check(image, RecordingRunner(answers()), **site)["files mpi-library"]
    assert told.state == "failed"
    adopted(image)
    told = check(image, RecordingRunner(kept_apart()), **site)["files mpi-library"]
    assert (told.state, told.next_step) == ("not tried", "")
    assert "of another family" in told.detail


def test_what_cannot_be_read_is_not_tried(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_program(*_: object) -> None:
        raise EngineError("no unsquashfs on PATH", why="it reads the files", next_step="install it")

    monkeypatch.setattr(static_rules, "SquashfsTree", SimpleNamespace(of=no_program))
    told = check(image, RecordingRunner(answers(), strict=True), arch="x86_64")["files"]
    assert (told.state, told.detail) == ("not tried", "no unsquashfs on PATH: it reads the files")
