"""The digits: which file it is, how it is made again, and the order that a seed gives."""

import hashlib
import io
import random
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlcontainer.bench.probes.convergence import DATA, SHA256, TESTING, TRAINING
from tests.values import ROOT
from tools import make_digits

# As the data set's page at UCI has them, its test part.
COUNTS = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def members(data: bytes) -> dict[str, bytes]:
    """Give the arrays' values, without their headers."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name)[128:] for name in archive.namelist()}


def test_the_file_is_the_one_that_is_declared() -> None:
    data = DATA.read_bytes()
    assert hashlib.sha256(data).hexdigest() == SHA256
    found = members(data)
    assert len(found["images.npy"]) == 1797 * 8 * 8
    assert max(found["images.npy"]) == 16
    assert [Counter(found["labels.npy"])[label] for label in range(10)] == COUNTS
    # No program need be asked to unpack it, and no clock stands in it.
    with zipfile.ZipFile(DATA) as archive:
        for entry in archive.infolist():
            assert (entry.compress_type, entry.date_time) == (
                zipfile.ZIP_STORED,
                (1980, 1, 1, 0, 0, 0),
            )


def test_it_is_made_again_to_the_byte() -> None:
    found = members(DATA.read_bytes())
    assert make_digits.packed(found["images.npy"], found["labels.npy"]) == DATA.read_bytes()


def test_numpy_reads_it() -> None:
    with np.load(DATA) as found:
        assert found["images"].shape == (1797, 8, 8)
        assert found["images"].dtype == found["labels"].dtype == np.uint8
        assert np.bincount(found["labels"]).tolist() == COUNTS


@pytest.mark.parametrize(
    ("images", "labels", "says"),
    [
        (b"\x00" * 64, b"\x00" * 1797, "1797 labels and 64 pixels"),
        (b"\x11" * 115008, bytes(range(10)) * 179 + b"\x00" * 7, "0 to 16"),
        (b"\x10" * 115008, b"\x00" * 1797, "labels 0 to 9"),
    ],
)
def test_what_are_no_digits(images: bytes, labels: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make_digits.packed(images, labels)


def test_source_and_licence_stand_beside_it() -> None:
    text = DATA.with_suffix(".txt").read_text()
    assert "CC BY 4.0" in text
    assert "UCI Machine Learning Repository" in text
    # The wheel takes the package as it is: nothing may be left out of it.
    assert 'only-include = ["dlcontainer"' in (ROOT / "pyproject.toml").read_text()
    ignored = (ROOT / ".gitignore").read_text().split()
    assert not [line for line in ignored if "npz" in line]


def test_the_probe_reads_what_is_there(probe: Any) -> None:
    digits = probe("digits")
    training, testing = digits.read(str(DATA.parent), SHA256)
    assert (len(training), len(testing)) == (TRAINING, TESTING)
    found = members(DATA.read_bytes())
    for number in (0, 1, 4, 5, 6, 1795, 1796):
        part, place = (
            (testing, number // 5) if number % 5 == 0 else (training, number - number // 5 - 1)
        )
        assert part.labels[place] == found["labels.npy"][number]
        assert bytes(part.images[place]) == found["images.npy"][64 * number : 64 * (number + 1)]


def test_another_file_is_refused(probe: Any, tmp_path: Path) -> None:
    digits = probe("digits")
    with pytest.raises(digits.DataError, match=r"digits\.npz: No such file"):
        digits.read(str(tmp_path), SHA256)
    data = bytearray(DATA.read_bytes())
    data[50_000] ^= 1
    (tmp_path / "digits.npz").write_bytes(data)
    with pytest.raises(digits.DataError, match=f"{SHA256} was declared"):
        digits.read(str(tmp_path), SHA256)


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (b"PK\x03\x04", "no array of NumPy's format 1.0"),
        (make_digits.array(b"", (0,)).replace(b"|u1", b"<f8"), "an array of <f8"),
    ],
)
def test_what_is_no_array_of_bytes(probe: Any, head: bytes, says: str) -> None:
    digits = probe("digits")
    with pytest.raises(digits.DataError, match=says):
        digits._array(head)


def test_a_seed_gives_one_order_for_all_batches(probe: Any) -> None:
    draws = probe("digits").Draws
    by_three, by_seven = draws("5", 10), draws("5", 10)
    order = [number for _ in range(7) for number in by_three.batch(3)]
    assert order == [number for _ in range(3) for number in by_seven.batch(7)]
    # Each epoch has each sample once, and is another order; weights drawn before don't change it.
    assert sorted(order[:10]) == sorted(order[10:20]) == list(range(10))
    assert order[:10] != order[10:20]
    third = draws("5", 10)
    third.weights(100, 1.0)
    assert third.batch(10) == order[:10]


def test_the_digest_is_of_all_that_was_drawn(probe: Any) -> None:
    def drawn(seed: str, weights: int, batches: int) -> str:
        made = probe("digits").Draws(seed, 10)
        made.weights(weights, 0.5)
        for _ in range(batches):
            made.batch(4)
        return str(made.digest())

    assert drawn("1", 3, 2) == drawn("1", 3, 2)
    assert len({drawn("1", 3, 2), drawn("2", 3, 2), drawn("1", 4, 2), drawn("1", 3, 3)}) == 4


def test_python_draws_what_it_always_drew(probe: Any) -> None:
    # Both sides may have another Python: what its documentation promises is held here.
    made = probe("digits").Draws("1", 10)
    drawn = random.Random("1 weights")
    assert made.weights(2, 0.5) == [drawn.uniform(-0.5, 0.5) for _ in range(2)]
    assert made.batch(10) == ORDER


ORDER = [5, 7, 0, 8, 2, 3, 6, 1, 4, 9]
