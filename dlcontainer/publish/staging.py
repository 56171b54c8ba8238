"""An image, its record and its site -> the draft of a release, from what was opened before."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dlcontainer.image import sbom
from dlcontainer.image.checks_file import CheckRecord, ReleaseChecks
from dlcontainer.publish import job_files, launch_files, modulefiles
from dlcontainer.publish.job_files import ReleaseJob
from dlcontainer.publish.modulefiles import (
    FallbackPrograms,
    ModuleRelease,
    WrapperContext,
    epoch_of,
)
from dlcontainer.publish.offered import PublishCandidate
from dlcontainer.publish.tree import contents
from dlcontainer.publish.tree.store import ImageKey, ReleaseDraft
from dlcontainer.publish.unpacked import listing
from dlcontainer.publish.unpacked.unpack import UnpackedTree
from dlcontainer.sites.site import Site

# The folder of a release that holds its signed evidence.
EVIDENCE = "evidence"
# What was looked at.
Checks = Sequence[CheckRecord]


@dataclass(frozen=True, kw_only=True, slots=True)
class Version:
    """All that a release is made of."""

    offered: PublishCandidate
    release: ModuleRelease
    site: Site
    checks: Checks
    # The site in each of its epochs, by the launch file's name.
    epochs: Mapping[str, Site]
    resort: FallbackPrograms
    templates: tuple[Path, ...]
    # How far the site got, a line each.
    reached: tuple[str, ...] = ()
    # Signed evidence that was verified, by file name.
    evidence: Mapping[str, bytes] = field(default_factory=dict)
    # The image unpacked, to be published in its place.
    tree: UnpackedTree | None = None


def key(version: Version) -> ImageKey:
    """Return the image of a version, which its number depends on."""
    release = version.release
    return ImageKey(name=release.name, version=release.version, sha256=release.sha256)


def numbered(version: Version, number: int) -> Version:
    """Return it as that release of its version, as its texts name it."""
    return replace(version, release=replace(version.release, number=number))


def draft(version: Version) -> ReleaseDraft:
    """Write a version's files; the same version has the same digest at any time."""
    texts = {
        **{f"bin/{command}": text for command, text in _wrappers(version).items()},
        **{f"{launch_files.FOLDER}/{name}": text for name, text in _launches(version).items()},
        **job(version).files,
    }
    return ReleaseDraft(
        name=version.release.name,
        version=version.release.version,
        image=version.offered.image,
        sha256=version.release.sha256,
        files={**_files(version), **{name: text.encode() for name, text in texts.items()}},
        tree=version.tree.path if version.tree else None,
        number=version.release.number,
    )


def job(version: Version) -> ReleaseJob:
    """Write what users of the module submit, or say why there is none."""
    return job_files.of_release(
        version.offered.record.record.content,
        version.release,
        version.site,
        contents.PLACEHOLDER / _around(version).image,
        list(version.templates),
    )


def _files(version: Version) -> dict[str, bytes]:
    checks = ReleaseChecks(
        finished=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        image_sha256=version.release.sha256,
        checks=tuple(version.checks),
        reached=tuple(version.reached),
    )
    submit = job_files.submit(version.site) if job(version).files else ""
    lua, tcl = modulefiles.modulefiles(
        version.release,
        contents.PLACEHOLDER,
        list(version.templates),
        replace(_around(version), submit=submit),
        contents.catalogue_of(contents.PLACEHOLDER),
    )
    offered = version.offered
    files: dict[str, bytes | None] = {
        "record.json": offered.record.data,
        listing.FILE: version.tree.text if version.tree else None,
        f"sbom{sbom.SUFFIX}": offered.bill,
        "build.log": offered.log,
        "checks.json": (json.dumps(checks.body, indent=1) + "\n").encode(),
        "module.lua": lua.encode(),
        "module.tcl": tcl.encode(),
        **{f"{EVIDENCE}/{name}": data for name, data in version.evidence.items()},
    }
    return {name: data for name, data in files.items() if data is not None}


def _launches(version: Version) -> Mapping[str, str]:
    return launch_files.texts(version.epochs, version.release, list(version.templates))


def _wrappers(version: Version) -> Mapping[str, str]:
    templates = list(version.templates)
    return modulefiles.wrappers(
        version.release, version.site, version.resort, templates, _around(version)
    )


def _around(version: Version) -> WrapperContext:
    wrapper = launch_files.around(version.epochs, version.release, epoch_of(version.site))
    logged = bool(version.site.modules.usage)
    image = contents.TREE if version.tree else wrapper.image
    return replace(wrapper, reached=version.reached, logged=logged, image=image)
