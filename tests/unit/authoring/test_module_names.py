"""Modules of wheels: names of packages are not names of modules."""

import re
import runpy
import zipfile
from pathlib import Path

import pytest

from dlcontainer.authoring import module_names, verify_text
from dlcontainer.errors import BuildError


def wheel(folder: Path, name: str, files: dict[str, str], needs: tuple[str, ...] = ()) -> Path:
    """Write a wheel of these files."""
    path = folder / f"{name}-1.2-py3-none-any.whl"
    info = f"{name}-1.2.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.2"]
    lines += [f"Requires-Dist: {need}" for need in needs]
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
        archive.writestr(f"{info}/METADATA", "\n".join(lines) + "\n\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


@pytest.mark.parametrize(
    ("files", "modules"),
    [
        (["cv2/__init__.py", "cv2/data/__init__.py", "x.libs/libz.so"], ("cv2",)),
        (["yaml/__init__.py", "_yaml/__init__.py"], ("yaml",)),
        (["six.py"], ("six",)),
        (["fast.cpython-311-x86_64-linux-gnu.so"], ("fast",)),
        (["fast.abi3.so"], ("fast",)),
        (["google/cloud/storage/__init__.py", "google/cloud/storage/a.py"],
         ("google.cloud.storage",)),
        (["tests/__init__.py", "docs/__init__.py", "m/__init__.py"], ("m",)),
        (["lib/__init__.cpython-312-x86_64-linux-gnu.so"], ("lib",)),
        (["m-stubs/__init__.pyi"], ()),
        (["__init__.py", "m/__init__.py"], ("m",)),
        (["share/readme.txt"], ()),
    ],
)  # fmt: skip
def test_the_uppermost_of_a_wheel(files: list[str], modules: tuple[str, ...]) -> None:
    assert module_names.names(files) == modules


def test_the_module_of_the_package_s_name_stands_for_it(tmp_path: Path) -> None:
    files = {"lightning/__init__.py": "", "lightning_fabric/__init__.py": ""}
    read = module_names.read(wheel(tmp_path, "lightning", files))
    assert (read.package, read.modules) == ("lightning", ("lightning",))
    read = module_names.read(wheel(tmp_path, "other_name", files))
    assert read.modules == ("lightning", "lightning_fabric")


def test_files_of_the_data_folder_are_installed_too(tmp_path: Path) -> None:
    files = {"o-1.2.data/purelib/mod/__init__.py": "", "o-1.2.data/scripts/run.py": ""}
    assert module_names.read(wheel(tmp_path, "o", files)).modules == ("mod",)


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ('__version__ = "1.2"\n', {"m": "1.2"}),
        ("__version__: str = '1.2'  # of the release\n", {"m": "1.2"}),
        ("from m.version import __version__\n", {}),
        ('if True:\n    __version__ = "1.2"\n', {}),
        ("__version__ = str(1.2)\n", {}),
    ],
)
def test_a_version_that_a_module_states(
    tmp_path: Path, text: str, versions: dict[str, str]
) -> None:
    read = module_names.read(wheel(tmp_path, "m", {"m/__init__.py": text}))
    assert read.versions == versions


def test_what_a_wheel_needs(tmp_path: Path) -> None:
    needs = ("Typing_Extensions>=4", "numpy ; extra == 'all'")
    read = module_names.read(wheel(tmp_path, "m", {"m.py": ""}, needs))
    assert read.needs == {"typing-extensions", "numpy"}


def test_what_is_no_wheel_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m-1.2-py3-none-any.whl"
    path.write_text("<html>")
    with pytest.raises(BuildError, match=re.escape(f"can't read the wheel {path.name}")):
        module_names.read(path)


def run(text: str, folder: Path) -> int:
    path = folder / "verify.py"
    path.write_text(text)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_the_proof_imports_the_modules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(verify_text.text(["json", "xml.dom"]), tmp_path) == 0
    assert capsys.readouterr().out == '{"ok": true, "what": "imports of json, xml.dom"}\n'


def test_the_proof_names_each_module_that_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(verify_text.text(["json", "no_such", "nor_this"]), tmp_path) == 1
    printed = capsys.readouterr().out
    assert '"ok": false' in printed
    assert "import no_such: ModuleNotFoundError" in printed
    assert "import nor_this" in printed


@pytest.mark.parametrize("name", ["a-b", "a; import os", "", "a..b"])
def test_no_other_text_gets_into_the_proof(name: str) -> None:
    with pytest.raises(ValueError, match="no module's name"):
        verify_text.text([name])
