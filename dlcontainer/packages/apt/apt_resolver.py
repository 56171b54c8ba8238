"""apt as the judge of OS packages: it resolves and fetches them in private folders, unrooted."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from pydantic import ValidationError

from dlcontainer.errors import BuildError, MisfitError
from dlcontainer.packages.apt import apt_syntax
from dlcontainer.packages.apt.apt_config import AptSource
from dlcontainer.packages.apt.image_status import DpkgPackage
from dlcontainer.packages.lockfile import MirrorRelease, OsPin
from dlcontainer.system.machine import HostMachine, find_program
from dlcontainer.system.process import CommandFailedError, CompletedCommand, Runner

# 'URI' FILE SIZE HASH: what apt prints for each file that it would fetch.
_PRINTED = re.compile(r"^'[^']+' (\S+\.deb) \d+ ")
# The time stamp in the address of a snapshot's mirror.
_SNAPSHOT = re.compile(r"/(\d{8}T\d{6}Z)(?:/|$)")
_NOT_THERE = re.compile(
    r"^E: (?:Unable to locate package (?P<a>\S+)|Package '(?P<b>[^']+)' has no installation "
    r"candidate|Version '(?P<version>[^']+)' for '(?P<c>[^']+)' was not found)"
)
# Nothing of the host's own settings: those of the way out are given.
_CONFIG = """\
Dir::Etc::Main "/dev/null";
Dir::Etc::Parts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
Dir::Etc::SourceParts "/dev/null";
#clear APT::Architectures;
APT::Install-Recommends "false";
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
Acquire::Languages "none";
Acquire::Retries "3";
"""

_SHOWN = 6  # lines of what apt says

Stanza = Mapping[str, str]


@dataclass(kw_only=True, slots=True)
class Apt:
    """apt with folders of its own, for one architecture, as if a root tree were empty.

    What `install` resolves counts as installed for the next one. `folder` is private.
    """

    folder: Path
    arch: str
    sources: Sequence[AptSource]
    settings: Sequence[str]
    host: HostMachine
    environment: Mapping[str, str]
    runner: Runner
    on_line: Callable[[str], None]
    _installed: dict[tuple[str, str], str] = field(default_factory=dict)

    def assume(self, packages: Iterable[DpkgPackage]) -> None:
        """Count packages as installed already: an image has them."""
        for package in packages:
            self._installed[(package.name, package.arch)] = package.paragraph

    def update(self) -> None:
        """Fetch the mirrors' lists; raises BuildError where one is missing or doesn't hold."""
        for name in ("lists/partial", "cache/archives/partial"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        lines = [source.line(_text(source.keyring)) for source in self.sources]
        (self.folder / "sources.list").write_text("\n".join(lines) + "\n")
        settings = apt_syntax.setting("APT::Architecture", self.arch)
        settings += f"\nAPT::Architectures {{ {apt_syntax.quote(self.arch, where='arch')}; }};\n"
        (self.folder / "apt.conf").write_text(_CONFIG + settings + "\n".join(self.settings) + "\n")
        self._note_installed()
        try:
            self._run("apt-get", "update", on_line=self.on_line)
        except CommandFailedError as error:
            raise BuildError(
                "cannot read the package lists of the apt mirrors",
                why=_complaints(error.completed),
                next_step="check that the mirror is up and complete, or retry in a few "
                "minutes; set routing.proxy and routing.ca of the site if a proxy "
                "is between",
            ) from None

    def install(self, names: Sequence[str], *, stay: bool = True) -> tuple[OsPin, ...]:
        """Resolve what installing these would bring, sorted by name.

        Unless they `stay`, the next question is asked as if they had gone again.

        Raises MisfitError for a package that the mirrors have not for this architecture,
        BuildError for what apt can't resolve.
        """
        stanzas = self._chosen(names)
        for stanza in stanzas if stay else ():
            text = stanza[""].replace("\n", "\nStatus: install ok installed\n", 1)
            self._installed[(stanza["Package"], stanza["Architecture"])] = text
        self._note_installed()
        return _sorted_pins(stanzas)

    def upgrade(self, names: Sequence[str]) -> tuple[OsPin, ...]:
        """Resolve what newer versions of installed packages bring, sorted by name; raises as
        `install`, also where another package would have to go.
        """
        self._note_installed()
        return _sorted_pins(self._chosen(("--no-remove", *names)))

    def _chosen(self, words: Sequence[str]) -> list[Stanza]:
        """Return the paragraphs of what an installation would fetch."""
        argv = ("install", "--yes", "--print-uris", "--no-install-recommends", *words)
        try:
            done = self._run("apt-get", *argv)
        except CommandFailedError as error:
            raise self._unresolved(error.completed) from None
        files = parse_printed(done.stdout)
        return self._exact(files) if files else []

    def offered(self, names: Iterable[str]) -> list[OsPin]:
        """List all versions of some packages that the mirrors have now."""
        return [_pin(stanza) for stanza in self.stanzas(names)]

    def stanzas(self, names: Iterable[str]) -> list[Stanza]:
        """Return the mirrors' paragraphs of some packages, of each the newest first."""
        sorted_names = sorted(set(names))
        # It fails where one of the names is unknown, and shows the others all the same.
        done = self._run("apt-cache", "show", *sorted_names, check=False)
        return [stanza for stanza in parse_stanzas(done.stdout) if "SHA256" in stanza]

    def download(self, pins: Sequence[OsPin], folder: Path) -> None:
        """Fetch packages into a folder; raises BuildError where the mirror has one no more."""
        try:
            argv = ("download", *map(self._spec, pins))
            self._run("apt-get", *argv, cwd=folder, on_line=self.on_line)
        except CommandFailedError as error:
            why = _complaints(error.completed)
            full = "No space left on device" in why
            raise BuildError(
                f"no space left for {folder}" if full else "cannot fetch an OS package",
                why=why,
                next_step="free space, or name another folder with -o"
                if full
                else (
                    "retry in an hour, or lock again: the mirror is out of date or has newer "
                    "packages; `dlcontainer lock --check` lists the differences"
                ),
            ) from None

    def releases(self) -> tuple[MirrorRelease, ...]:
        """Return which states of the distribution the lists are of."""
        heads = [_head(path) for path in sorted((self.folder / "lists").glob("*Release"))]
        states = []
        for source in self.sources:
            stamp = _SNAPSHOT.search(source.uri)
            head = next((h for h in heads if source.suite in (h.get("Codename"), h["Suite"])), {})
            states.append(
                MirrorRelease(
                    suite=source.suite,
                    origin=head.get("Origin"),
                    version=head.get("Version"),
                    date=head.get("Date"),
                    snapshot=stamp[1] if stamp else None,
                )
            )
        return tuple(states)

    def _spec(self, pin: OsPin) -> str:
        suffix = "" if pin.arch in (self.arch, "all") else f":{pin.arch}"
        return f"{pin.name}{suffix}={pin.version}"

    def _exact(self, files: Sequence[tuple[str, str, str]]) -> list[Stanza]:
        specs = [
            f"{name}={version}" if arch in (self.arch, "all") else f"{name}:{arch}={version}"
            for name, version, arch in files
        ]
        done = self._run("apt-cache", "show", *specs)
        stanzas = {
            (stanza["Package"], stanza["Version"], stanza["Architecture"]): stanza
            for stanza in parse_stanzas(done.stdout)
            if "SHA256" in stanza
        }
        missing = [name for name, *rest in files if (name, *rest) not in stanzas]
        if missing:
            raise BuildError(
                f"the mirror gives no SHA-256 for {', '.join(missing)}",
                next_step="use a mirror whose lists have checksums (routing.apt of the "
                "site, or the host's apt sources)",
            )
        return [stanzas[file] for file in files]

    def _unresolved(self, completed: CompletedCommand) -> Exception:
        lost = [match for match in map(_NOT_THERE.match, _lines(completed)) if match]
        if not lost:
            return BuildError(
                f"apt can't resolve the OS packages for {self.arch}",
                why=_complaints(completed),
                next_step="fix the recipe's os_packages, or the mirrors in the host's apt sources",
            )
        names = [match["a"] or match["b"] or match["c"] for match in lost]
        versions: dict[str, list[str]] = {name: [] for name in names}
        for pin in self.offered(names):
            versions[pin.name].append(pin.version)
        places = ", ".join(f"{s.suite} {' '.join(s.components)}" for s in self.sources)
        has = [
            f"{name}: " + (", ".join(sorted(versions)) or f"no version for {self.arch} in {places}")
            for name, versions in versions.items()
        ]
        packages = ", ".join(
            f"{name}={match['version']}" if match["version"] else name
            for name, match in zip(names, lost, strict=True)
        )
        return MisfitError(
            f"no OS package {packages} for {self.arch}",
            why="\n    ".join(["", *has]),
            next_step="change os_packages of the recipe to versions that exist, or write a "
            "variant of the recipe for this architecture",
        )

    def _note_installed(self) -> None:
        (self.folder / "status").write_text("\n".join(self._installed.values()))

    def _run(
        self,
        program: str,
        *argv: str,
        cwd: Path | None = None,
        check: bool = True,
        on_line: Callable[[str], None] | None = None,
    ) -> CompletedCommand:
        path = find_program(program, self.host.environ)
        if path is None:
            raise BuildError(
                f"no {program} on PATH",
                why="dlcontainer resolves and fetches OS packages with apt",
                next_step="lock and fetch on a machine of the base's distribution",
            )
        # By argument: a folder's name may hold what a configuration file can't quote.
        folders = {
            "Dir::State": self.folder,
            "Dir::State::Lists": self.folder / "lists",
            "Dir::State::Status": self.folder / "status",
            "Dir::Cache": self.folder / "cache",
            "Dir::Etc::SourceList": self.folder / "sources.list",
        }
        options = [part for name, value in folders.items() for part in ("-o", f"{name}={value}")]
        env = {"PATH": self.host.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"}
        env |= {**self.environment, "APT_CONFIG": str(self.folder / "apt.conf")}
        command = [str(path), *options, *argv]
        return self.runner(command, env=env, cwd=cwd, check=check, on_line=on_line)


def parse_printed(text: str) -> list[tuple[str, str, str]]:
    """Read what `apt-get --print-uris` lists: name, version, architecture of each package."""
    pins = []
    for line in text.splitlines():
        match = _PRINTED.match(line)
        if match:
            name, version, arch = match[1].removesuffix(".deb").split("_")
            pins.append((name, unquote(version), arch))
    return pins


def parse_stanzas(text: str) -> list[Stanza]:
    """Read paragraphs of a package list; the whole paragraph stands under the empty name."""
    stanzas: list[Stanza] = []
    for paragraph in text.split("\n\n"):
        if paragraph.strip():
            whole = paragraph.strip("\n") + "\n"
            pairs = (line.split(":", 1) for line in whole.splitlines() if line[0] not in " \t")
            fields = {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2}
            stanzas.append({**fields, "": whole})
    return stanzas


def _sorted_pins(stanzas: Iterable[Stanza]) -> tuple[OsPin, ...]:
    return tuple(sorted(map(_pin, stanzas), key=lambda pin: (pin.name, pin.arch)))


def _pin(stanza: Stanza) -> OsPin:
    try:
        return OsPin(
            name=stanza["Package"],
            version=stanza["Version"],
            arch=stanza["Architecture"],
            sha256=stanza["SHA256"],
            size=int(stanza["Size"]),
        )
    except (KeyError, ValueError) as error:
        # ValueError: pydantic's too. The name becomes that of a file.
        why = error.errors()[0]["input"] if isinstance(error, ValidationError) else error
        raise BuildError(
            "the mirror's index has an invalid entry",
            why=repr(why)[:200],
            next_step="use another mirror (routing.apt of the site, or the host's apt sources)",
        ) from None


def _head(path: Path) -> dict[str, str]:
    head = {"Suite": ""}
    for line in path.read_text(errors="replace").splitlines():
        name, colon, value = line.partition(":")
        if colon and name in {"Origin", "Suite", "Codename", "Version", "Date"}:
            head[name] = value.strip()
        if name in {"MD5Sum", "SHA256"}:
            break
    return head


def _text(path: Path | None) -> str | None:
    return str(path) if path else None


def _lines(completed: CompletedCommand) -> list[str]:
    return [*completed.stdout.splitlines(), *completed.stderr.splitlines()]


def _complaints(completed: CompletedCommand) -> str:
    lines = _lines(completed)
    errors = [line for line in lines if line.startswith("E:")]
    more = [f"… and {len(errors) - _SHOWN} more of these"] if len(errors) > _SHOWN else []
    return "\n    ".join(["", *(errors[:_SHOWN] or lines[-_SHOWN:]), *more])
