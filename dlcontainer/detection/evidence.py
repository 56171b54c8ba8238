"""What `collect.py` printed on a node, as a value: texts of files, answers of programs.

Anybody's job may have printed it: it is read with bounds, and nothing in it becomes a path, a name
or a command by itself.
"""

import fnmatch
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from dlcontainer.errors import ChecksFailedError
from dlcontainer.system import foreign_files

MARK = "dlcontainer-evidence "
MOST_BYTES = 32_000_000
_OURS = ConfigDict(extra="forbid")


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramAnswer:
    """What a program said, both streams; or why it said nothing."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    code: int | None = None
    out: str = ""
    error: str | None = None

    @property
    def failure(self) -> str | None:
        """Why its answer does not count; None where it does."""
        if self.error is not None:
            return self.error
        if self.code == 0:
            return None
        first = next((line.strip() for line in self.out.splitlines() if line.strip()), "")
        return f"exit code {self.code}{f': {first[:160]}' if first else ''}"


@dataclass(frozen=True, kw_only=True, slots=True)
class CxxLibrary:
    """The host's libstdc++ and the versions of its symbols."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    path: str | None = None
    versions: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeProcess:
    """What the collecting process says of itself; `namespace_error` is 0 where one was made."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    host: str = ""
    machine: str = ""
    kernel: str = ""
    libc: str | None = None
    page: int = 0
    affinity: int = 0
    umask: int = 0
    uid: int = 0
    python: str = ""
    memlock: int = 0
    nofile: int = 0
    fuse: bool = False
    namespace_error: int = 0
    subuid: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeEvidence:
    """All that was collected on one node."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    version: int = 1
    files: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    answers: Mapping[str, ProgramAnswer] = field(default_factory=dict)
    programs: Mapping[str, str] = field(default_factory=dict)
    starters: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    proxies: tuple[str, ...] = ()
    libstdcxx: CxxLibrary = field(default_factory=CxxLibrary)
    addresses: Mapping[str, str] = field(default_factory=dict)
    disks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    process: NodeProcess = field(default_factory=NodeProcess)

    def text(self, path: str) -> str | None:
        """Return a small file's text without the space around it; None where it was not read."""
        text = self.files.get(path)
        return text.strip() if text is not None else None

    def matching(self, pattern: str) -> Iterator[tuple[PurePosixPath, str]]:
        """Yield the files of a pattern, in the order of their numbers."""
        for path in sorted(fnmatch.filter(self.files, pattern), key=_natural):
            yield PurePosixPath(path), self.files[path].strip()

    def number(self, path: str) -> int | None:
        """Return the number that a file holds; None where it holds none."""
        text = self.text(path) or ""
        return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None

    def answer(self, command: str) -> ProgramAnswer:
        """Return what a program said; of one that is not here that it is missing."""
        name = command.partition(" ")[0]
        missing = ProgramAnswer(error=f"no {name} on PATH")
        return self.answers.get(command, missing)


_READER: TypeAdapter[NodeEvidence] = TypeAdapter(NodeEvidence)


def _natural(path: str) -> list[tuple[int, str]]:
    parts = re.findall(r"\d{1,18}|\D+|\d+", path)
    return [(int(part), "") if part.isdigit() and len(part) < 19 else (-1, part) for part in parts]


def read(output: str, where: str) -> NodeEvidence:
    """Read what the collecting program printed, among other lines; raises ChecksFailedError."""
    lines = [line for line in output.split("\n") if line.startswith(MARK)]
    if not lines:
        last = [line.strip() for line in output.splitlines() if line.strip()][-3:]
        raise ChecksFailedError(
            "the node said nothing of itself",
            where=where,
            why="; ".join(last)[:400] or "there was no output",
            next_step="check that the node has python3 (3.6 or newer) on PATH",
        )
    try:
        foreign_files.loads(lines[-1].removeprefix(MARK))
        # From the text, because there a list may stand for a tuple and nothing else is lenient.
        return _READER.validate_json(lines[-1].removeprefix(MARK), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except ValueError as error:
        why = str(error)
    raise ChecksFailedError(
        "the node's own words can't be read",
        where=where,
        why=why[:400],
        next_step="run `dlcontainer site detect` again, with one version of dlcontainer",
    )
