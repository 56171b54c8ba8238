"""The end of a build: the image learns what is in it and where it comes from."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from dlcontainer.build import provenance
from dlcontainer.build.backends.backend import BuildBackend
from dlcontainer.build.build_steps import BuildStep
from dlcontainer.build.provenance import BuildSources
from dlcontainer.formats import pack_commands, slim_commands
from dlcontainer.formats.pack_commands import ModulePack
from dlcontainer.image import contents, layout, sbom
from dlcontainer.image import libraries as image_libraries
from dlcontainer.image.contents import FileTree, Library, TreeEntry, elf
from dlcontainer.image.contents.rpm import RpmReader
from dlcontainer.planning.plan import Plan
from dlcontainer.system.machine import source_date

# What stands here belongs to packages of the distribution, whose versions say as much.
_OF_PACKAGES = ("/usr/lib", "/lib", "/usr/libexec", "/usr/share")


@dataclass(frozen=True, kw_only=True, slots=True)
class Description:
    """What an image says of itself: the bill's file, and the provenance for the record."""

    sbom: Path
    provenance: Mapping[str, object]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ingredients:
    """What an image was made of: the provenance, and the sources that it was gathered of.

    `debs` are the .deb files of a lock: name, version, arch -> SHA-256.
    """

    sources: BuildSources
    provenance: Mapping[str, object]
    wheels: tuple[Mapping[str, str], ...]
    debs: Mapping[tuple[str, str, str], str] = field(default_factory=dict)


def describe(
    plan: Plan, backend: BuildBackend, ingredients: Ingredients, work: Path
) -> Description:
    """Take down what is in the tree, and put that and its provenance in as the last thing.

    `work` is a private folder. Raises CommandFailedError as any step does.
    """
    sources, body = ingredients.sources, dict(ingredients.provenance)
    tree = backend.files()
    reader = RpmReader(runner=sources.runner, environ=sources.environ)
    entries = tree.entries()
    inventory = sbom.with_hashes(
        contents.take(tree, reader, entries), ingredients.wheels, ingredients.debs
    )
    folder = work / "described"
    folder.mkdir()
    if plan.recipe.slim:
        body["slim"] = removed(tree, folder)
    packed = _packed(tree, folder) if plan.has_pack else None
    if packed:
        body["pack"] = asdict(packed)
    generated = {packed.file: packed.sha256} if packed and packed.file else {}
    texts = {
        layout.SBOM: sbom.render(_subject(plan, sources), inventory, generated),
        layout.PROVENANCE: provenance.render(body),
        layout.LIBRARIES: image_libraries.render(libraries(tree, entries, folder)),
    }
    files = []
    for target, text in texts.items():
        path = folder / target.rpartition("/")[2]
        path.write_text(text)
        files.append((path, target))
    step = BuildStep(
        name="describe", number=1, total=1, script="", files=tuple(files), inputs={}, key=""
    )
    backend.run(step)
    return Description(sbom=files[0][0], provenance=body, notes=inventory.notes)


def libraries(tree: FileTree, entries: Iterable[TreeEntry], folder: Path) -> tuple[Library, ...]:
    """List the shared libraries that no package of the distribution brought."""
    paths = [entry.path for entry in entries if _is_own(entry)]
    return elf.libraries(tree.fetch(paths, folder))


def removed(tree: FileTree, folder: Path) -> dict[str, object]:
    """Return what the step `slim` has removed, by name."""
    report = tree.fetch([slim_commands.REPORT], folder)[slim_commands.REPORT]
    return {
        name: asdict(removed_files)
        for name, removed_files in slim_commands.read(report.read_text()).items()
    }


def _packed(tree: FileTree, folder: Path) -> ModulePack:
    report = tree.fetch([layout.PACK], folder)[layout.PACK]
    return pack_commands.read(report.read_text())


def _is_own(entry: TreeEntry) -> bool:
    return elf.is_library(entry) and not entry.path.startswith(
        tuple(f"{folder}/" for folder in _OF_PACKAGES)
    )


def _subject(plan: Plan, sources: BuildSources) -> sbom.BillSubject:
    return sbom.BillSubject(
        name=plan.name,
        version=plan.recipe.version,
        digest=plan.digest,
        arch=plan.site.arch,
        moment=source_date(sources.environ),
    )
