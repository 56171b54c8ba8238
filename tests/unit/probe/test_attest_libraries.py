"""Which build of a library, and whose it is: a package's, or Python's and the system's."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from dlcontainer.config.resources import PROBE


@pytest.fixture
def probed() -> ModuleType:
    spec = importlib.util.spec_from_file_location("attested", PROBE / "attest_libraries.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_without_a_build_id_the_content_counts(probed: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "lib a.so"
    found = []
    for content in (b"", b"\x7fELF", b"\x7fELF" + bytes(3 << 20), bytes(3 << 20) + b"x"):
        file.write_bytes(content)
        found.append(probed.build(str(file)))
    assert len(set(found)) == 4
    assert all(" bytes, " in text for text in found)


def test_what_cant_be_read_is_no_error(probed: ModuleType, tmp_path: Path) -> None:
    assert probed.build(str(tmp_path / "gone.so")) is None
    # A table of program headers that lies far beyond the file's end.
    file = tmp_path / "a.so"
    file.write_bytes(b"\x7fELF\2\1" + bytes(26) + (1 << 40).to_bytes(8, "little") + b"\1" * 60)
    assert probed.build(str(file)) is None


def test_packages_are_told_from_python_and_the_system(
    probed: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import _json

    own = getattr(_json, "__file__", "/usr/lib/python3/lib-dynload/_json.so")
    is_package = probed.packages([*sys.path, str(tmp_path)])
    assert is_package(f"{tmp_path}/numpy.libs/libopenblas.so")
    assert not is_package(own)
    assert not is_package("/lib/x86_64-linux-gnu/libc.so.6")
    # In a distribution's Python the prefix holds the system's libraries too.
    monkeypatch.setattr(sys, "prefix", "/usr")
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    assert not probed.packages([])("/usr/lib/libmpi.so.40")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert probed.packages([])(f"{tmp_path}/lib/libmkl.so")
