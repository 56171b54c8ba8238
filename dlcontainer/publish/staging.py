"""A version's files, written into a private folder; each gets there from what was opened before."""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer.errors import PublishError
from dlcontainer.image import sbom
from dlcontainer.publish import checksums, launch_files, module_tree, modulefiles
from dlcontainer.publish.modulefiles import Around, LastResort, Release, epoch_of
from dlcontainer.publish.offered import Offered
from dlcontainer.publish.open_folder import Folder
from dlcontainer.sites.site import Site
from dlcontainer.system import digests
from dlcontainer.system.progress import Progress

# What was looked at, each with its name, whether it holds and what was seen.
Checks = Sequence[Mapping[str, object]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Version:
    """All that a version's folder is made of; `folder` is where it will stand."""

    offered: Offered
    release: Release
    site: Site
    folder: Path
    checks: Checks
    # The site in each of its epochs, by the launch file's name.
    epochs: Mapping[str, Site]
    resort: LastResort
    templates: tuple[Path, ...]
    # How far the site got, a line each.
    reached: tuple[str, ...] = ()


def stage(version: Version, staged: Folder, progress: Progress) -> None:
    """Write a version's files; raises PublishError for an image that is not its record's."""
    staged.write(module_tree.MARK, module_tree.MARK_TEXT)
    with staged.create("image.sif") as file:
        sha256 = digests.of_open(version.offered.image, write=file.write, tell=progress.line)
    if sha256 != version.release.sha256:
        raise PublishError(
            f"{version.offered.path} is not the image of its record",
            why="the SHA-256 of what was copied is another one",
            next_step="build the image again",
        )
    progress.step("write the module: record, wrappers, launch files")
    found = {"image.sif": sha256}
    for name, data in _files(version).items():
        staged.write(name, data)
        found[name] = hashlib.sha256(data).hexdigest()
    with staged.make("bin") as folder:
        for command, text in _wrappers(version).items():
            folder.write(command, text.encode())
            found[f"bin/{command}"] = hashlib.sha256(text.encode()).hexdigest()
    with staged.make(launch_files.FOLDER) as folder:
        launches = launch_files.texts(version.epochs, version.release, list(version.templates))
        for name, text in launches.items():
            folder.write(name, text.encode())
            found[f"{launch_files.FOLDER}/{name}"] = hashlib.sha256(text.encode()).hexdigest()
    staged.write(checksums.FILE, checksums.text(found))


def _files(version: Version) -> dict[str, bytes]:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    checks = {
        "schema": "dlcontainer/checks/1",
        "finished": now,
        "image_sha256": version.release.sha256,
        "checks": list(version.checks),
    }
    lua, tcl = modulefiles.modulefiles(
        version.release, version.folder, now, list(version.templates), _around(version)
    )
    offered = version.offered
    found: dict[str, bytes | None] = {
        "record.json": offered.record.data,
        f"sbom{sbom.SUFFIX}": offered.bill,
        "build.log": offered.log,
        "checks.json": (json.dumps(checks, indent=1) + "\n").encode(),
        "module.lua": lua.encode(),
        "module.tcl": tcl.encode(),
    }
    return {name: data for name, data in found.items() if data is not None}


def _wrappers(version: Version) -> Mapping[str, str]:
    templates = list(version.templates)
    return modulefiles.wrappers(
        version.release, version.site, version.resort, templates, _around(version)
    )


def _around(version: Version) -> Around:
    found = launch_files.around(version.epochs, version.release, epoch_of(version.site))
    return replace(found, reached=version.reached)
