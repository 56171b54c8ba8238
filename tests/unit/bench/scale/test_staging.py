"""What a scale session copies is what it was given."""

import hashlib
import shutil
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dlcontainer.bench.measure import native_tree
from dlcontainer.bench.scale import staging
from dlcontainer.bench.scale.cells import MatrixCell
from dlcontainer.errors import ChecksFailedError
from tests.fakes import Quiet

TMPFS = MatrixCell(
    subject="image",
    where="tmpfs",
    open="engine",
    mount="rank",
    state="warm",
    start="storm",
    ranks=1,
    nodes=1,
)


@pytest.mark.parametrize("says", ["the same", "another"])
def test_a_copy_has_the_records_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str
) -> None:
    monkeypatch.setattr(staging, "MEMORY", tmp_path)
    monkeypatch.setattr(native_tree, "run", lambda argv, *_: shutil.copy(*argv[-2:]))
    image = tmp_path / "image.sif"
    image.write_bytes(b"the same")
    given = SimpleNamespace(image=image, sha256=hashlib.sha256(says.encode()).hexdigest())
    source = SimpleNamespace(image=given, original=image)
    context: Any = SimpleNamespace(
        source=lambda _: source,
        bench=SimpleNamespace(work=tmp_path / "work"),
        settings=SimpleNamespace(shared=None),
        execution=SimpleNamespace(progress=Quiet()),
        runner=None,
    )
    monkeypatch.setattr(staging, "remove", lambda folder, _: shutil.rmtree(folder))
    with ExitStack() as stack:
        places = staging.StagingArea(context=context, stack=stack)
        if says == "another":
            with pytest.raises(ChecksFailedError, match="has not the SHA-256 of its record"):
                places.body(TMPFS)
            return
        body = places.body(TMPFS)
        assert body.path.read_bytes() == b"the same"
        assert body.path.parent.parent.stat().st_mode & 0o777 == 0o700
