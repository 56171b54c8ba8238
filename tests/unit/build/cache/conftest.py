from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.build.cache.step_cache import StepCache
from tests.hostile import open_place
from tests.unit.build.cache.shared import NOTES, shared


@pytest.fixture
def place() -> Iterator[Path]:
    NOTES.clear()
    with open_place() as folder:
        yield folder


@pytest.fixture
def cache(place: Path) -> StepCache:
    """Give a group's cache as it comes by mkdir and chmod: no sticky bit, so anybody renames."""
    return shared(place, 0o2777)
