"""The files by which users meet a generation: links to releases, and texts where more is said.

All of it is in the folder before it is switched to. The modulefile of a version that warns is the
release's text with the warning after it.
"""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dlcontainer.publish import modulefiles
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.tree import generation
from dlcontainer.publish.tree.generation import (
    FILE,
    Generation,
    GenerationEntry,
    NumberedRelease,
    numbered,
)
from dlcontainer.publish.tree.layout import KINDS, MODULES, RELEASES, PublishedTree
from dlcontainer.system import foreign_files

_MOST_BYTES = 16_000_000
_RC = {"lmod": ".modulerc.lua", "tcl": ".modulerc"}
# Of Tcl's, Lmod knows the second alone.
_HIDE = {
    "lmod": 'hide_version("{module}")',
    "tcl": "if {{[llength [info commands module-hide]]}} {{module-hide {module}}} else "
    "{{hide-version {module}}}",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ModuleFile:
    """A modulefile that users see: `version` names it, and it warns where there is a text."""

    version: str
    digest: str
    warning: str = ""

    def name(self, kind: str) -> str:
        """Name its file in a module tree."""
        return f"{self.version}{KINDS[kind][0]}"

    def link(self, kind: str) -> str:
        """Write its link; from generations/N/modules/KIND/NAME the root is five up."""
        return f"../../../../../{RELEASES}/{self.digest}/{KINDS[kind][1]}"


def of(entry: GenerationEntry) -> Iterator[ModuleFile]:
    """List the modulefiles of a version: its own, and those of its releases."""
    for version, release in entry.loadable:
        says = _warnings(entry, f"{entry.name}/{version}", release)
        yield ModuleFile(version=version, digest=release.digest, warning="\n".join(says))


def _warnings(entry: GenerationEntry, module: str, release: NumberedRelease) -> Iterator[str]:
    if release.until is not None:
        newest = numbered(entry.version, entry.newest.number)
        yield (
            f"{module} was replaced by {entry.name}/{newest}, and can be loaded until "
            f"{release.until}"
        )
    warned = entry.deprecated
    if warned is not None:
        when = f" and will be removed on {warned.removal}" if warned.removal else ""
        yield f"{module} is deprecated{when}: {warned.message}"


def stage(new: Generation, tree: PublishedTree, staged: Folder) -> None:
    """Write a generation's folder: its own file, and what users see of each module."""
    staged.write(FILE, (json.dumps(generation.body_of(new), indent=1) + "\n").encode())
    with staged.make(MODULES) as modules:
        for kind in KINDS:
            with modules.make(kind) as folder:
                for name in sorted({entry.name for entry in new.entries}):
                    of_name = [entry for entry in new.entries if entry.name == name]
                    with folder.make(name) as module:
                        _stage_module(kind, of_name, tree, module)


def _stage_module(
    kind: str, entries: list[GenerationEntry], tree: PublishedTree, module: Folder
) -> None:
    for file in (file for entry in entries for file in of(entry)):
        name = file.name(kind)
        if file.warning:
            module.write(name, warned_text(tree.releases, kind, file))
        else:
            os.symlink(file.link(kind), name, dir_fd=module.number)
            tree.ownership.give_link(name, module)
    text = rc_text(kind, entries)
    if text:
        module.write(_RC[kind], text)


def expected(kind: str, entries: Iterable[GenerationEntry]) -> set[str]:
    """Name all files of one module in a module tree."""
    entries = list(entries)
    names = {file.name(kind) for entry in entries for file in of(entry)}
    return names | ({_RC[kind]} if rc_text(kind, entries) else set())


def warned_text(releases: Folder, kind: str, file: ModuleFile) -> bytes:
    """Write a modulefile that warns: the release's own, and the warning."""
    with releases.sub(file.digest) as release, release.open(KINDS[kind][1]) as opened:
        text = foreign_files.content(opened, _MOST_BYTES).rstrip(b"\n") + b"\n"
    for says in file.warning.splitlines():
        if kind == "lmod":
            nag = f'if (mode() == "load") then\n   LmodMessage({modulefiles.lua(says)})\nend\n'
        else:
            nag = (
                f"if {{[module-info mode load]}} {{\n    puts stderr {modulefiles.tcl(says)}\n}}\n"
            )
        text += b"\n" + nag.encode()
    return text


def rc_name(kind: str) -> str:
    """Name the file of defaults and aliases in a module's folder."""
    return _RC[kind]


def rc_text(kind: str, entries: Iterable[GenerationEntry]) -> bytes:
    """Write default, aliases and what no list shows, for Lmod's Lua or for Tcl; empty for none."""
    lines = []
    for entry in entries:
        if entry.hidden is not None:
            lines.append(_HIDE[kind].format(module=f"{entry.name}/{entry.hidden}"))
        for alias in (*(("default",) if entry.default else ()), *entry.aliases):
            if kind == "lmod":
                lines.append(f'module_version("{entry.module}", "{alias}")')
            else:
                lines.append(f"module-version {entry.module} {alias}")
    if not lines:
        return b""
    return "\n".join([*([] if kind == "lmod" else ["#%Module1.0"]), *lines, ""]).encode()
