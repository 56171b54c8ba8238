"""Which wheels pip is asked for, what it says, and what there is instead of a missing one."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import BuildError, MisfitError
from dlcontainer.packages.pip import pip_config
from dlcontainer.packages.pip.pip_config import PipSettings
from dlcontainer.packages.pip.pip_resolver import Pip, platforms, say_files, skipped_files
from dlcontainer.system.process import CommandFailedError, ProcessRunner
from dlcontainer.system.runner import Runner
from tests.fakes import RecordingRunner, completed
from tests.locks import wheel
from tests.values import host, recorded

SKIPPED = "pip-skipped-numpy-ppc64le.txt"


@pytest.fixture
def runner() -> RecordingRunner:
    return RecordingRunner(strict=True)


def pip(runner: Runner, **changes: Any) -> Pip:
    given: dict[str, Any] = {
        "python": "3.11",
        "arch": "ppc64le",
        "glibc": "2.36",
        "arguments": ("--index-url", "https://index.example/simple"),
        "environment": {"https_proxy": "http://proxy.example:1"},
        "host": host(environ={"PATH": "/usr/bin", "PIP_INDEX_URL": "https://evil.example"}),
        "runner": runner,
        "on_line": lambda _: None,
    }
    return Pip(**{**given, **changes})


def failed(text: str) -> CommandFailedError:
    return CommandFailedError(completed("pip", code=1, stdout=text))


def report(folder: Path, *items: tuple[str, str, dict[str, Any]]) -> None:
    install = [
        {"metadata": {"name": name, "version": "1.0"}, "download_info": {"url": url, **info}}
        for name, url, info in items
    ]
    (folder / "report.json").write_text(json.dumps({"install": install}))


def test_platforms_are_those_of_the_image_c_library() -> None:
    power = platforms("ppc64le", "2.36")
    assert power[0] == "manylinux_2_36_ppc64le"
    assert power[-3:] == ["manylinux_2_17_ppc64le", "manylinux2014_ppc64le", "linux_ppc64le"]
    x86 = platforms("x86_64", "2.35")
    assert "manylinux_2_36_x86_64" not in x86
    assert x86[-3:] == ["manylinux_2_5_x86_64", "manylinux1_x86_64", "linux_x86_64"]


def test_resolving(runner: RecordingRunner, tmp_path: Path) -> None:
    wheels = tmp_path / "a wheel's folder"
    wheels.mkdir()
    (wheels / "b-1.0+cpu-py3-none-any.whl").write_bytes(b"wheel")
    sha256 = {"archive_info": {"hashes": {"sha256": "ab" * 32}}}
    report(
        tmp_path,
        ("b", f"file://{wheels}/b-1.0%2Bcpu-py3-none-any.whl".replace(" ", "%20"), {}),
        ("A", "https://index.example/x/A-1.0-py3-none-any.whl", sha256),
    )
    runner.answers = [completed("pip")]
    first, second = pip(runner).resolve(["b==1.0", "A==1.0"], "https://up.example", tmp_path)
    assert (first.name, first.sha256) == ("A", "ab" * 32)
    assert second.file == "b-1.0+cpu-py3-none-any.whl"
    assert second.sha256 == wheel(data=b"wheel").sha256
    call = runner.calls[0]
    assert call.argv[-2:] == ("b==1.0", "A==1.0")
    # A command line is everyone's to see, and an address may hold a password.
    assert not any("://" in word for word in call.argv)
    assert call.env is not None
    assert call.env["PIP_INDEX_URL"] == "https://index.example/simple"
    assert call.env["PIP_EXTRA_INDEX_URL"] == "https://up.example"
    assert {"--no-deps", "--only-binary=:all:", "manylinux_2_36_ppc64le", "3.11"} <= set(call.argv)
    assert call.env["PIP_CONFIG_FILE"] == "/dev/null"


def test_a_wheel_without_a_checksum(runner: RecordingRunner, tmp_path: Path) -> None:
    report(tmp_path, ("a", "https://index.example/a-1.0-py3-none-any.whl", {}))
    runner.answers = [completed("pip")]
    with pytest.raises(BuildError, match=r"no SHA-256 for a-1\.0-py3-none-any\.whl"):
        pip(runner).resolve(["a==1.0"], "", tmp_path)


@pytest.mark.parametrize("name", ["..%2F..%2Fx.whl", "..", "x.sh", "-x.whl", "a%0Ab.whl", ".whl"])
def test_names_of_wheels_that_could_lead_elsewhere(
    runner: RecordingRunner, tmp_path: Path, name: str
) -> None:
    """They become names of files of a bundle: the last part alone, and only if it is a wheel's."""
    sha256 = {"archive_info": {"hashes": {"sha256": "ab" * 32}}}
    report(tmp_path, ("a", f"https://index.example/a/{name}", sha256))
    runner.answers = [completed("pip")]
    try:
        (found,) = pip(runner).resolve(["a==1.0"], "", tmp_path)
        assert found.file == "x.whl"
    except BuildError as error:
        assert "with an invalid name" in error.what  # noqa: PT017 - either of the two is right


