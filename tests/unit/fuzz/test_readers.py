"""Every reader of foreign bytes: whatever a file holds, it is read or refused in clear words."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz import changes
from tests.fuzz.readers import READERS, Reader, outcome
from tests.values import ROOT

CORPUS = ROOT / "tests" / "corpus"
SHORT, LONG = 25, 1500
QUIETLY = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


def kept(name: str) -> list[Path]:
    return sorted((CORPUS / name).iterdir()) if (CORPUS / name).is_dir() else []


@pytest.mark.parametrize("name", READERS)
def test_a_file_that_is_right(tmp_path: Path, name: str) -> None:
    reader = READERS[name]
    reader.seed(tmp_path / reader.name)
    said = outcome(reader, tmp_path / reader.name)
    assert said == "read" or name in ("recipe", "base-status", "layout"), said


def read_kept(name: str, folder: Path, paths: list[Path]) -> None:
    reader = READERS[name]
    for path in paths:
        target = folder / reader.name
        target.write_bytes(path.read_bytes())
        said = outcome(reader, target)
        if path.parent.name == name and not path.name.startswith("taken-"):
            assert said != "read", path


@pytest.mark.parametrize("name", READERS)
def test_the_kept_corpus(tmp_path: Path, name: str) -> None:
    """Each file is named for its fault, which its own reader must name."""
    read_kept(name, tmp_path, [*kept(name), *kept("any")])


@pytest.mark.long
@pytest.mark.parametrize("name", READERS)
def test_the_corpus_of_all_others(tmp_path: Path, name: str) -> None:
    """Road: test_the_kept_corpus."""
    read_kept(name, tmp_path, sorted(CORPUS.glob("*/*")))


def test_no_folder_of_the_corpus_is_of_nobody() -> None:
    assert {path.name for path in CORPUS.iterdir()} <= {*READERS, "any"}
    assert sum(1 for _ in CORPUS.glob("*/*")) >= 40


def fuzz(reader: Reader, folder: Path, examples: int) -> None:
    path = folder / reader.name
    reader.seed(path)
    seed = path.read_bytes()

    @settings(max_examples=examples, derandomize=True, database=None, suppress_health_check=QUIETLY)
    @given(data=st.one_of(changes.changed(seed), changes.changed(seed), changes.whole()))
    def check(data: bytes) -> None:
        path.write_bytes(data)
        outcome(reader, path)

    check()


@pytest.mark.parametrize("name", READERS)
def test_changed_bytes(tmp_path: Path, name: str) -> None:
    fuzz(READERS[name], tmp_path, SHORT)


@pytest.mark.long
@pytest.mark.parametrize("name", READERS)
def test_changed_bytes_at_length(tmp_path: Path, name: str) -> None:
    fuzz(READERS[name], tmp_path, LONG)
