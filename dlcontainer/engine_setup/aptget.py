"""apt-get: the host's own, and a private one that changes nothing on the host."""

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.engine_setup import surroundings
from dlcontainer.engine_setup.commands import run, stream
from dlcontainer.errors import EngineError

# A package whose replacement would replace the C library under every program of the host.
_LIBC = re.compile(r"^(libc\d+(\.\d+)?|libc-bin)(:\w+)?$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Simulation:
    """What `apt-get -s install` says it would do."""

    installs: tuple[str, ...]  # new packages and upgrades alike
    removes: tuple[str, ...]

    def refusal(self) -> str | None:
        """Return why this must not be done on the host, or return None where it may."""
        libc = [name for name in (*self.installs, *self.removes) if _LIBC.match(name)]
        if libc:
            return f"it would replace the host's C library ({', '.join(libc)})"
        if self.removes:
            return f"it would remove {', '.join(self.removes)}"
        return None


def parse_simulation(text: str) -> Simulation:
    """Read the `Inst` and `Remv` lines of `apt-get -s install`."""
    words = [line.split() for line in text.splitlines()]
    return Simulation(
        installs=tuple(line[1] for line in words if len(line) > 1 and line[0] == "Inst"),
        removes=tuple(line[1] for line in words if len(line) > 1 and line[0] in {"Remv", "Purg"}),
    )


def available() -> bool:
    """Return whether this machine has apt-get and dpkg-deb."""
    path = surroundings.environ().get("PATH", os.defpath)
    return all(shutil.which(name, path=path) for name in ("apt-get", "dpkg-deb"))


def simulate(names: Sequence[str], *, conf: Path | None = None) -> Simulation | None:
    """Ask apt what installing would do; None where a package is unknown or cannot be installed."""
    config = ["-c", str(conf)] if conf else []
    done = run(
        ["apt-get", *config, "-s", "install", "--no-install-recommends", *names], check=False
    )
    return parse_simulation(done.stdout) if done.returncode == 0 else None


def install(root: Sequence[str], names: Sequence[str]) -> None:
    """Install packages on the host, unless that would touch its libc or remove anything."""
    simulation = simulate(names)
    if simulation is None:
        # A container image ships without package lists; a mirror drops superseded versions.
        stream([*root, "apt-get", "update"], what="apt-get reads the package lists")
        simulation = simulate(names)
    if simulation is None:
        raise EngineError(f"the host's apt sources cannot install {' '.join(names)}")
    refusal = simulation.refusal()
    if refusal:
        raise EngineError(f"not installing {' '.join(names)}", why=refusal)
    stream(
        [
            *root,
            "env",
            "DEBIAN_FRONTEND=noninteractive",
            "apt-get",
            "-o",
            "DPkg::Lock::Timeout=300",
            "install",
            "-y",
            "--no-install-recommends",
            *names,
        ],
        what=f"apt-get installs {', '.join(names)}",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class PrivateApt:
    """An apt with its own lists and cache in `folder`; proxies and TLS settings stay the host's."""

    folder: Path
    conf: Path

    def update(self) -> None:
        """Fetch the package lists and check their signatures."""
        run(["apt-get", "-c", str(self.conf), "update"])

    def simulate(self, names: Sequence[str]) -> Simulation | None:
        """Ask what installing would take."""
        return simulate(names, conf=self.conf)

    def download(self, names: Sequence[str]) -> list[Path]:
        """Download packages, checked against the signed lists; return the new `.deb` files."""
        debs = self.folder / "debs"
        debs.mkdir(exist_ok=True)
        before = set(debs.iterdir())
        run(["apt-get", "-c", str(self.conf), "download", *names], cwd=debs)
        return sorted(set(debs.iterdir()) - before)


def private_apt(folder: Path, *, sources: str | None) -> PrivateApt:
    """Make a private apt in `folder` (no quotes or line ends in its path).

    With `sources` (deb822 text) only these count, on a machine with nothing installed; without,
    the host's own sources, and what the host has installed counts as installed.
    """
    for name in ("lists/partial", "archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "no-status").touch()
    if sources is not None:
        (folder / "private.sources").write_text(sources, encoding="utf-8")
    conf = folder / "apt.conf"
    conf.write_text(config_text(folder, own_sources=sources is not None), encoding="utf-8")
    # apt's download methods run as the user _apt, which must be able to enter.
    os.chmod(folder, 0o755)  # noqa: PTH101, S103
    return PrivateApt(folder=folder, conf=conf)


def config_text(folder: Path, *, own_sources: bool) -> str:
    """Write the private configuration: read with `-c`, that is after (and over) the host's."""
    settings = [
        ("Dir::State", str(folder)),
        ("Dir::State::lists", str(folder / "lists")),
        ("Dir::Cache", str(folder)),
        ("Dir::Cache::archives", str(folder / "archives")),
        ("APT::Update::Error-Mode", "any"),
        ("Acquire::Retries", "3"),
        ("Acquire::Languages", "none"),
        # A host that waived signatures for a source of its own has not waived them for us.
        ("APT::Get::AllowUnauthenticated", "false"),
        ("Acquire::AllowInsecureRepositories", "false"),
        ("Acquire::AllowWeakRepositories", "false"),
        ("Acquire::AllowDowngradeToInsecureRepositories", "false"),
    ]
    if own_sources:
        settings += [
            ("Dir::State::status", str(folder / "no-status")),
            ("Dir::Etc::sourcelist", str(folder / "private.sources")),
            ("Dir::Etc::sourceparts", "/dev/null"),
            # The host's pins are about the host's suites.
            ("Dir::Etc::preferences", "/dev/null"),
            ("Dir::Etc::preferencesparts", "/dev/null"),
        ]
    else:
        settings.append(("Dir::State::status", "/var/lib/dpkg/status"))
    # The host's hooks are about the host's state.
    hooks = [
        "APT::Update::Pre-Invoke",
        "APT::Update::Post-Invoke",
        "APT::Update::Post-Invoke-Success",
    ]
    return "".join(f'{name} "{value}";\n' for name, value in settings) + "".join(
        f"#clear {name};\n" for name in hooks
    )
