"""Apptainer in a private prefix, with a C library of its own; the host's stays as it is.

Apptainer is in Debian's newest suite, built for a newer libc than stable releases have. So the
package is unpacked together with the libraries it needs, and its programs are patched to use the
loader and the libraries beside them.
"""

import json
import re
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from dlcontainer import installation
from dlcontainer.engine_setup import surroundings
from dlcontainer.engine_setup.aptget import PrivateApt, private_apt
from dlcontainer.engine_setup.aptsources import archive_of, read_sources, suite_of
from dlcontainer.engine_setup.commands import run
from dlcontainer.engine_setup.packages import describe, is_elf, unpack, with_libraries
from dlcontainer.engine_setup.programs import SYSTEM_FOLDERS
from dlcontainer.engine_setup.surroundings import note, say
from dlcontainer.engine_setup.trees import home_without_space, publish
from dlcontainer.errors import EngineError

NAME = "apptainer"
# For an answer to --version; a program that hangs gives none.
_VERSION_S = 30.0
_SUITES = {"debian": "sid", "ubuntu": "devel"}
# Families of distributions without apt -> the line that installs their package of Apptainer.
_INSTALLED_BY = {
    frozenset({"fedora", "rhel", "centos"}): (
        "sudo dnf install -y epel-release; sudo dnf install -y apptainer"
    ),
    frozenset({"suse", "opensuse", "sles"}): "sudo zypper install -y apptainer",
    frozenset({"arch"}): "sudo pacman -S apptainer",
    frozenset({"alpine"}): "sudo apk add apptainer",
}


def find_private(prefix: Path) -> tuple[Path, str] | None:
    """Return the private Apptainer and its version, if it is there and runs."""
    program = prefix / NAME / "usr/bin/apptainer"
    if not (prefix / NAME / "record.json").is_file():
        return None
    version = version_of(program)
    # A checkout that was moved: the loader's path inside the binaries is gone.
    return (program, version) if version else None


def version_of(program: Path | str) -> str | None:
    """Return what `--version` says, if the program runs and is Apptainer or SingularityCE.

    Debian also has a game called `singularity`.
    """
    done = run([str(program), "--version"], check=False, timeout=_VERSION_S)
    version = re.match(r"(apptainer|singularity(-ce|-pro)?) version \S+", done.stdout)
    return version[0] if done.returncode == 0 and version else None


def suite_for(os_release: Mapping[str, str]) -> str:
    """Return the suite of this distribution that has an Apptainer package."""
    for name in [os_release.get("ID", ""), *os_release.get("ID_LIKE", "").split()]:
        if name in _SUITES:
            return _SUITES[name]
    raise EngineError(
        f"no private Apptainer for {os_release.get('PRETTY_NAME', 'this distribution')}",
        why="it is put together from Debian's or Ubuntu's packages",
        next_step=advice(os_release),
    )


def advice(os_release: Mapping[str, str]) -> str:
    """Return the ways to an engine where Apptainer cannot be set up from here."""
    family = {os_release.get("ID", ""), *os_release.get("ID_LIKE", "").split()}
    options = ["on a cluster: `module load apptainer`"]
    for names, line in _INSTALLED_BY.items():
        if family & names:
            options.insert(0, f"an administrator types: {line}")
    return (
        f"one of: {'; '.join(options)}; without root: conda-forge's package apptainer, or "
        f"Apptainer's own installer: {installation.ENGINE_PAGE}"
    )


def install_private(prefix: Path, os_release: Mapping[str, str], *, programs: Path) -> Path:
    """Put Apptainer into `<prefix>/apptainer`; `programs` is a folder it shall also search."""
    suite = suite_for(os_release)
    if suite != "sid":
        note(f"suite '{suite}' of this distribution is untested")
    home = home_without_space(prefix, surroundings.environ())
    if home != prefix:
        say(f"Apptainer mounts nothing below a path with a space: it goes to {home}, with a link")
    source = archive_of(read_sources(), os_release.get("VERSION_CODENAME", ""))
    with tempfile.TemporaryDirectory(prefix="dlcontainer-apt-") as folder:
        apt = private_apt(Path(folder), sources=suite_of(source, suite))
        say(f"read the package lists of suite '{suite}' from the host's own mirror")
        apt.update()

        def build(tree: Path) -> None:
            _build(tree, apt, suite, programs)

        tree = publish(prefix, NAME, build, home=home)
    return tree / "usr/bin/apptainer"


