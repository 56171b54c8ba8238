import importlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from dlcontainer.config.resources import PROBE


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Give an importer of the probe's files, as the probe itself sees them."""
    monkeypatch.syspath_prepend(PROBE)
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(PROBE)):
            del sys.modules[name]
