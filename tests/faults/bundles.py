"""The commands that choose, write down and collect packages, and a site: a wheel or two."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from dlcontainer.config.field_types import ARCHES
from dlcontainer.detection import node_report
from dlcontainer.packages import bundle
from dlcontainer.packages import lockfile as locks
from dlcontainer.recipes import bump_journal
from dlcontainer.system.machine import read_host
from tests import aptrepo, fakeregistry, layers, wheelhouse
from tests.faults.stage import Subject, environ
from tests.integration.world import write_wheel
from tests.layers import BOOKWORM, STATUS
from tests.unit.detection import machines
from tests.values import write_yaml

_RECIPE = """\
schema: 1
name: wheels
version: "1.0"
summary: One wheel on an image, for tests
space_mb: 300
base:
  image: IMAGE
  system: {distribution: debian, release: bookworm, glibc: "2.36", python: "3.11", source: a test}
prefix: /opt/wheels
steps:
  - name: wheel
    python_packages: {packages: [dlctiny==1.0]}
exposes: [python]
verify: {script: verify.py}
"""
# Pins of a recipe over two files: the variant's list, and the version that the recipe proves.
_PINS = ("recipe.yaml", "more.yaml")
_VARIANT = """\
kind: distro
summary: The wheel, for tests
needs: {arch: [x86_64, aarch64]}
changes:
  steps:
    - name: wheel
      python_packages: {packages: [dlctiny==1.0]}
"""
_LOCK, _FOLDER = "a.lock.json", "air gap"
_PLAN = ("./recipe", "--site", "own.yaml")
_WISHES, _NEW, _OTHER = "requirements.txt", "a recipe", "another recipe"
_MAKE = (
    *("recipe", "new", "mine", "--from", _WISHES, "--extends", "./recipe"),
    *("--site", "own.yaml", "-o"),
)


@contextlib.contextmanager
def _registry(
    state: Path, files: Mapping[str, bytes] | None = None, text: str = _RECIPE
) -> Iterator[None]:
    """Serve the recipe's base, an image of files; write the recipe, its wheel and a site."""
    with fakeregistry.serving() as server:
        arch = next(arch for arch in ARCHES if arch == read_host({}).arch)
        reference = layers.put(server, [layers.packed(files or {"etc/hostname": b"x"})], arch=arch)
        recipe = state / "recipe"
        recipe.mkdir()
        (recipe / "recipe.yaml").write_text(text.replace("IMAGE", str(reference)))
        (recipe / "verify.py").write_text("")
        write_wheel(state / "wheels")
        site = {"schema": 1, "name": "own", "summary": "For tests", "arch": arch}
        wheels = {"wheels": [str(state / "wheels")]}
        write_yaml(state / "own.yaml", {**site, "default_recipe": "wheels", "routing": wheels})
        wheelhouse.wheel(state / "wheels", "dlctop", "2.0", ["dlctiny"])
        (state / _WISHES).write_text("dlctop\n")
        yield


def _lock_of(state: Path) -> object:
    """Read the lock; its time is another in each run."""
    path = state / _LOCK
    return {**json.loads(locks.as_text(locks.read(path))), "made": ""} if path.exists() else None


def _bundle_of(state: Path) -> object:
    folder = state / _FOLDER
    if not (folder / bundle.LOCK_FILE).exists():
        return None
    lock = bundle.opened(folder).lock
    return sorted(name for name, _ in bundle.named_files(lock))


def _pins_of(state: Path) -> object:
    """Read both files as the recipe's next reader does: from the journal where one is left."""
    folder = state / "recipe"
    texts = {name: (folder / name).read_text() for name in _PINS}
    journal = folder / bump_journal.FILE
    if journal.exists():
        before = json.loads(journal.read_text())["files"]
        assert all(text in before[name] for name, text in texts.items())
        texts = {name: before[name][0] for name in _PINS}
    versions = [
        version for version in ("1.0", "2.0") if f"dlctiny=={version}" in texts["more.yaml"]
    ]
    assert versions == [
        version for version in ("1.0", "2.0") if f'"{version}"}}' in texts["recipe.yaml"]
    ]
    assert len(versions) == 1
    return texts


