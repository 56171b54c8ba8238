"""Single files of an image of a registry, read from its layers; what a layer has is kept."""

import contextlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ValidationError

from dlcontainer.config.field_types import Arch, Strict
from dlcontainer.config.image_names import ImageReference
from dlcontainer.errors import BuildError
from dlcontainer.registry import base_image, layer_files, pull
from dlcontainer.registry.client import Client
from dlcontainer.registry.connection import RegistryAccess
from dlcontainer.registry.layer_files import Bounds, LayerFiles, RefusedLayerError
from dlcontainer.system import atomic_files, foreign_files
from dlcontainer.system.progress import Meter, Progress

# Of all layers together, packed, in bytes; the largest frameworks' images have about 10 GB.
MOST_PACKED = 64 * 10**9


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageReader:
    """How images of registries are read: the way there, and what earlier layers told."""

    access: RegistryAccess
    cache: Path
    progress: Progress
    bounds: Bounds = field(default_factory=Bounds)


class _CachedLayer(Strict):
    """The files of one layer, in the cache."""

    wanted: tuple[str, ...]
    content: dict[str, str]
    hidden: tuple[str, ...]


def read(
    reference: ImageReference, arch: Arch, paths: Collection[str], reader: ImageReader
) -> Mapping[str, str]:
    """Read files (absolute paths) of a pinned image; one that it has not is left out.

    From the last layer down, until all are settled. Raises BuildError for an image that is not
    there, a layer that is another than announced, can't be read, or has no end.
    """
    checked = base_image.check(reference, arch, reader.access)
    named = replace(reference, digest=checked.platform_digest)
    content: dict[str, str] = {}
    missing = set(paths)
    with Client(reference=named, access=reader.access) as client:
        body = pull.manifest_of(client, checked.platform_digest)
        layers = pull.layers(foreign_files.loads(body), named)
        total = sum(layers.values())
        if total > MOST_PACKED:
            raise pull.refused(named, f"its layers are {total / 1e9:.0f} GB")
        for digest, size in layers.items():
            layer = _layer(client, digest, size, sorted(paths), reader)
            content |= {path: text for path, text in layer.content.items() if path in missing}
            missing -= {*layer.content, *layer.hidden}
            if not missing:
                break
    return content


def _layer(
    client: Client, digest: str, size: int, paths: Collection[str], reader: ImageReader
) -> _CachedLayer:
    path = reader.cache / "layers" / f"{digest.removeprefix('sha256:')}.json"
    kept = _recall(path)
    if kept is not None and set(paths) <= set(kept.wanted):
        return kept
    files = LayerFiles()
    fault: RefusedLayerError | None = None
    meter = Meter(tell=reader.progress.phase, title=f"layer {digest[7:19]}", total=size)

    def look(chunks: Iterator[bytes]) -> None:
        nonlocal files, fault
        try:
            files = layer_files.read(_metered(chunks, meter), paths, reader.bounds)
        except RefusedLayerError as error:
            fault = error

    # First of all it is said if these are not the announced bytes.
    client.read_blob(digest, size, look)
    if fault is not None:
        raise _unreadable(client.reference, digest, fault)
    kept = _CachedLayer(
        wanted=tuple(paths),
        # dpkg writes UTF-8; what is none stays to be seen.
        content={path: data.decode(errors="replace") for path, data in files.content.items()},
        hidden=tuple(sorted(files.hidden)),
    )
    with contextlib.suppress(OSError):  # it is read again then
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        atomic_files.write(path, kept.model_dump_json(), mode=0o600)
    return kept


def _recall(path: Path) -> _CachedLayer | None:
    try:
        return _CachedLayer.model_validate_json(foreign_files.read(path, 4 * Bounds().file))
    except (OSError, ValidationError):
        return None


def _metered(chunks: Iterator[bytes], meter: Meter) -> Iterator[bytes]:
    done = 0
    for chunk in chunks:
        done += len(chunk)
        meter.at(done)
        yield chunk


def _unreadable(reference: ImageReference, digest: str, error: RefusedLayerError) -> BuildError:
    return BuildError(
        f"can't read layer {digest[:19]}… of the base image",
        where=str(reference),
        why=str(error),
        next_step="ask its publisher, or pin another image",
    )
