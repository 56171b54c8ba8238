import os
from collections.abc import Iterator

import pytest

from dlcontainer.engine_setup.surroundings import Session, begun
from tests.setup_scripts import Told


@pytest.fixture(autouse=True)
def told() -> Iterator[Told]:
    """Let a set-up run in this environment, and keep what it tells."""
    teller = Told()
    with begun(Session(environ=os.environ, teller=teller, elsewhere="give another folder")):
        yield teller
