"""What rules ask of an image and a site: each question is answered once, when a rule asks it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from dlcontainer.errors import ChecksFailedError
from dlcontainer.formats import apptainer_metadata
from dlcontainer.image.contents import TreeContents, TreeEntry, elf, elf_format, links, take
from dlcontainer.image.contents.elf import ElfObject
from dlcontainer.image.contents.elf_format import LEAST_BYTES
from dlcontainer.image.contents.rpm import RpmReader
from dlcontainer.image.gpu_binaries import gpu_sections
from dlcontainer.image.gpu_binaries.code_counts import DeviceCode
from dlcontainer.image.record import ImageMetadata
from dlcontainer.sites.site import Site
from dlcontainer.system.process import Runner
from dlcontainer.system.workspace import temporary
from dlcontainer.validate.static import host_brought, loader_settings, secret_places, start_points
from dlcontainer.validate.static.fabric import fabric_signs
from dlcontainer.validate.static.fabric.fabric_signs import FabricSigns
from dlcontainer.validate.static.fabric.mpi_names import families, is_of_mpi
from dlcontainer.validate.static.image_source import ImageSource
from dlcontainer.validate.static.loader import LoadedFiles, LoaderSearch
from dlcontainer.validate.static.start_points import StartPoint

_USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MOST_TEXT_BYTES = 16_000_000
# Of all that is read: beyond, the questions stay open.
_MOST_BYTES = 64_000_000_000
# Needs that the search meets, of all start points: an image has 100,000, and one made to take time
# has more.
_MOST_NEEDS = 3_000_000
# Debug symbols keep the name of their library, and none of what a loader reads.
_SYMBOLS = ".debug"
# Then follow the class (32 or 64 bits) and the order of bytes, 1 or 2 each.
_MAGIC, _HEAD = b"\x7fELF", 6


@dataclass(frozen=True, kw_only=True, slots=True)
class ElfFile:
    """A program or library: what the loader reads of it, its device code, its part in fabrics.

    `damage` says why a file that has an ELF file's name, or begins as one, can't be read.
    """

    described: ElfObject | None
    code: DeviceCode = field(default_factory=DeviceCode)
    signs: FabricSigns = field(default_factory=FabricSigns)
    damage: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class StartedFiles:
    """A start point with its real path, and what it loads."""

    start: StartPoint
    path: str
    loaded: LoadedFiles


# No slots: an answer is kept in the instance's dictionary.
@dataclass(frozen=True, kw_only=True)
class StaticQuestions:
    """An image's files, libraries, settings and record, and the site that it is held against."""

    source: ImageSource
    site: Site
    environ: Mapping[str, str]
    runner: Runner

    @cached_property
    def entries(self) -> Sequence[TreeEntry]:
        """The listing of the image's tree."""
        return self.source.tree.entries()

    @cached_property
    def by_path(self) -> Mapping[str, TreeEntry]:
        """The listing by path."""
        return {entry.path: entry for entry in self.entries}

    @cached_property
    def contents(self) -> TreeContents:
        """The packages of the image, and its vendors' libraries."""
        reader = RpmReader(runner=self.runner, environ=self.environ)
        return take(self.source.tree, reader, self.entries)

    @cached_property
    def offer(self) -> ImageMetadata | None:
        """What the image's record says that it offers; None without one."""
        return self.source.record.content.offer if self.source.record else None

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """Texts by path: what the image sets, the loader's cache, settings of its programs."""
        scripts = apptainer_metadata.ENVIRONMENT
        paths = [
            entry.path
            for entry in self.entries
            if entry.kind == "-"
            and entry.size <= _MOST_TEXT_BYTES
            and (
                entry.path in scripts
                or entry.path == loader_settings.CACHE
                or (
                    entry.size <= secret_places.MOST_BYTES and secret_places.is_settings(entry.path)
                )
            )
        ]
        with temporary(self.environ, self.runner) as folder:
            files = self.source.tree.fetch(paths, folder)
            return {
                path: file.read_text(encoding="utf-8", errors="replace")
                for path, file in files.items()
            }

    @cached_property
    def variables(self) -> Mapping[str, str]:
        """The environment that the image sets."""
        if self.source.environment is not None:
            return self.source.environment
        return apptainer_metadata.exported(self.texts)

    @cached_property
    def _starts(self) -> Sequence[StartPoint]:
        folders = loader_settings.folders_of(self.variables.get("PATH", _USUAL_PATH))
        return (
            *start_points.programs(self.entries, self.offer, folders),
            *start_points.modules(self.entries, self.offer),
        )

    def _real(self, path: str) -> TreeEntry | None:
        target = links.followed(path, self.by_path)
        return target if target is not None and target.kind == "-" else None

    @cached_property
    def files(self) -> Mapping[str, ElfFile]:
        """The image's libraries and the programs that it starts, by real path.

        Raises ChecksFailedError where they are too large to be read.
        """
        programs = [self._real(start.path) for start in self._starts if start.kind != "module"]
        libraries = {
            entry.path: entry
            for entry in self.entries
            if elf.is_library(entry) and not entry.path.endswith(_SYMBOLS)
        }
        chosen = dict(libraries)
        chosen |= {entry.path: entry for entry in programs if entry and entry.size >= LEAST_BYTES}
        size = sum(entry.size for entry in chosen.values())
        if size > _MOST_BYTES:
            raise ChecksFailedError(
                f"its programs and libraries are {size / 1e9:.0f} GB: too large to read",
                next_step="copy the image again; no image of deep learning is near that size",
            )
        described: dict[str, ElfFile | None] = {}
        for paths in batches(chosen.values(), self.source.at_once):
            with temporary(self.environ, self.runner) as folder:
                places = self.source.tree.fetch(paths, folder)
                described |= {path: elf_file(path, place) for path, place in places.items()}
        lost = ElfFile(described=None, damage="it can't be read by this user")
        return {
            **{path: lost for path in libraries if path not in described},
            **{path: file for path, file in described.items() if file is not None},
        }

    @cached_property
    def search(self) -> LoaderSearch:
        """The loader's search in the image."""
        return LoaderSearch(
            entries=self.by_path,
            objects={path: file.described for path, file in self.files.items() if file.described},
            unreadable=frozenset(path for path, file in self.files.items() if file.damage),
            folders=loader_settings.read(self.texts, self.variables, self.by_path, self.site.arch),
        )

    @cached_property
    def started(self) -> Sequence[StartedFiles]:
        """All start points that are ELF files, each with what it loads.

        A module is loaded by a Python that runs already: what that has loaded is there.
        """
        remaining = _MOST_NEEDS
        pythons: dict[str, StartedFiles] = {}
        later: list[StartedFiles] = []
        for start in self._starts:
            path = self.search.real(start.path)
            if path is None or path not in self.files:
                continue
            before = None
            if start.kind == "module":
                owner = start_points.python_of(start.path, {p: s.start for p, s in pythons.items()})
                before = pythons[owner.path].loaded if owner else None
            started = StartedFiles(start=start, path=path, loaded=self.search.loaded(path, before))
            remaining -= len(started.loaded.edges) + len(started.loaded.missing)
            if remaining < 0:
                raise ChecksFailedError(
                    f"its files need libraries more than {_MOST_NEEDS} times: no image does",
                    next_step="do not use it; ask its publisher",
                )
            if start.kind == "python":
                pythons[start.path] = started
            else:
                later.append(started)
        return (*pythons.values(), *later)

    @cached_property
    def required(self) -> frozenset[str]:
        """The files, by real path, without which something required does not start."""
        return frozenset(
            path
            for started in self.started
            if started.start.required
            for path in (started.path, *started.loaded.edges.values())
        )

    @cached_property
    def mpi_users(self) -> Mapping[str, Sequence[str]]:
        """The MPI libraries that files ask for by name, each with the files."""
        users: dict[str, set[str]] = {}
        for started in self.started:
            needs = [*started.loaded.edges, *(lost.need for lost in started.loaded.missing)]
            for need in needs:
                if families(need.library) and not is_of_mpi(need.requester):
                    users.setdefault(need.library, set()).add(need.requester)
        return {name: sorted(files) for name, files in sorted(users.items())}

    def is_brought(self, name: str) -> bool:
        """Return whether the host puts a library of this name into the image."""
        return host_brought.brings(self.site, name)

    @cached_property
    def core(self) -> frozenset[str]:
        """The required files that lie in the package of a framework, not beside it: PyTorch's own
        libraries, and none of NVIDIA's.
        """
        folders = [
            start_points.package_folder(started.start.path)
            for started in self.started
            if started.start.required and started.start.kind == "module"
        ]
        return frozenset(
            path for path in self.required if any(path.startswith(folder) for folder in folders)
        )


