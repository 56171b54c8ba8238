"""A Jupyter kernel of a published module: its file, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.cli import main, output
from dlcontainer.errors import EngineError, UsageError
from dlcontainer.publish import kernelspec
from dlcontainer.publish.kernelspec import Kernel, KernelModule
from dlcontainer.system.process import CompletedCommand
from tests.fakes import RecordingRunner, completed

RUNTIME = "share/jupyter/runtime"
DIGEST = "ab" * 32
NAMED = {"name": "pytorch", "version": "2.13.0+x"}


@pytest.fixture
def module(tmp_path: Path) -> KernelModule:
    folder = tmp_path / "it's a root/releases" / DIGEST
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").write_text("#!/bin/sh\n")
    (folder / "bin/python").chmod(0o755)
    (folder / ".dlcontainer").touch()
    (folder / "image.sif").touch()
    release = {"schema": "dlcontainer/release/1", **NAMED, "image": "", "folder": str(folder)}
    (folder / "release.json").write_text(json.dumps(release))
    live = tmp_path / "it's a root/generations/1"
    live.mkdir(parents=True)
    entry: dict[str, object] = {
        **NAMED,
        "digest": DIGEST,
        "default": False,
        "aliases": [],
        "deprecated": None,
    }
    of_all: dict[str, object] = {
        "number": 1,
        "base": 0,
        "what": "",
        "who": "",
        "time": "",
        "entries": [entry],
    }
    body = {"schema": "dlcontainer/generation/1", **of_all}
    (live / "generation.json").write_text(json.dumps(body))
    (tmp_path / "it's a root/current").symlink_to("generations/1")
    return kernelspec.at(folder)


def test_a_version_of_the_earlier_layout(module: KernelModule, tmp_path: Path) -> None:
    folder = tmp_path / "images/pytorch/1.0"
    folder.parent.mkdir(parents=True)
    module.folder.rename(folder)
    (folder / "release.json").unlink()
    assert kernelspec.at(folder).name == "pytorch/1.0"


def sees(**changes: bool) -> CompletedCommand:
    body = {"ipykernel": True, "debugger": True, "visible": True, **changes}
    return completed(stdout=f"a line of the image's own\n{json.dumps(body)}\n")


def tried(
    module: KernelModule,
    folder: Path,
    *answers: CompletedCommand | Exception,
    venv: Path | None = None,
) -> tuple[Kernel, RecordingRunner]:
    runner = RecordingRunner(answers=list(answers), strict=True)
    environ = {"LR": "3", "DLCONTAINER_VENV": "/other", "DLCONTAINER_BIND": "/other"}
    return kernelspec.tried(module, venv, folder / RUNTIME, environ, runner), runner


def test_the_file(module: KernelModule, tmp_path: Path) -> None:
    venv = tmp_path / "My env"
    kernel, runner = tried(module, tmp_path, sees(), venv=venv)
    path = kernelspec.write(kernel, tmp_path / "kernels", kernel.name)
    assert path == tmp_path / "kernels/pytorch-2.13.0-x-my-env/kernel.json"
    assert json.loads(path.read_text()) == {
        "argv": [
            *(str(module.folder / "bin/python"), "-m", "ipykernel_launcher"),
            *("-f", "{connection_file}"),
        ],
        "display_name": "pytorch 2.13.0+x (My env)",
        "language": "python",
        "env": {"DLCONTAINER_VENV": str(venv)},
        "metadata": {"debugger": True, "dlcontainer": {"module": "pytorch/2.13.0+x"}},
    }
    (call,) = runner.calls
    assert call.env == {"LR": "3", "DLCONTAINER_VENV": str(venv)}
    # Elsewhere the engine would show the current folder, and the file by it.
    assert call.cwd == Path("/")
    # The file that was looked for stood where Jupyter puts its own; it is gone.
    assert Path(call.argv[-1]).parent == tmp_path / RUNTIME
    assert (tmp_path / RUNTIME).stat().st_mode & 0o777 == 0o700
    assert list((tmp_path / RUNTIME).iterdir()) == []


def test_without_an_environment_and_without_debugpy(module: KernelModule, tmp_path: Path) -> None:
    kernel, runner = tried(module, tmp_path, sees(debugger=False))
    body = json.loads(kernel.text())
    assert (kernel.name, kernel.title) == ("pytorch-2.13.0-x", "pytorch 2.13.0+x")
    assert (body["env"], body["metadata"]["debugger"]) == ({}, False)
    assert runner.calls[0].env == {"LR": "3"}


def test_connection_files_that_the_image_does_not_see_are_bound(
    module: KernelModule, tmp_path: Path
) -> None:
    kernel, runner = tried(module, tmp_path, sees(visible=False), sees())
    assert kernel.environ == {"DLCONTAINER_BIND": str(tmp_path / RUNTIME)}
    assert runner.calls[1].env == {"LR": "3", **kernel.environ}
    with pytest.raises(EngineError, match=r"can't read .*share/jupyter/runtime"):
        tried(module, tmp_path, sees(visible=False), sees(visible=False))


def test_ipykernel_is_missing(module: KernelModule, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"ipykernel is missing in pytorch/2\.13\.0") as caught:
        tried(module, tmp_path, sees(ipykernel=False))
    assert "pip install ipykernel; then run this command again with --venv" in str(
        caught.value.next_step
    )
    venv = tmp_path / "my env"
    with pytest.raises(UsageError, match=r"ipykernel is missing in .*my env") as caught:
        tried(module, tmp_path, sees(ipykernel=False), venv=venv)
    assert caught.value.next_step == f". '{venv}/bin/activate'; pip install ipykernel"


@pytest.mark.parametrize(("code", "kind"), [(2, UsageError), (4, EngineError), (1, EngineError)])
def test_the_wrappers_own_words_are_handed_on(
    module: KernelModule, tmp_path: Path, code: int, kind: type[Exception]
) -> None:
    said = "INFO: x\ndlcontainer: no environment at /v\n  next: dlcontainer-venv /v\n  or: unset V"
    with pytest.raises(kind, match="does not run here: no environment at /v") as caught:
        tried(module, tmp_path, completed(code=code, stderr=said))
    assert str(caught.value).endswith("next: dlcontainer-venv /v; or: unset V")


@pytest.mark.parametrize("said", ["", "no JSON", "[]", "3", '{"ipykernel": true}'])
def test_an_answer_that_is_none(module: KernelModule, tmp_path: Path, said: str) -> None:
    with pytest.raises(EngineError, match="does not run here"):
        tried(module, tmp_path, completed(stdout=said))


def test_a_runtime_folder_that_can_not_be_made(module: KernelModule, tmp_path: Path) -> None:
    (tmp_path / "share").touch()
    with pytest.raises(UsageError, match=r"can't write to .*share/jupyter/runtime"):
        tried(module, tmp_path)


def test_kernels_of_others_stay(module: KernelModule, tmp_path: Path) -> None:
    kernel, _ = tried(module, tmp_path, sees())
    target = kernelspec.write(kernel, tmp_path, "mine")
    first = target.read_text()
    assert kernelspec.write(kernel, tmp_path, "mine").read_text() == first
    for text in ("{}", "not JSON", '{"metadata": {"debugger": true}}', "[]"):
        target.write_text(text)
        with pytest.raises(UsageError, match="dlcontainer did not write it"):
            kernelspec.write(kernel, tmp_path, "mine")
        assert target.read_text() == text
    for name in ("", "a b", "../up", "UP"):
        with pytest.raises(UsageError, match="is not a valid kernel name"):
            kernelspec.write(kernel, tmp_path, name)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="can't write"):
        kernelspec.write(kernel, tmp_path / "file", "mine")


@pytest.mark.parametrize(
    ("environ", "kernels", "runtime"),
    [
        ({}, "/h/.local/share/jupyter/kernels", "/h/.local/share/jupyter/runtime"),
        ({"XDG_DATA_HOME": "/d"}, "/d/jupyter/kernels", "/d/jupyter/runtime"),
        ({"JUPYTER_DATA_DIR": "/j", "XDG_DATA_HOME": "/d"}, "/j/kernels", "/j/runtime"),
        ({"JUPYTER_DATA_DIR": "", "JUPYTER_RUNTIME_DIR": "/r"}, None, "/r"),
    ],
)
def test_jupyters_own_folders(environ: dict[str, str], kernels: str | None, runtime: str) -> None:
    places = kernelspec.folders(environ, Path("/h"))
    assert places.kernels == Path(kernels or "/h/.local/share/jupyter/kernels")
    assert places.runtime == Path(runtime)


@pytest.mark.parametrize("missing", [".dlcontainer", "bin/python"])
def test_a_folder_that_is_no_module(module: KernelModule, missing: str) -> None:
    (module.folder / missing).unlink()
    with pytest.raises(UsageError, match="not a published module"):
        kernelspec.at(module.folder)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "XDG_DATA_HOME", "DLCONTAINER_VENV"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "/no/such")
    monkeypatch.setattr("sys.executable", "/no/such/python")
    return tmp_path / "home"


def command(monkeypatch: pytest.MonkeyPatch, *argv: object, **changes: bool) -> int:
    runner = RecordingRunner(answers=[sees(**changes), sees()], strict=True)
    monkeypatch.setattr(output.Console, "runner", lambda *_: runner)
    return main._run(["export", "jupyter", *map(str, argv)], as_json=False)


def test_the_command(
    module: KernelModule,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = module.folder.parents[1]
    file = home / ".local/share/jupyter/kernels/pytorch-2.13.0-x/kernel.json"
    for argv in ((module.folder,), ("pytorch/2.13.0+x", "--root", root)):
        assert command(monkeypatch, *argv) == 0
        assert f"wrote {file}\n" in capsys.readouterr().out
        file.unlink()
    # The loaded module, in an environment that was entered.
    monkeypatch.setenv("PATH", str(module.folder / "bin"))
    monkeypatch.setenv("DLCONTAINER_VENV", "/v/mine")
    given = ("--json", "-o", home / "k", "--name", "one")
    assert command(monkeypatch, *given, visible=False) == 0
    body: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert body["schema"] == "dlcontainer/export-jupyter/1"
    assert (body["kernel"], body["file"]) == ("one", str(home / "k/one/kernel.json"))
    assert body["env"] == {
        "DLCONTAINER_VENV": "/v/mine",
        "DLCONTAINER_BIND": str(home / ".local" / RUNTIME),
    }
    assert command(monkeypatch, visible=False) == 0
    assert "works only for users whose Jupyter writes there" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([], "no module is loaded"),
        (["--root", "/r"], "no module is loaded"),
        (["/no/such"], "/no/such is not a published module"),
        (["pytorch", "--root", "/r"], "pytorch: not NAME/VERSION"),
        (["a/b/c", "--root", "/r"], "a/b/c: not NAME/VERSION"),
        (["a/1", "--root", "/"], "a/1 is not published in /"),
    ],
)
def test_modules_that_are_none(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    argv: list[str],
    says: str,
) -> None:
    assert command(monkeypatch, *argv) == 2
    assert says in capsys.readouterr().err
