"""The thin layer over an adopted image: its record inside, the probe, mount points, the path."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import get_args

from dlcontainer import __version__
from dlcontainer.config.field_types import MpiFamily
from dlcontainer.config.resources import probe_files
from dlcontainer.formats import apptainer_metadata, labels
from dlcontainer.image import layout
from dlcontainer.image.contents import TreeEntry
from dlcontainer.image.contents.image_survey import ImageSurvey, Interpreter
from dlcontainer.sites.site import Site
from dlcontainer.system import digests

# Between the definition's own environment (90) and the engine's applications (94).
ENVIRONMENT = f"{apptainer_metadata.FOLDER}/env/93-dlcontainer.sh"
# On every image's search path already.
USUAL = ("/usr", "/usr/local")
DEFINITION = "layer.def"


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageOrigin:
    """Where an image came from, as it is written down, and the digest that names it."""

    source: str
    digest: str
    name: str
    version: str


def content(
    origin: ImageOrigin,
    site: Site,
    survey: ImageSurvey,
    commands: Sequence[str],
    sets: Sequence[str],
) -> dict[str, object]:
    """Return all that makes the adopted image; `sets` are the variables that the image sets."""
    python = survey.interpreters[0]
    summary = f"{origin.name} {origin.version}, adopted: its recipe is unknown"
    return {
        "site": site.name,
        **({"epoch": site.epoch} if site.epoch else {}),
        **({"node_type": site.node_type} if site.node_type else {}),
        "adopted": {
            "name": origin.name,
            "version": origin.version,
            "summary": summary,
            "source": origin.source,
            "digest": origin.digest,
            "python": python.path,
            "prefix": python.prefix,
            "exposes": list(dict.fromkeys([*python.commands, *commands])),
            "verify": {"imports": dict(python.frameworks)},
            "stack": stack(survey),
            "glibc": survey.glibc,
            "recipe": "unknown",
            "sets": sorted(sets),
            "seen": asdict(survey),
        },
        "environment": {},
        "probe": {path.name: digests.of_file(path) for path in probe_files()},
    }


def stack(survey: ImageSurvey) -> dict[str, object]:
    """Return the MPI as a recipe states its own, where all that is known is of one family."""
    families = {library.family for library in survey.mpi}
    listed = families & set(get_args(MpiFamily))
    return {"mpi": {"family": families.pop()}} if len(families) == 1 and listed else {}


def digest(content: Mapping[str, object]) -> str:
    """Return the digest of a content, as plans have theirs."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def write(folder: Path, content: Mapping[str, object], site: Site, entries: Sequence[TreeEntry],
          python: Interpreter) -> None:  # fmt: skip
    """Write the layer's files below an empty folder, as they will lie in the image."""
    for path, data in _files(content, python):
        target = folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        target.chmod(0o644)
    for point in mount_points(site, entries):
        (folder / point.lstrip("/")).mkdir(parents=True, exist_ok=True)
    for below in (folder, *folder.rglob("*")):
        if below.is_dir():
            below.chmod(0o755)


def _files(content: Mapping[str, object], python: Interpreter) -> Iterator[tuple[str, bytes]]:
    manifest = {
        "schema": "dlcontainer/manifest/1",
        "dlcontainer": __version__,
        "digest": digest(content),
        "python": python.path,
        "verify": "",
        "content": content,
    }
    yield layout.MANIFEST, (json.dumps(manifest, indent=1, sort_keys=True) + "\n").encode()
    for path in probe_files():
        yield f"{layout.PROBE}/{path.name}", path.read_bytes()
    if python.prefix not in USUAL:
        # A path that the record's type takes needs no quotes.
        yield ENVIRONMENT, f'export PATH="{python.prefix}/bin:$PATH"\n'.encode()


def mount_points(site: Site, entries: Sequence[TreeEntry]) -> list[str]:
    """Name the site's folders that are missing in the image and lie below no link or file of it."""
    kinds = {entry.path: entry.kind for entry in entries}
    points = [layout.ROUTING_FOLDER, *(system.path for system in site.filesystems)]
    missing = []
    for point in points:
        above = [str(folder) for folder in PurePosixPath(point).parents]
        if point not in kinds and all(kinds.get(folder, "d") == "d" for folder in above):
            missing.append(point)
    return sorted(set(missing))


def definition(image: Path, content: Mapping[str, object], origin: ImageOrigin) -> str:
    """Return the definition file that lays the layer over an image; no program of it runs."""
    variables = {
        f"{labels.PREFIX}.adopted": origin.digest,
        f"{labels.PREFIX}.digest": f"sha256:{digest(content)}",
    }
    lines = [f"    {key} {value}" for key, value in variables.items()]
    return (
        f"Bootstrap: localimage\nFrom: {image.name}\n\n%setup\n    set -eu\n"
        '    cp -R "$DLC_LAYER/." "${APPTAINER_ROOTFS:-$SINGULARITY_ROOTFS}/"\n\n%labels\n'
        + "\n".join(lines)
        + "\n"
    )
