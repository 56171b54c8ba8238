"""The native twin: what native.sh makes on this machine, and what it refuses."""

import json
import os
import platform
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.system import machine
from tests.integration import accounts
from tests.integration.world import Built, World
from tests.skips import skip


@pytest.fixture
def host() -> machine.HostMachine:
    found = machine.read_host(os.environ)
    if found.distribution not in {"debian", "ubuntu"}:
        skip(
            "a native twin needs a distribution that images have as their base",
            elsewhere="Debian or Ubuntu",
        )
    return found


def needs(*packages: str) -> None:
    for package in packages:
        query = ["dpkg-query", "-W", "-f=${Status}", package]
        done = subprocess.run(query, capture_output=True, text=True, check=False)
        if "ok installed" not in done.stdout:
            skip(f"the OS package {package} is missing, as native.sh would say")


def native(script: Path, target: Path, world: World) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["sh", str(script), str(target)],
        env=dict(world.environ),
        cwd=world.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def rendered(world: World, recipe: str | Path, folder: Path, *argv: str) -> Path:
    said = world.run(
        "render", recipe, "--site", "local", "-f", "native", "-o", f"{folder}/", *argv
    ).stdout
    script = folder / "native.sh"
    assert said == f"wrote {script}\n"
    return script


def versions(target: Path, world: World) -> dict[str, str]:
    argv = [str(target / "bin/python"), "-m", "pip", "list", "--format", "json"]
    done = subprocess.run(argv, env=dict(world.environ), capture_output=True, text=True, check=True)
    listed = {item["name"].lower(): item["version"] for item in json.loads(done.stdout)}
    return {name.replace("_", "-"): version for name, version in listed.items()}


def recorded(built: Built) -> dict[str, str]:
    return {
        wheel["name"].lower().replace("_", "-"): wheel["version"]
        for wheel in built.recorded()["python_packages"]
    }


def test_twin_of_the_tiny_image(
    host: machine.HostMachine,
    world: World,
    tiny: Path,
    wheels: Path,
    tiny_image: Built,
    tmp_path: Path,
) -> None:
    needs("python3", "python3-venv")
    user = world.having(PIP_FIND_LINKS=wheels, PYTHONPATH=tmp_path / "planted")
    target = tmp_path / "the twin's folder"
    done = native(rendered(user, tiny, tmp_path / "text"), target, user)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"answer": 42' in done.stdout
    typed = done.stdout.splitlines()[-1].partition("type: ")[2]
    assert shlex.split(typed) == [".", f"{target}/activate.sh"]
    said = versions(target, user)
    assert recorded(tiny_image) == {"dlctiny": "1.0"}
    assert said["dlctiny"] == "1.0"
    # The distribution's own Python, whatever stands first on PATH.
    python = Path(os.path.realpath(target / "bin/python"))
    assert python == Path("/usr/bin/python3").resolve()
    activated = subprocess.run(
        ["sh", "-c", '. "$1" && echo "$LANG" && command -v python', "sh", target / "activate.sh"],
        env=dict(world.environ),
        capture_output=True,
        text=True,
        check=True,
    )
    assert activated.stdout == f"C.UTF-8\n{target}/bin/python\n"


@pytest.mark.long
def test_twin_of_pytorch(
    host: machine.HostMachine, world: World, pytorch_image: Built, tmp_path: Path
) -> None:
    needs("python3", "python3-venv", "libgomp1", "ca-certificates")
    target = tmp_path / "the twin's folder"
    done = native(rendered(world, "pytorch", tmp_path / "text"), target, world)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"what": "30 training steps"' in done.stdout
    said = versions(target, world)
    wanted = recorded(pytorch_image)
    assert {name: said.get(name) for name in wanted} == wanted
    shutil.rmtree(target)


def refused(script: Path, target: Path, world: World, says: str) -> None:
    there = target.exists()
    done = native(script, target, world)
    assert done.returncode == 3, done.stdout + done.stderr
    assert done.stderr.startswith("native.sh: ")
    assert says in done.stderr
    assert target.exists() == there


