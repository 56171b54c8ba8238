"""What becomes of an OCI image: argv, names and what is cleared away."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer.build.backends.oci_export import ExportTarget, OciExporter, SifPacker
from dlcontainer.errors import BuildError
from dlcontainer.system.process import CommandFailedError
from tests.fakeoci import DIGEST, FakeClient, image
from tests.fakes import RecordingRunner, completed
from tests.values import execution_of

NAME = "dlcontainer/demo:0123"


@pytest.fixture
def client() -> FakeClient:
    return FakeClient(store={NAME: image(NAME)})


def deliver(
    client: FakeClient, folder: Path, runner: RecordingRunner | None = None, **route: Any
) -> Any:
    exporter = OciExporter(
        target=ExportTarget(**route),
        packer=SifPacker(execution=execution_of(folder, runner or RecordingRunner())),
        folder=folder,
        log=folder / "log",
        on_line=lambda line: None,
    )
    sif_head(folder / "target")
    return exporter.deliver(client, NAME, folder / "target", folder / "bill")


def sif_head(path: Path) -> None:
    """Write what the engine, which is none, would have made: the head of a SIF for x86_64."""
    path.write_bytes(bytes(32) + b"SIF_MAGIC\x00" + b"01\x00" + b"02\x00")


def test_an_image_stays_in_the_store(client: FakeClient, tmp_path: Path) -> None:
    delivered = deliver(client, tmp_path, outcome="image")
    assert (delivered.name, delivered.id, delivered.digest) == (NAME, f"sha256:{NAME}", None)
    assert client.calls == []
    assert NAME in client.store


def test_an_archive_is_written_and_the_name_taken_away(client: FakeClient, tmp_path: Path) -> None:
    deliver(client, tmp_path, outcome="docker-archive")
    assert (tmp_path / "target").read_text() == NAME
    assert client.store == {}


def test_a_sif_is_made_of_an_archive_that_is_gone_then(client: FakeClient, tmp_path: Path) -> None:
    runner = RecordingRunner()
    deliver(client, tmp_path, runner, outcome="sif")
    call, added = runner.calls
    assert added.argv[-2:] == (str(tmp_path / "target"), str(tmp_path / "bill"))
    assert "cyclonedx-json" in added.argv
    assert call.argv[-2:] == (str(tmp_path / "target"), "docker-archive:image.tar")
    assert "--disable-cache" in call.argv
    assert "--no-https" not in call.argv
    assert call.cwd == tmp_path
    assert call.env is not None
    assert call.env["APPTAINER_TMPDIR"].startswith(str(tmp_path))
    assert not (tmp_path / "image.tar").exists()
    assert client.store == {}


def test_a_sif_through_a_registry_is_pulled_by_digest(client: FakeClient, tmp_path: Path) -> None:
    runner = RecordingRunner()
    route = {"registry": "127.0.0.1:5000/ns", "plain_http": True}
    delivered = deliver(client, tmp_path, runner, outcome="sif", **route)
    pushed = "127.0.0.1:5000/ns/demo:0123"
    assert client.calls[:3] == [("tag", NAME, pushed), ("push", pushed, "True"), ("untag", pushed)]
    assert (delivered.pushed, delivered.digest) == (pushed, DIGEST)
    argv = runner.argvs[0]
    assert argv[-1] == f"docker://127.0.0.1:5000/ns/demo@{DIGEST}"
    assert "--no-https" in argv
    assert client.named("save") == []


def test_a_packer_that_fails_is_quoted_and_leaves_no_archive(
    client: FakeClient, tmp_path: Path
) -> None:
    failed = CommandFailedError(completed("apptainer", code=255, stdout="x\nFATAL: no space\n"))
    with pytest.raises(BuildError, match="FATAL: no space"):
        deliver(client, tmp_path, RecordingRunner([failed]), outcome="sif")
    assert not (tmp_path / "image.tar").exists()


def test_an_image_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="is missing from the engine's store"):
        deliver(FakeClient(), tmp_path, outcome="image")
