"""One changed word in a template, a recipe or a site is seen by some golden file."""

import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.errors import DlcontainerError
from tests import goldens, values
from tests.values import ROOT

# module/, report/ and reframe/ have tests of their own.
_KINDS = ("templates/image/*.j2", "templates/job/*.j2", "recipes/**/*.yaml", "site-configs/*.yaml")
# No shipped site keeps a mount, and none that has torchrun is warned: what these render is run by
# tests/integration/slurm/test_keep.py and tests/integration/test_job_signals.py.
_UNSEEN = {"keep.sh.j2", "torchrun.py.j2"}
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_./-]{2,}")
SEED, MUTATIONS = 20261122, 30


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Copy what is shipped, and let the golden texts be made from the copy."""
    for name in ("recipes", "templates", "site-configs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copyfile(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
    (tmp_path / "dlcontainer").symlink_to(ROOT / "dlcontainer")
    monkeypatch.setattr(values, "ROOT", tmp_path)
    monkeypatch.setattr(values, "TEMPLATES", tmp_path / "templates")
    _forget()
    yield tmp_path
    _forget()


def _forget() -> None:
    goldens.matrix.cache_clear()
    goldens.plans.cache_clear()


def words(path: Path) -> list[tuple[int, int]]:
    """List where the words of a file begin and end; comments of YAML and Jinja are no words."""
    text = path.read_text()
    comment = r"\{#.*?#\}" if path.suffix == ".j2" else r"^\s*#.*?$|\s#\s.*?$"
    left_out = [
        position
        for hit in re.finditer(comment, text, re.MULTILINE | re.DOTALL)
        for position in range(*hit.span())
    ]
    return [hit.span() for hit in _WORD.finditer(text) if hit.start() not in set(left_out)]


def differs() -> bool:
    """Tell whether any golden file is no longer met; an error is a difference too."""
    try:
        if any(entry.error for entry in goldens.matrix()):
            return True
        if goldens.digests() != goldens.DIGESTS.read_text().splitlines():
            return True
        if goldens.sites() != goldens.SITES.read_text().splitlines():
            return True
        if goldens.variants() != goldens.VARIANTS.read_text().splitlines():
            return True
        goldens.compare(goldens.table(), goldens.MATRIX)
        goldens.compare(goldens.released_job(), goldens.RELEASED_JOB)
        for name, plan in goldens.plans().items():
            for form in goldens.forms(plan):
                goldens.check(name, form, goldens.blanked(plan, form))
    except (AssertionError, DlcontainerError):
        return True
    return False


@pytest.mark.long
def test_the_copy_is_the_same(tree: Path) -> None:
    assert not differs()


@pytest.mark.long
@pytest.mark.parametrize("number", range(MUTATIONS))
def test_one_changed_word_is_seen(tree: Path, number: int) -> None:
    dice = random.Random(f"{SEED}-{number}")
    files = sorted(path for kind in _KINDS for path in tree.glob(kind))
    path = dice.choice(files)
    while path.name in _UNSEEN:
        path = dice.choice(files)
    start, end = dice.choice(words(path))
    text = path.read_text()
    word = text[start:end]
    path.write_text(text[:start] + word[:-1] + ("x" if word[-1] != "x" else "y") + text[end:])
    line = text.count("\n", 0, start) + 1
    assert differs(), f"nobody sees {word!r} changed in {path.relative_to(tree)}:{line}"