def test_existing_folder_is_refused(
    host: machine.HostMachine, world: World, tiny: Path, tmp_path: Path
) -> None:
    target = tmp_path / "there"
    target.mkdir()
    (target / "mine").write_text("mine")
    refused(rendered(world, tiny, tmp_path / "text"), target, world, "something at")
    assert (target / "mine").read_text() == "mine"


def test_other_distribution_is_refused(
    host: machine.HostMachine, world: World, tiny: Path, tmp_path: Path
) -> None:
    other = "trixie" if host.release != "trixie" else "bookworm"
    setting = ("--set", "base.distribution=debian", "--set", f"base.release={other}")
    script = rendered(world, tiny, tmp_path / "text", *setting)
    refused(script, tmp_path / "target", world, f"made for debian {other}")


def test_other_architecture_is_refused(
    host: machine.HostMachine, world: World, tiny: Path, tmp_path: Path
) -> None:
    script = rendered(world, tiny, tmp_path / "text", "--set", "site.arch=ppc64le")
    if platform.machine() == "ppc64le":
        skip("this machine is a ppc64le", elsewhere="another processor")
    refused(script, tmp_path / "target", world, "made for ppc64le")


def test_missing_os_package_names_the_line_to_type(
    host: machine.HostMachine, world: World, tiny: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "a recipe"
    shutil.copytree(tiny, folder)
    text = (folder / "recipe.yaml").read_text()
    packages = "[python3, python3-venv, dlcontainer-no-such-package, another-missing-one]"
    (folder / "recipe.yaml").write_text(text.replace("[python3, python3-venv]", packages))
    script = rendered(world, folder, tmp_path / "text")
    line = "type: sudo apt-get install another-missing-one dlcontainer-no-such-package"
    refused(script, tmp_path / "target", world, line)


def test_usage(host: machine.HostMachine, world: World, tiny: Path, tmp_path: Path) -> None:
    script = rendered(world, tiny, tmp_path / "text")
    done = subprocess.run(["sh", str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "usage: sh native.sh FOLDER\n")


@pytest.fixture
def without_venv(
    world: World, host: machine.HostMachine, tmp_path: Path
) -> tuple[World, tuple[str, ...]]:
    """Give a world on a host where python3-venv was never installed, and what makes it one."""
    status = tmp_path / "status"
    stanzas = Path("/var/lib/dpkg/status").read_text().split("\n\n")
    left = [one for one in stanzas if not one.lstrip().startswith("Package: python3-venv\n")]
    status.write_text("\n\n".join(left))
    hidden = accounts.with_file(status, "/var/lib/dpkg/status")
    return replace(world, program=(*hidden, *world.program)), hidden


def test_the_plan_and_the_script_miss_the_same_packages(
    without_venv: tuple[World, tuple[str, ...]], tiny: Path, tmp_path: Path
) -> None:
    needs("python3", "python3-venv")
    world, hidden = without_venv
    notes = world.run("plan", tiny, "--site", "local").stdout
    reason = "no native twin: python3-venv is missing on this host"
    assert f"{reason} (an administrator types: apt-get install python3-venv); " in notes
    script = rendered(world, tiny, tmp_path / "script")
    done = subprocess.run(
        [*hidden, "sh", str(script), str(tmp_path / "twin")],
        env=dict(world.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert done.stderr.rstrip().endswith("type: sudo apt-get install python3-venv")


@pytest.mark.long
def test_the_unpacked_image_stands_in_for_a_twin(
    without_venv: tuple[World, tuple[str, ...]], tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    needs("python3", "python3-venv")
    world, _ = without_venv
    target, page = tmp_path / "import.jsonl", tmp_path / "report.html"
    argv = ("--image", tiny_image.image, "--recipe", tiny, "--module", "dlctiny")
    done = world.run(
        *("bench", "import", "--site", "local", *argv, "--pairs", "2", "--controls", "1"),
        *("-o", target),
    )
    said = "python3-venv is missing on this host"
    assert f"{said} (an administrator types: apt-get install python3-venv); " in done.stderr
    session = json.loads(target.read_text().splitlines()[0])
    assert session["declared"]["arms"] == ["unpacked", "container"]
    assert said in session["arms"]["unpacked"]["why"]
    world.run("report", target, "-o", page)
    assert f"The reference is the unpacked image: no native twin: {said}" in page.read_text()
