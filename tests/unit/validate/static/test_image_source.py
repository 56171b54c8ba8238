"""Images of every kind and origin: what is opened, and what is refused with a reason."""

import io
import struct
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import (
    BuildError,
    ChecksFailedError,
    DlcontainerError,
    EngineError,
    MisfitError,
    UsageError,
)
from dlcontainer.validate.static import static
from dlcontainer.validate.static.finding import StaticFinding
from tests import foreign, sifs
from tests.elves import Elf
from tests.fakes import RecordingRunner
from tests.unpacked import IMAGE, PYTHON
from tests.values import site_of


def validated(path: Path, environ: Mapping[str, str] | None = None) -> list[StaticFinding]:
    where = {"TMPDIR": str(path.parent), **(environ or {})}
    return static.validate(path, site_of().value, where, RecordingRunner(strict=True))


def layer(files: Mapping[str, Elf | bytes | str]) -> bytes:
    """Make a layer of the image's files, the programs among them executable."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for path, content in files.items():
            member = tarfile.TarInfo(path.lstrip("/"))
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
                tar.addfile(member)
                continue
            data = content.data() if isinstance(content, Elf) else content
            member.size, member.mode = len(data), 0o755 if "/bin/" in path else 0o644
            tar.addfile(member, io.BytesIO(data))
    return stream.getvalue()


ENV = ("PATH=/opt/demo/bin:/usr/bin",)


def test_an_oci_archive(tmp_path: Path) -> None:
    foreign.oci(tmp_path / "a.tar", layer(IMAGE), env=ENV)
    assert validated(tmp_path / "a.tar") == []
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar"]


def test_an_archive_whose_upper_layer_takes_a_library_away(tmp_path: Path) -> None:
    gone = layer({"/opt/demo/lib/python3.11/site-packages/torch/lib/.wh.libtorch.so": b""})
    foreign.oci(tmp_path / "a.tar", layer(IMAGE), gone, env=ENV)
    (one,) = validated(tmp_path / "a.tar")
    assert (one.rule, one.level) == ("missing-library", "error")


def layout(folder: Path, *layers: bytes, **more: Any) -> Path:
    """Write an OCI layout, as `skopeo copy … oci:FOLDER` does."""
    foreign.oci(folder.with_suffix(".tar"), *layers, env=ENV, **more)
    with tarfile.open(folder.with_suffix(".tar")) as tar:
        tar.extractall(folder, filter="data")
    return folder


def test_an_oci_layout(tmp_path: Path) -> None:
    assert validated(layout(tmp_path / "good", layer(IMAGE))) == []
    assert isinstance(refused(layout(tmp_path / "arm", layer(IMAGE), arch="arm64")), MisfitError)


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (lambda blob: blob.write_bytes(bytes(blob.stat().st_size)), "received: sha256:"),
        (lambda blob: blob.write_bytes(b"short"), "its size is not"),
        (lambda blob: blob.unlink(), "is missing"),
        (lambda blob: (blob.unlink(), blob.symlink_to("/etc/shadow")), "its size is not"),
    ],
)
def test_layouts_that_lie(tmp_path: Path, harm: Callable[[Path], object], why: str) -> None:
    folder = layout(tmp_path / "image", layer(IMAGE))
    harm(max((folder / "blobs/sha256").iterdir(), key=lambda blob: blob.stat().st_size))
    assert why in (refused(folder).why or "")


def test_layouts_whose_index_is_none(tmp_path: Path) -> None:
    folder = layout(tmp_path / "image", layer(IMAGE))
    for text in ("{", "[]", '{"manifests": []}', '{"manifests": [{"digest": "../../x"}]}'):
        (folder / "index.json").write_text(text)
        assert isinstance(refused(folder), ChecksFailedError | BuildError | MisfitError)


def test_a_key_that_a_later_layer_deletes(tmp_path: Path) -> None:
    key = "/root/.ssh/id_ed25519"
    below = layer({**IMAGE, key: b"key", "/root/.netrc": b"machine"})
    hides = layer({"/root/.ssh/.wh.id_ed25519": b"", "/root/.netrc": b""})
    foreign.oci(tmp_path / "a.tar", below, hides, env=ENV)
    (told,) = validated(tmp_path / "a.tar")
    assert told.level == "warning"
    assert told.what == "/root/.netrc and 1 more: a key in a layer below; a later one hides it"


def test_secrets_of_the_history(tmp_path: Path) -> None:
    lines = [
        "RUN |1 API_TOKEN=abcdef12345 /bin/sh -c make",
        "RUN pip install -i https://user:password1@example.org/simple x",
        "ENV MODEL=large",
        "ARG API_TOKEN=$OTHER",
    ]
    foreign.oci(tmp_path / "a.tar", layer(IMAGE), env=ENV, history=lines)
    (told,) = validated(tmp_path / "a.tar")
    assert told.what == "step 1 and 1 more of its history: a password or token in the line"
    assert "abcdef" not in f"{told}"


def test_the_environment_of_an_archive(tmp_path: Path) -> None:
    files: dict[str, Elf | bytes | str] = {
        PYTHON: Elf(needed=("libown.so",)),
        "/opt/own/libown.so": Elf(soname="libown.so"),
        "/opt/demo/lib/python3.11/os.py": b"#",
    }
    foreign.oci(tmp_path / "a.tar", layer(files), env=ENV)
    assert [one.rule for one in validated(tmp_path / "a.tar")] == ["missing-library"]
    own = (*ENV, "LD_LIBRARY_PATH=/opt/own")
    foreign.oci(tmp_path / "b.tar", layer(files), env=own)
    assert validated(tmp_path / "b.tar") == []


def refused(path: Path, environ: Mapping[str, str] | None = None) -> DlcontainerError:
    with pytest.raises(DlcontainerError) as caught:
        validated(path, environ)
    assert caught.value.next_step
    return caught.value


def test_archives_that_are_refused(tmp_path: Path) -> None:
    foreign.oci(tmp_path / "arm.tar", layer(IMAGE), arch="arm64")
    assert isinstance(refused(tmp_path / "arm.tar"), MisfitError)
    foreign.write_tar(tmp_path / "docker.tar", {"manifest.json": b"[]"})
    assert "is not an OCI archive" in refused(tmp_path / "docker.tar").what
    foreign.oci(tmp_path / "a.tar", layer(IMAGE))
    whole = (tmp_path / "a.tar").read_bytes()
    (tmp_path / "cut.tar").write_bytes(whole[: len(whole) // 3])
    assert isinstance(refused(tmp_path / "cut.tar"), ChecksFailedError | BuildError)


def test_files_that_are_no_image(tmp_path: Path) -> None:
    (tmp_path / "x.sif").write_bytes(b"#!/bin/sh\n" * 99)
    assert "neither a SIF nor an OCI archive" in refused(tmp_path / "x.sif").what
    assert isinstance(refused(tmp_path / "gone.sif"), UsageError)
    (tmp_path / "empty").mkdir()
    assert "is not the tree of an image" in refused(tmp_path / "empty").what


def test_a_sif_of_another_engine(tmp_path: Path) -> None:
    """Encrypted, on ext3, of OCI blobs: there is no tree that unsquashfs can read."""
    program = tmp_path / "bin" / "unsquashfs"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    with_program = {"PATH": str(program.parent)}
    image = tmp_path / "x.sif"
    for kind, extra in ((0x4004, struct.pack("<2i", 2, 2)), (0x400B, b"")):
        sifs.write_sif(image, [(kind, "part", b"data", extra)])
        assert "contains no readable file tree" in refused(image, with_program).what
    sifs.write_sif(image)
    error = refused(image, {"PATH": str(tmp_path)})
    assert isinstance(error, EngineError)
    assert error.what == "no unsquashfs on PATH"


def test_an_unpacked_tree_full_of_loops(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    (root / "usr/bin").mkdir(parents=True)
    for name, target in (("lib", "lib"), ("a", "b"), ("b", "a"), ("usr/up", "../..")):
        (root / name).symlink_to(target)
    (root / "usr/bin/python3").symlink_to("python3.11")
    (root / "usr/bin/python3.11").symlink_to("python3")
    assert validated(root) == []