def _build(tree: Path, apt: PrivateApt, suite: str, programs: Path) -> None:
    say("download Apptainer and the libraries it needs (about 25 MB, signatures checked)")
    debs = with_libraries(apt, ["apptainer"])
    packages = [describe(deb) for deb in debs]
    say(f"unpack it and {len(packages) - 1} packages with its libraries")
    surroundings.teller().tool(
        "unpack " + ", ".join(f"{package.name} {package.version}" for package in packages)
    )
    unpack(debs, tree)
    say("patch its programs to use the libraries beside them")
    _patch(tree, apt)
    _configure(tree, programs)
    version = version_of(tree / "usr/bin/apptainer")
    if version is None:
        done = run([str(tree / "usr/bin/apptainer"), "--version"], check=False)
        raise EngineError("the unpacked Apptainer does not run", why=done.stderr or done.stdout)
    record = {
        "version": version,
        "suite": suite,
        "date": datetime.now(UTC).date().isoformat(),
        "packages": [package.as_json() for package in packages],
    }
    (tree / "record.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _patch(tree: Path, apt: PrivateApt) -> None:
    """Let each program of the package use the tree's own loader and libraries."""
    loader = _loader(tree)
    folders = sorted({library.parent for library in tree.glob("usr/lib/*/lib*.so*")})
    path = ":".join(map(str, folders))
    patchelf = _patchelf(apt, loader, folders)
    programs = [file for file in tree.glob("usr/bin/*") if is_elf(file)]
    programs += [file for file in tree.glob("usr/lib*/**/apptainer/bin/*") if is_elf(file)]
    for program in programs:
        # RPATH, not RUNPATH: the libraries' own libraries must come from the tree as well.
        run([*patchelf, "--set-interpreter", str(loader), str(program)])
        run([*patchelf, "--force-rpath", "--set-rpath", path, str(program)])
        listed = run([str(loader), "--list", str(program)]).stdout
        foreign = foreign_libraries(listed, tree)
        if foreign:
            raise EngineError(
                f"{program.name} does not find its libraries in {tree}",
                why=f"from elsewhere or missing: {', '.join(foreign)}",
                next_step="report it with the version of your distribution",
            )


def foreign_libraries(listed: str, tree: Path) -> list[str]:
    """Return the libraries in the loader's `--list` output that are not the tree's own."""
    foreign = []
    for line in listed.splitlines():
        name, arrow, where = line.strip().partition(" => ")
        if arrow and not where.startswith(str(tree)):
            foreign.append(name)
    return foreign


def _patchelf(apt: PrivateApt, loader: Path, folders: list[Path]) -> list[str]:
    """Unpack patchelf into apt's temporary folder and return how it is started.

    It is of the same suite, so it runs on the C library that was unpacked for Apptainer.
    """
    folder = apt.folder / "patchelf"
    unpack(with_libraries(apt, ["patchelf"]), folder)
    libraries = sorted({library.parent for library in folder.glob("usr/lib/*/lib*.so*")})
    path = ":".join(map(str, [*libraries, *folders]))
    return [str(loader), "--library-path", path, str(folder / "usr/bin/patchelf")]


def _configure(tree: Path, programs: Path) -> None:
    """Make the links and folders that the moved binaries look for, and their search path."""
    # `apptainer` takes usr/ for its prefix and `starter` usr/lib/: each wants etc/ and var/ there.
    for prefix, etc in ((tree / "usr", "../etc"), (tree / "usr/lib", "../../etc")):
        (prefix / "etc").symlink_to(etc)
        (prefix / "var/lib/apptainer/mnt/session").mkdir(parents=True)
    conf = tree / "etc/apptainer/apptainer.conf"
    text = conf.read_text(encoding="utf-8")
    # The folder may come later, or never: then everything is on PATH.
    folders = ":".join(("$PATH", str(programs), *SYSTEM_FOLDERS))
    setting = f"binary path = {folders}"
    text, count = re.subn(r"(?m)^#?\s*binary path =.*$", lambda _: setting, text)
    if count != 1:
        raise EngineError(f"{conf} has no line 'binary path'", why="a new format of Apptainer's?")
    conf.write_text(text, encoding="utf-8")


def _loader(tree: Path) -> Path:
    for pattern in ("ld-linux*.so.*", "ld64.so.*"):
        for file in sorted(tree.glob(f"usr/lib*/**/{pattern}")):
            if not file.is_symlink():
                return file
    raise EngineError(f"no dynamic loader in {tree}", why="the libc6 package has another layout?")
