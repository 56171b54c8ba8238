"""What an extended image says of itself: content, manifest, labels, bill, and the proofs."""

import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from dlcontainer import __version__
from dlcontainer.adopt import given, layer
from dlcontainer.adopt.given import AdoptionSource
from dlcontainer.authoring import verify_text
from dlcontainer.authoring.extension.base_survey import LABELS, BaseSurvey
from dlcontainer.authoring.extension.wheel_files import INSTALLER, LayerFile, WheelPlan
from dlcontainer.authoring.module_names import WheelModules
from dlcontainer.config.resources import probe_files
from dlcontainer.formats import apptainer_metadata, labels, pack_commands
from dlcontainer.image import layout, libraries, sbom
from dlcontainer.image.contents import InstalledPackage, Library, python
from dlcontainer.packages.resolve.resolution import Resolution
from dlcontainer.sites.site import Site
from dlcontainer.system import digests

DEFINITION = "layer.def"
# Of the engine that built the base.
_OF_BUILD = ("org.label-schema.build-", "org.label-schema.usage")
# The layer's folder takes the place of what describes the base; all else is new.
_SETUP = """\
Bootstrap: localimage
From: {image}

%setup
    set -eu
    umask 022
    root="${{APPTAINER_ROOTFS:-$SINGULARITY_ROOTFS}}"
    rm -rf "$root{probe}"
    cp -R --preserve=timestamps "$DLC_LAYER/." "$root/"
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedImage:
    """How the new image is called, and for which site it is."""

    name: str
    version: str
    site: Site


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerContents:
    """What a layer brings: its files, the modules that are imported, commands, shared libraries."""

    files: Sequence[LayerFile]
    modules: Sequence[WheelModules]
    commands: Sequence[str]
    wishes: Sequence[str]
    resolution: Resolution
    libraries: Sequence[Library] = ()

    @property
    def wheels(self) -> list[WheelPlan]:
        """The wheels, each once."""
        return list(dict.fromkeys(file.wheel for file in self.files))

    @property
    def module_names(self) -> list[str]:
        """The modules that prove the layer."""
        return list(dict.fromkeys(name for wheel in self.modules for name in wheel.modules))


def content(
    image: NamedImage, base: BaseSurvey, layer_contents: LayerContents
) -> dict[str, object]:
    """Return all that makes the extended image, as its manifest and its record have it."""
    site = image.site
    below = _below(base)
    return {
        "site": site.name,
        **({"epoch": site.epoch} if site.epoch else {}),
        **({"node_type": site.node_type} if site.node_type else {}),
        "extended": {
            "name": image.name,
            "version": image.version,
            "summary": _summary(base, layer_contents),
            **{key: below[key] for key in ("homepage", "license") if below.get(key)},
            "python": base.interpreter.path,
            "prefix": base.interpreter.prefix,
            "exposes": list(dict.fromkeys([*below["exposes"], *layer_contents.commands])),
            "verify": {
                "imports": below["imports"] | _imports(layer_contents),
                "before": [{"recipe": name} for name in below["before"]],
            },
            "stack": below["stack"],
            "glibc": base.glibc,
            "sets": sorted(apptainer_metadata.exported(base.texts)),
            "base": below["base"],
            "layer": {
                "wishes": list(layer_contents.wishes),
                "resolver": layer_contents.resolution.resolver,
                "python_packages": [
                    {"name": wheel.name, "version": wheel.version, "sha256": wheel.sha256}
                    for wheel in layer_contents.wheels
                ],
                "modules": layer_contents.module_names,
                "commands": list(layer_contents.commands),
            },
        },
        "environment": below["environment"],
        "probe": {path.name: digests.of_file(path) for path in probe_files()},
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class BaseName:
    """How the base is called: by its record, or after its file."""

    name: str
    version: str


def named(base: BaseSurvey) -> BaseName:
    """Name the base."""
    below = _below(base)["base"]
    return BaseName(name=str(below["name"]), version=str(below["version"]))


def proofs_before(base: BaseSurvey) -> Sequence[str]:
    """Name the recipes whose proofs run before the layer's own."""
    return list(_below(base)["before"])


