import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import Apptainer
from tests.integration.signing import tools
from tests.integration.signing.tools import Secured
from tests.publishing import image_of
from tests.signers import Authority, Pair, pair


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with tools.secured(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Apptainer) -> Path:
    """Give a home of the test's own; nothing may be left in it."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "APPTAINER_CONFIGDIR"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture(scope="session")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return pair(tmp_path_factory.mktemp("keys"), "release")


@pytest.fixture(scope="session")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return pair(tmp_path_factory.mktemp("stranger"), "stranger", curve=True)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.made(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """Give an unsigned image of a few bytes, its record and its bill."""
    # The engine reads the head of a tree that it pulls: 1 is gzip.
    path = image_of(tmp_path / "build", b"hsqs" + bytes(16) + b"\1" + bytes(8192))
    bill = {"bomFormat": "CycloneDX", "specVersion": "1.6", "components": []}
    path.with_suffix(".cdx.json").write_text(json.dumps(bill))
    return path


@pytest.fixture
def validated(image: Path) -> Path:
    """Give what `validate --json` printed for the image."""
    path = image.with_name("validate.json")
    plan = json.loads(image.with_suffix(".json").read_text())["digest"]
    body = {"schema": "dlcontainer/validate/1", "ok": True, "plan": plan, "checks": []}
    path.write_text(json.dumps(body))
    return path


@pytest.fixture
def session(image: Path) -> Path:
    """Give a whole session of the bench, measured on the image before it was signed."""
    return tools.session_of(image, image.with_name("session.jsonl"))
