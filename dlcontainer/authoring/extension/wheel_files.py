"""Wheels -> the files of a layer, as pip would install them; nothing of a wheel runs.

Format: packaging.python.org, "Binary distribution format" (wheels), "Recording installed projects",
"Entry points".
"""

import base64
import configparser
import hashlib
import posixpath
import re
import stat
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from packaging.utils import canonicalize_name, parse_wheel_filename

from dlcontainer.authoring.extension.interpreter import PythonPaths
from dlcontainer.errors import BuildError, ChecksFailedError
from dlcontainer.system import digests

INSTALLER = "dlcontainer"
_CHUNK = 1 << 20
# Of a file that says what else to install.
_MOST_TEXT = 4_000_000
_SCRIPTS = ("console_scripts", "gui_scripts")
_ENTRY = re.compile(
    r"(?P<module>[A-Za-z_][\w.]*)\s*(?::\s*(?P<object>[A-Za-z_][\w.]*))?\s*(?:\[.*\])?"
)
_COMMAND = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*")
_START = """\
#!{python}
import sys
from {module} import {first}
if __name__ == "__main__":
    sys.exit({object}())
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerFile:
    """A file of the layer: its path in the image, and where its bytes are.

    `member` names it in the wheel; of a file that is made here `text` has its bytes.
    """

    path: str
    wheel: "WheelPlan"
    member: str | None = None
    text: bytes = b""
    is_program: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class WheelPlan:
    """A wheel that is to be installed: `info` is its folder of metadata in the image.

    `metadata` is the text of its file METADATA.
    """

    file: Path
    name: str
    version: str
    sha256: str
    info: str
    is_asked: bool
    metadata: str = ""

    @property
    def title(self) -> str:
        """Name and version."""
        return f"{self.name} {self.version}"


def plan(wheel: Path, paths: PythonPaths, python: str, *, is_asked: bool) -> list[LayerFile]:
    """List the files that a wheel installs; raises BuildError for what is no wheel.

    Its metadata come last; RECORD is written when all are laid out.
    """
    try:
        name, version, _, _ = parse_wheel_filename(wheel.name)
        with zipfile.ZipFile(wheel) as archive:
            info = _info_folder(archive, name)
            root = paths.purelib if _is_pure(archive, info) else paths.platlib
            planned = WheelPlan(
                file=wheel,
                name=name,
                version=str(version),
                sha256=digests.of_file(wheel),
                info=f"{root}/{info}",
                is_asked=is_asked,
                metadata=_text(archive, f"{info}/METADATA"),
            )
            places = _WheelScheme(root=root, info=info, paths=paths, name=name)
            files = [
                *_members(archive, places, planned),
                *_commands(archive, planned, paths, python),
            ]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, configparser.Error) as error:
        raise _unreadable(wheel, str(error)) from None
    files.append(_made(planned, "INSTALLER", f"{INSTALLER}\n"))
    if is_asked:
        files.append(_made(planned, "REQUESTED", ""))
    return files


def lay(files: Sequence[LayerFile], folder: Path, python: str, most: int) -> None:
    """Lay files out below a folder, as they will lie in the image, with the RECORD of each wheel.

    Raises ChecksFailedError where they unpack to more than `most` bytes, BuildError for a wheel
    that is damaged.
    """
    rows: dict[str, list[str]] = {}
    remaining = most
    for wheel in dict.fromkeys(file.wheel for file in files):
        with zipfile.ZipFile(wheel.file) as archive:
            for file in (file for file in files if file.wheel is wheel):
                target = folder / file.path.lstrip("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                try:
                    written = _write(archive, file, target, python, remaining)
                except (OSError, zipfile.BadZipFile, EOFError) as error:
                    raise _unreadable(wheel.file, str(error)) from None
                remaining -= written.size
                if remaining < 0:
                    raise _too_large(most)
                target.chmod(0o755 if file.is_program else 0o644)
                rows.setdefault(wheel.info, []).append(_row(file.path, wheel, written))
    for info, lines in rows.items():
        path = folder / info.lstrip("/") / "RECORD"
        row = f"{posixpath.basename(info)}/RECORD,,"
        path.write_text("".join(f"{line}\n" for line in [*sorted(lines), row]))
        path.chmod(0o644)


@dataclass(frozen=True, kw_only=True, slots=True)
class _WheelScheme:
    """Where the parts of a wheel go: `root` is the folder of modules that it is for."""

    root: str
    info: str
    paths: PythonPaths
    name: str

    def of(self, member: str) -> str | None:
        """Return where a file of the archive goes; None for what is made here."""
        parts = PurePosixPath(member).parts
        if parts[0] == self.info and parts[1:] and parts[1] in ("RECORD", "INSTALLER", "REQUESTED"):
            return None
        if not parts[0].endswith(".data"):
            return f"{self.root}/{member}"
        kinds = {
            "purelib": self.paths.purelib,
            "platlib": self.paths.platlib,
            "scripts": self.paths.scripts,
            "data": self.paths.data.rstrip("/"),
            "headers": f"{self.paths.data.rstrip('/')}/include/site/python"
            f"{self.paths.python}/{self.name}",
        }
        if len(parts) < 3 or parts[1] not in kinds:
            raise ValueError(f"it has a file of an unknown kind: {member}")
        return f"{kinds[parts[1]]}/{'/'.join(parts[2:])}"


@dataclass(frozen=True, kw_only=True, slots=True)
class _LaidFile:
    sha256: bytes
    size: int


def _members(
    archive: zipfile.ZipFile, places: _WheelScheme, wheel: WheelPlan
) -> Iterator[LayerFile]:
    for entry in archive.infolist():
        if entry.is_dir():
            continue
        _require_inside(entry.filename)
        path = places.of(entry.filename)
        if path is None:
            continue
        is_script = "/scripts/" in entry.filename and ".data/" in entry.filename
        mode = entry.external_attr >> 16
        is_program = is_script or bool(stat.S_ISREG(mode) and mode & 0o111)
        yield LayerFile(path=path, wheel=wheel, member=entry.filename, is_program=is_program)


def _require_inside(member: str) -> None:
    parts = member.split("/")
    plain = member.isprintable() and "\\" not in member and not member.startswith("/")
    if not plain or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"it has a file outside of its folders: {member!r}")


def _commands(
    archive: zipfile.ZipFile, wheel: WheelPlan, paths: PythonPaths, python: str
) -> Iterator[LayerFile]:
    """Make the commands that a wheel names: a program for each that starts its function."""
    member = f"{posixpath.basename(wheel.info)}/entry_points.txt"
    text = _text(archive, member)
    # As importlib.metadata reads it: names keep their case, and "%" means itself.
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # typeshed has one case
    parser.read_string(text)
    for section in _SCRIPTS:
        for name, value in parser.items(section) if parser.has_section(section) else ():
            match = _ENTRY.fullmatch(value.strip())
            if match is None or match["object"] is None or not _COMMAND.fullmatch(name):
                raise ValueError(f"it names a command that can't be made: {name} = {value}")
            first = match["object"].partition(".")[0]
            start = _START.format(
                python=python, module=match["module"], first=first, object=match["object"]
            )
            yield LayerFile(
                path=f"{paths.scripts}/{name}", wheel=wheel, text=start.encode(), is_program=True
            )


def commands(files: Sequence[LayerFile], paths: PythonPaths) -> list[str]:
    """Name the commands of what was asked for."""
    return [
        posixpath.basename(file.path)
        for file in files
        if file.wheel.is_asked and posixpath.dirname(file.path) == paths.scripts
    ]


def _made(wheel: WheelPlan, name: str, text: str) -> LayerFile:
    return LayerFile(path=f"{wheel.info}/{name}", wheel=wheel, text=text.encode())


def _write(
    archive: zipfile.ZipFile, file: LayerFile, target: Path, python: str, most: int
) -> _LaidFile:
    digest, size = hashlib.sha256(), 0
    with target.open("wb") as out:
        for block in _blocks(archive, file, python):
            digest.update(block)
            size += len(block)
            if size > most:
                break
            out.write(block)
    return _LaidFile(sha256=digest.digest(), size=size)


def _blocks(archive: zipfile.ZipFile, file: LayerFile, python: str) -> Iterator[bytes]:
    if file.member is None:
        yield file.text
        return
    with archive.open(file.member) as source:
        first = source.read(_CHUNK)
        if file.is_program and first.startswith(b"#!python"):
            # Wheels name no Python: the installer does.
            rest = first.partition(b"\n")
            first = f"#!{python}".encode() + rest[1] + rest[2]
        yield first
        while block := source.read(_CHUNK):
            yield block


def _row(path: str, wheel: WheelPlan, written: _LaidFile) -> str:
    relative = posixpath.relpath(path, posixpath.dirname(wheel.info))
    shown = f'"{relative}"' if "," in relative else relative
    digest = base64.urlsafe_b64encode(written.sha256).rstrip(b"=").decode()
    return f"{shown},sha256={digest},{written.size}"


def _info_folder(archive: zipfile.ZipFile, name: str) -> str:
    folders = {
        member.partition("/")[0]
        for member in archive.namelist()
        if member.partition("/")[0].endswith(".dist-info")
    }
    chosen = [folder for folder in folders if canonicalize_name(folder.partition("-")[0]) == name]
    if len(chosen) != 1 or len(folders) != 1:
        raise ValueError(f"it has the metadata of {', '.join(sorted(folders)) or 'no package'}")
    return chosen[0]


def _is_pure(archive: zipfile.ZipFile, info: str) -> bool:
    lines = _text(archive, f"{info}/WHEEL").splitlines()
    pairs: Mapping[str, str] = {
        key.strip().lower(): value.strip().lower()
        for key, _, value in (line.partition(":") for line in lines)
    }
    version = pairs.get("wheel-version", "")
    if not version.startswith("1."):
        raise ValueError(f"its format has version {version or 'unknown'}; 1.x is known")
    return pairs.get("root-is-purelib") == "true"


def _text(archive: zipfile.ZipFile, member: str) -> str:
    try:
        with archive.open(member) as file:
            return file.read(_MOST_TEXT).decode(errors="replace")
    except KeyError:
        return ""


def _unreadable(wheel: Path, why: str) -> BuildError:
    return BuildError(
        f"can't install the wheel {wheel.name}",
        why=why,
        next_step="check that the index serves this file whole: `pip download` fetches it",
    )


def _too_large(most: int) -> ChecksFailedError:
    return ChecksFailedError(
        f"the layer unpacks to more than {most / 1e9:.0f} GB",
        why="this is more than the limit, or more than the free disk space",
        next_step="use a larger disk (--tmpdir DIR), or raise the limit: --most-gb N",
    )