def batches(entries: Iterable[TreeEntry], most: int) -> Iterator[list[str]]:
    """Divide files into lists of so many bytes; a larger file is one by itself."""
    paths: list[str] = []
    size = 0
    for entry in entries:
        if paths and size + entry.size > most:
            yield paths
            paths, size = [], 0
        paths.append(entry.path)
        size += entry.size
    if paths:
        yield paths


def elf_file(path: str, place: Path) -> ElfFile | None:
    """Read a file, of the image by its path, or the host's; None for what is no ELF file: a script,
    a linker's text.

    Zeros are no text: a copy that was cut short leaves them.
    """
    try:
        with place.open("rb") as file:
            head = file.read(_HEAD)
        if head == bytes(_HEAD) or (head.startswith(_MAGIC) and not set(head[4:]) <= {1, 2}):
            raise ValueError("it begins as no library does: a copy that was cut short?")
        if not head.startswith(_MAGIC):
            return None
        described = elf.read_object(place)
        return ElfFile(
            described=described, code=gpu_sections.read(place), signs=_signs(path, place)
        )
    except (OSError, ValueError) as error:
        return ElfFile(described=None, damage=str(error))


def _signs(path: str, place: Path) -> FabricSigns:
    """Read what tells of fabrics; nothing of a file whose sections lie."""
    try:
        with elf_format.mapped(place) as data:
            form = elf_format.form(data)
            name = path.rpartition("/")[2]
            return fabric_signs.read(name, data, form) if form else FabricSigns()
    except elf_format.DAMAGE:
        return FabricSigns()