def _below(base: BaseSurvey) -> dict[str, Any]:
    """Return what of the base goes into the new image's content."""
    image = base.image
    identity = {"sha256": image.sha256, "tree_sha256": image.tree_sha256}
    if image.record is None:
        source = AdoptionSource(kind="sif", path=image.path)
        name, version = given.name_of(source, f"sha256:{image.sha256}")
        return {
            "exposes": list(base.interpreter.commands),
            "imports": dict(base.interpreter.frameworks),
            "before": [],
            "stack": layer.stack(base.survey),
            "environment": {},
            "base": {"name": name, "version": version, **identity, "seen": asdict(base.survey)},
        }
    written, offer = image.record.record, image.record.record.content.offer
    is_ours = not written.content.is_foreign
    has_proof = layout.VERIFY in base.texts
    before = [proof.recipe for proof in offer.verify.before]
    return {
        "homepage": offer.homepage,
        "license": offer.license,
        "summary": offer.summary,
        "exposes": list(offer.exposes),
        "imports": dict(offer.verify.imports),
        "before": [*before, *([offer.name] if has_proof else [])],
        "stack": _made(image.record.body).get("stack", {}),
        "environment": dict(written.content.environment),
        "base": {
            "name": offer.name,
            "version": offer.version,
            **identity,
            **({"digest": written.digest} if is_ours else {}),
            "content": image.record.body["content"],
        },
    }