@contextlib.contextmanager
def _newer_wheel(state: Path) -> Iterator[None]:
    """Serve a newer wheel, for a recipe whose pin and proof stand in two files."""
    with _registry(state):
        write_wheel(state / "wheels", "2.0")
        written = (state / "recipe/recipe.yaml").read_text()
        text = written.replace("verify.py}", 'verify.py, imports: {dlctiny: "1.0"}}')
        steps = text.index("steps:\n")
        rest = text.index("exposes:")
        lines = f"{text[:steps]}variants:\n  only: {{file: more.yaml}}\n{text[rest:]}"
        (state / "recipe/recipe.yaml").write_text(lines)
        (state / "recipe/more.yaml").write_text(_VARIANT)
        yield


def _recipe_of(state: Path) -> object:
    """Read the recipe; a folder without a whole one in it is half a recipe."""
    folder = state / _NEW
    if not folder.exists():
        return None
    texts = {path.name: path.read_text() for path in folder.iterdir()}
    assert "dlctop==2.0" in texts["recipe.yaml"]
    assert "dlctop" in texts["verify.py"]
    return texts


_MACHINE, _SITE, _SECOND = "machine.json", "mine.yaml", "other.yaml"
_NEW_SITE = ("site", "new", "mine", "--from-machine", "--detected", _MACHINE, "-o")


def _detected(state: Path) -> None:
    """Write what `site detect -o` does of a node."""
    facts = node_report.facts(machines.H100)
    body = node_report.Detection(taken="2026-11-27T20:00:00Z", here=facts).body()
    (state / _MACHINE).write_text(json.dumps({"schema": node_report.SCHEMA, **body}))


def _site_of(state: Path) -> object:
    path = state / _SITE
    if not path.exists():
        return None
    site = yaml.safe_load(path.read_text())
    assert site["default_recipe"]  # the last of its keys
    return site


_APT = b"Package: apt\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2.6.1\n"
_SYSTEM = "steps:\n  - {name: system, os_packages: [dlctool]}\n"


@contextlib.contextmanager
def _newer_package(state: Path) -> Iterator[None]:
    """Lock a package of a repository of ours, on an image with a dpkg; then have a newer one."""
    status = {"etc/os-release": BOOKWORM, STATUS: _APT}
    with (
        _registry(state, status, _RECIPE.replace("steps:\n", _SYSTEM)),
        tempfile.TemporaryDirectory() as folder,
        aptrepo.serving(Path(folder)) as repository,
    ):
        site = yaml.safe_load((state / "own.yaml").read_text())
        site["routing"]["apt"] = [repository.line]
        write_yaml(state / "own.yaml", site)
        repository.offer("dlchole", "1.0-1")
        repository.offer("dlctool", "3.0", "dlchole")
        repository.publish()
        argv = [str(Path(sys.executable).with_name("dlcontainer")), "lock", *_PLAN, "-o", _LOCK]
        subprocess.run(argv, cwd=state, env=environ(state, os.environ), check=True)
        repository.offer("dlchole", "1.0-2")
        repository.publish("Sat, 03 Jan 2026 00:00:00 UTC")
        yield


BUNDLES: Mapping[str, Subject] = {
    "site new": Subject(
        prepare=_detected,
        argv=(*_NEW_SITE, _SITE),
        view=_site_of,
        # A site that is there is refused.
        then=(*_NEW_SITE, _SECOND),
        ours=lambda path: path == _SECOND,
    ),
    "recipe new": Subject(
        prepare=lambda state: None,
        served=_registry,
        argv=(*_MAKE, _NEW),
        view=_recipe_of,
        # A place that is taken is refused: the next recipe removes what a killed one left.
        then=(*_MAKE, _OTHER),
        # The resolver's cache, and the next recipe.
        ours=lambda path: path.startswith(("cache/uv", _OTHER)),
    ),
    "recipe outdated": Subject(
        prepare=lambda state: None,
        served=_newer_wheel,
        argv=("recipe", "outdated", *_PLAN, "--write"),
        view=_pins_of,
        ours=lambda path: path.startswith("cache/uv"),
    ),
    "lock": Subject(
        prepare=lambda state: None,
        served=_registry,
        argv=("lock", *_PLAN, "-o", _LOCK),
        view=_lock_of,
    ),
    "lock --update": Subject(
        prepare=lambda state: None,
        served=_newer_package,
        argv=("lock", *_PLAN, "-o", _LOCK, "--update", "dlchole"),
        view=_lock_of,
    ),
    "fetch": Subject(
        prepare=lambda state: None,
        served=_registry,
        argv=("fetch", *_PLAN, "-o", _FOLDER),
        view=_bundle_of,
    ),
}
