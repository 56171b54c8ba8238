"""The loader's search for libraries, in an image's tree: what a start point would load.

Source: man page ld.so(8), "Shared object search", "Dynamic string tokens": RPATH of the file and of
those that loaded it (only where it has no RUNPATH), LD_LIBRARY_PATH, RUNPATH, /etc/ld.so.cache, the
default folders; a library of another machine or class is passed over.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dlcontainer.image.contents import TreeEntry, links
from dlcontainer.image.contents.elf import ElfObject


@dataclass(frozen=True, kw_only=True, slots=True)
class LoaderNeed:
    """A library that a file asks for by name."""

    requester: str
    library: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MissingLibrary:
    """A need that the search does not meet; `other_machine` is a file that it passed over."""

    need: LoaderNeed
    other_machine: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedFiles:
    """What is loaded from a start on: each need with the file that meets it, and the rest.

    `names` are those by which the loader knows a file that is loaded; `inherited` is the RPATH that
    the start hands to what it loads later.
    """

    edges: Mapping[LoaderNeed, str] = field(default_factory=dict)
    missing: tuple[MissingLibrary, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    inherited: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class LoaderFolders:
    """Folders in which the loader looks for any file's libraries, by the image's own settings.

    `words` are what $LIB stands for and what $PLATFORM does.
    """

    library_path: tuple[str, ...] = ()
    configured: tuple[str, ...] = ()
    defaults: tuple[str, ...] = ()
    lib_words: tuple[str, ...] = ("lib64", "lib")
    platform: str = ""


@dataclass(kw_only=True, slots=True)
class LoaderSearch:
    """The search in one tree; `objects` are its programs and libraries by real path.

    `unreadable` are damaged ELF files: the loader meets them and fails.
    """

    entries: Mapping[str, TreeEntry]
    objects: Mapping[str, ElfObject]
    unreadable: frozenset[str]
    folders: LoaderFolders
    _real: dict[str, str | None] = field(default_factory=dict)

    def real(self, path: str) -> str | None:
        """Return the path that a path leads to through links; None where it leads nowhere."""
        if path not in self._real:
            target = links.followed(path, self.entries)
            self._real[path] = target.path if target is not None else None
        return self._real[path]

    def loaded(self, start: str, before: LoadedFiles | None = None) -> LoadedFiles:
        """Return what a start loads, breadth first as the loader does, on top of `before`."""
        before = before or LoadedFiles()
        names, edges = dict(before.names), dict[LoaderNeed, str]()
        missing: list[MissingLibrary] = []
        waiting = deque([(start, before.inherited)])
        visited = {start}
        handed = before.inherited
        while waiting:
            path, inherited = waiting.popleft()
            file = self.objects.get(path)
            if file is None:
                continue
            inherited = self._handed_on(path, file, inherited)
            if path == start:
                handed = inherited
            for name in file.needed:
                need = LoaderNeed(requester=path, library=name)
                target, mismatch = names.get(name), ""
                if target is None:
                    target, mismatch = self._searched(path, file, name, inherited)
                if target is None:
                    missing.append(MissingLibrary(need=need, other_machine=mismatch))
                    continue
                edges[need] = target
                names[name] = target
                if target not in visited:
                    visited.add(target)
                    if target in self.objects and self.objects[target].soname:
                        names.setdefault(self.objects[target].soname, target)
                    waiting.append((target, inherited))
        return LoadedFiles(edges=edges, missing=tuple(missing), names=names, inherited=handed)

    def is_by_rpath(self, need: LoaderNeed, loaded: LoadedFiles) -> bool:
        """Return whether a need is met by an RPATH: its file's own, or that of the start."""
        file = self.objects[need.requester]
        folders = self._handed_on(need.requester, file, loaded.inherited)
        target = loaded.edges[need]
        return file.runpath is None and any(
            self.real(f"{folder}/{need.library}") == target for folder in folders
        )

    def _handed_on(self, path: str, file: ElfObject, inherited: tuple[str, ...]) -> tuple[str, ...]:
        if file.runpath is not None or not file.rpath:
            return inherited
        return tuple(dict.fromkeys((*self._expanded(path, file.rpath), *inherited)))

    def _searched(
        self, path: str, file: ElfObject, name: str, inherited: tuple[str, ...]
    ) -> tuple[str | None, str]:
        """Return the file of a name, and one of another machine that was passed over."""
        mismatch = ""
        for candidate in self._candidates(path, file, name, inherited):
            target = self.real(candidate)
            if target is None or self.entries[target].kind != "-":
                continue
            library = self.objects.get(target)
            if target in self.unreadable or (library and library.form == file.form):
                return target, ""
            mismatch = mismatch or (target if library else "")
        return None, mismatch

    def _candidates(
        self, path: str, file: ElfObject, name: str, inherited: tuple[str, ...]
    ) -> Iterator[str]:
        if "/" in name:
            yield from self._expanded(path, (name,))
            return
        folders = self.folders
        if file.runpath is None:
            yield from (f"{folder}/{name}" for folder in inherited)
        yield from (f"{folder}/{name}" for folder in folders.library_path)
        yield from (f"{folder}/{name}" for folder in self._expanded(path, file.runpath or ()))
        yield from (f"{folder}/{name}" for folder in (*folders.configured, *folders.defaults))

    def _expanded(self, path: str, folders: tuple[str, ...]) -> Iterator[str]:
        """Fill in the tokens; what is not absolute depends on where a program starts."""
        origin = path.rpartition("/")[0]
        for folder in folders:
            text = folder
            for token, word in (("ORIGIN", origin), ("PLATFORM", self.folders.platform)):
                text = text.replace(f"${{{token}}}", word).replace(f"${token}", word)
            words = self.folders.lib_words if "$LIB" in text or "${LIB}" in text else ("",)
            for word in words:
                filled = text.replace("${LIB}", word).replace("$LIB", word)
                if filled.startswith("/"):
                    yield filled