def test_all_missing_wheels_are_named(runner: RecordingRunner, tmp_path: Path) -> None:
    report(tmp_path)
    lost = "ERROR: Could not find a version that satisfies the requirement b==9 "
    runner.answers = [
        failed(recorded(SKIPPED)),
        failed(recorded(SKIPPED)),
        failed(f"{lost}(from versions: 1.0, 2.0)\nERROR: No matching distribution found for b==9"),
        failed(""),
        completed("pip"),
    ]
    with pytest.raises(MisfitError) as caught:
        pip(runner).resolve(["numpy==2.3.5", "a==1.0", "b==9"], "", tmp_path)
    assert caught.value.what == (
        "no wheel for Python 3.11 on ppc64le (glibc 2.36): numpy==2.3.5, b==9"
    )
    why = str(caught.value.why)
    assert "manylinux_2_27_aarch64.manylinux_2_28_aarch64" in why
    assert "a source archive" in why
    assert "b==9: the index has these versions for this machine: 1.0, 2.0" in why
    assert runner.calls[-1].argv[-1] == "a==1.0"


def test_another_failure_is_not_a_missing_wheel(runner: RecordingRunner, tmp_path: Path) -> None:
    runner.answers = [failed("ERROR: HTTP error 500 while getting U\n")]
    with pytest.raises(BuildError, match="pip can't resolve") as caught:
        pip(runner).resolve(["a==1.0"], "", tmp_path)
    assert "HTTP error 500" in str(caught.value.why)
    runner.answers = [failed("/usr/bin/python3: No module named pip\n")]
    with pytest.raises(BuildError) as caught:
        pip(runner).resolve(["a==1.0"], "", tmp_path)
    assert "ensurepip" in str(caught.value.next_step)


def test_files_of_a_pinned_version_only() -> None:
    files = skipped_files(recorded(SKIPPED), "NumPy==2.3.5")
    assert "numpy-2.3.5.tar.gz" in files
    assert all("2.3.5" in file for file in files)
    said = say_files(files, "3.11")
    assert said.startswith("there are wheels of cp311 for ")
    assert "win_amd64" in said
    assert "wheels of cp313" in said
    assert skipped_files(recorded(SKIPPED), "numpy==2.3") == []


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS", "wrong checksum"),
        ("ERROR: Could not install packages: [Errno 28] No space left on device", "no space left"),
        ("ERROR: HTTP error 404 while getting U", "cannot fetch"),
    ],
)
def test_what_can_not_be_fetched(
    runner: RecordingRunner, tmp_path: Path, said: str, message: str
) -> None:
    runner.answers = [failed(said)]
    with pytest.raises(BuildError, match=message) as caught:
        pip(runner).download([wheel()], ("", "https://up.example"), tmp_path)
    assert said in str(caught.value.why)
    assert "--require-hashes" in runner.calls[0].argv
    assert list(tmp_path.iterdir()) == []


def test_settings_as_arguments() -> None:
    settings = PipSettings(
        index="https://i.example",
        extra_indexes=("https://e.example",),
        find_links=("/a folder",),
        trusted_hosts=("h",),
        no_index=True,
        timeout="9",
        retries="evil",
    )
    assert pip_config.arguments(settings) == [
        "--index-url",
        "https://i.example",
        "--extra-index-url",
        "https://e.example",
        "--find-links",
        "/a folder",
        "--trusted-host",
        "h",
        "--no-index",
        "--timeout",
        "9",
    ]
    assert pip_config.arguments(PipSettings()) == []


@pytest.mark.usefixtures("real_processes")
def test_a_pip_of_the_current_folder_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python -m` looks into the current folder first: a project of somebody else's, say."""
    project, wheels = tmp_path / "theirs", tmp_path / "wheels"
    (project / "pip").mkdir(parents=True)
    wheels.mkdir()
    (project / "pip/__init__.py").write_text("")
    (project / "pip/__main__.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(project)
    asked = pip(
        ProcessRunner(environ={"PATH": os.environ["PATH"], "HOME": str(tmp_path)}),
        arguments=("--no-index", "--find-links", str(wheels)),
        environment={},
    )
    with pytest.raises(CommandFailedError, match="absent"):
        asked.fetch(["absent==1.0"], "", tmp_path / "to")
    assert not (tmp_path / "ran").exists()