def _made(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a record's content that says what was made."""
    kinds = ("recipe", "adopted", "extended")
    return next(body["content"][kind] for kind in kinds if body["content"].get(kind))


def _summary(base: BaseSurvey, layer_contents: LayerContents) -> str:
    wished = [wheel.name for wheel in layer_contents.wheels if wheel.is_asked]
    more = f" and {len(wished) - 3} more" if len(wished) > 3 else ""
    below = _below(base)
    head = below.get("summary") or f"{below['base']['name']}, an image of others"
    return f"{head}; with {', '.join(wished[:3]) or 'packages'}{more}"


def _imports(layer_contents: LayerContents) -> dict[str, str]:
    """Promise the versions of modules whose file states just the wheel's."""
    versions = {wheel.name: wheel.version for wheel in layer_contents.wheels}
    return {
        module: stated
        for wheel in layer_contents.modules
        for module, stated in wheel.versions.items()
        if stated == versions.get(wheel.package)
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class MadeImage:
    """What an image is made of: its content, the layer that it gets, its bill of materials."""

    content: Mapping[str, Any]
    layer: LayerContents
    bill: str


def write(folder: Path, image: NamedImage, new: MadeImage, base: BaseSurvey) -> None:
    """Write what describes the image below a folder, as it will lie in the image."""
    for path, data in _files(new, base):
        target = folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        target.chmod(0o644)
    for point in layer.mount_points(image.site, base.entries):
        (folder / point.lstrip("/")).mkdir(parents=True, exist_ok=True)
    for below in (folder, *folder.rglob("*")):
        if below.is_dir():
            below.chmod(0o755)


def _files(new: MadeImage, base: BaseSurvey) -> Iterator[tuple[str, bytes]]:
    extended = new.content["extended"]
    digest = layer.digest(new.content)
    manifest = {
        "schema": "dlcontainer/manifest/1",
        "dlcontainer": __version__,
        "digest": digest,
        "python": extended["python"],
        "verify": layout.VERIFY,
        "content": new.content,
    }
    yield layout.MANIFEST, _json(manifest)
    yield layout.VERIFY, verify_text.text(new.layer.module_names).encode()
    if layout.VERIFY in base.texts and extended["verify"]["before"]:
        name = extended["verify"]["before"][-1]["recipe"]
        yield layout.proof(name), base.texts[layout.VERIFY].encode()
    for path in probe_files():
        yield f"{layout.PROBE}/{path.name}", path.read_bytes()
    yield layout.SBOM, new.bill.encode()
    yield layout.PROVENANCE, _json(_provenance(new.content, base))
    if layout.LIBRARIES in base.texts:
        libraries_listed = (*libraries.read(base.texts[layout.LIBRARIES]), *new.layer.libraries)
        listed = sorted(libraries_listed, key=lambda library: library.path)
        yield layout.LIBRARIES, libraries.render(listed).encode()
    yield LABELS, _json(_labels(new.content, base, digest))
    prefix = extended["prefix"]
    if base.image.record is None and prefix not in layer.USUAL:
        yield layer.ENVIRONMENT, f'export PATH="{prefix}/bin:$PATH"\n'.encode()


def _provenance(content: Mapping[str, Any], base: BaseSurvey) -> dict[str, object]:
    """Return of what the image is made; the base's own provenance stands in it whole."""
    below = base.json(layout.PROVENANCE)
    return {
        "schema": "dlcontainer/provenance/1",
        "plan": {"digest": layer.digest(content), "content": content},
        "base": {"sha256": base.image.sha256, "tree_sha256": base.image.tree_sha256, "image": None},
        "below": below or None,
        **{key: below[key] for key in ("pack", "slim") if key in below},
        "tools": {"dlcontainer": __version__},
    }


def _labels(content: Mapping[str, Any], base: BaseSurvey, digest: str) -> dict[str, str]:
    extended = content["extended"]
    kept = {
        key: value
        for key, value in base.json(LABELS).items()
        if isinstance(value, str) and not key.startswith((*_OF_BUILD, f"{labels.PREFIX}."))
    }
    return kept | {
        "org.opencontainers.image.title": extended["name"],
        "org.opencontainers.image.version": extended["version"],
        "org.opencontainers.image.description": extended["summary"],
        f"{labels.PREFIX}.digest": f"sha256:{digest}",
        f"{labels.PREFIX}.extended": f"sha256:{base.image.sha256}",
        f"{labels.PREFIX}.site": content["site"],
    }


def bill(image: NamedImage, digest: str, base: BaseSurvey, layer_contents: LayerContents) -> str:
    """Return the bill of materials: each package is marked as the base's or the layer's."""
    packages = [replace(package, part="base") for package in base.contents.packages]
    packages += [_installed(wheel) for wheel in layer_contents.wheels]
    contents = replace(base.contents, packages=tuple(packages))
    subject = sbom.BillSubject(
        name=image.name, version=image.version, digest=digest, arch=image.site.arch
    )
    return sbom.render(subject, contents, _pack(base))


def _installed(wheel: WheelPlan) -> InstalledPackage:
    license_, needs = python.stated(wheel.metadata, f"{wheel.info}/METADATA")
    return InstalledPackage(
        kind="pypi",
        name=wheel.name,
        version=wheel.version,
        places=(posixpath.dirname(wheel.info),),
        details=(("installer", INSTALLER),),
        sha256=wheel.sha256,
        license=license_,
        needs=needs,
        part="layer",
    )


def _pack(base: BaseSurvey) -> Mapping[str, str]:
    """Return the base's module pack, which no database lists: its file and SHA-256."""
    try:
        packed = pack_commands.read(base.texts[layout.PACK])
    except (KeyError, ValueError, TypeError):
        return {}
    return {packed.file: packed.sha256} if packed.file else {}


def definition(image: Path) -> str:
    """Return the definition that lays a folder over an image; no program of it runs."""
    return _SETUP.format(image=image.name, probe=layout.PROBE)


def _json(body: object) -> bytes:
    return (json.dumps(body, indent=1, sort_keys=True) + "\n").encode()
