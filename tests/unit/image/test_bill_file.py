"""The bill in an image, or beside it; and the words of a push about it."""

from pathlib import Path

import pytest

from dlcontainer.cli.signing.push import terms_lines, terms_of
from dlcontainer.errors import ChecksFailedError
from dlcontainer.image import bill_file, sbom
from tests.sifs import BILL, TREE, write_sif
from tests.unit.image.test_redistribution import SECRET, holding, package
from tests.unit.image.test_sbom import SUBJECT

CUDNN = sbom.render(SUBJECT, holding(package("nvidia-cudnn-cu12", SECRET)))


def image(folder: Path, *, inside: str = "", beside: str = "") -> Path:
    parts = (TREE, (*BILL[:2], inside.encode(), b"")) if inside else (TREE,)
    path = write_sif(folder / "x.sif", parts)
    if beside:
        path.with_suffix(".cdx.json").write_text(beside)
    return path


def test_the_bill_inside_counts(tmp_path: Path) -> None:
    assert bill_file.of_image(image(tmp_path, inside=CUDNN, beside="{}")) == CUDNN.encode()
    assert bill_file.of_image(image(tmp_path, beside=CUDNN)) == CUDNN.encode()


def test_none(tmp_path: Path) -> None:
    path = image(tmp_path)
    assert bill_file.of_image(path) is None
    (line,) = terms_lines(path, terms_of(path))
    assert line.startswith("x.sif has no bill of materials that tells what may not be passed on: ")


def test_one_that_can_not_be_read(tmp_path: Path) -> None:
    path = image(tmp_path)
    path.with_suffix(".cdx.json").mkdir()
    with pytest.raises(ChecksFailedError, match="can't read"):
        bill_file.of_image(path)


def test_a_push_names_it(tmp_path: Path) -> None:
    path = image(tmp_path, inside=CUDNN)
    (line,) = terms_lines(path, terms_of(path))
    assert line.startswith("before others get it: cuDNN (nvidia-cudnn-cu12 9), on conditions: ")
    assert terms_lines(path, []) == []


def test_a_foreign_bill_moves_no_terminal(tmp_path: Path) -> None:
    odd = CUDNN.replace("nvidia-cudnn-cu12", "nvidia\\u001b[2J")
    path = image(tmp_path, inside=odd)
    (line,) = terms_lines(path, terms_of(path))
    assert "\x1b" not in line
