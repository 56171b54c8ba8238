"""The host's apt configuration: its mirrors of a release, and how apt gets out."""

import contextlib
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer.config.field_types import is_proxy
from dlcontainer.errors import ConfigError
from dlcontainer.image.layout import ROUTING_FOLDER
from dlcontainer.packages.apt import apt_syntax
from dlcontainer.planning.plan import Plan
from dlcontainer.system.machine import HostMachine, find_program
from dlcontainer.system.process import CommandFailedError, Runner

# The configuration for the inside of a build, in the routing folder.
FILE = "apt.conf"

# Settings of the host's apt that reach the build's: how it gets out, and which dates it accepts.
_APT_KEPT = re.compile(
    r"Acquire::(?:https?::(?:[^:]+::)?Proxy|Check-Valid-Until|Check-Date|Retries|https?::Timeout)"
)
_NO_PROXY = ("DIRECT", "false", "")

# apt's lists of what the mirrors have, in the routing folder: they outlive a step, and leave
# nothing in the image.
LISTS = "apt-lists"
_WITH_LISTS = "apt-with-lists.conf"
# What a step's script says. Where a daemon runs it, the folder's owner is not the step's root, and
# could not remove what apt leaves there: apt's lists then lie where they always do.
DEFAULT_SETTING = (f"export APT_CONFIG={ROUTING_FOLDER}/{FILE}",)
SETTING = (
    *DEFAULT_SETTING,
    f"[ ! -O {ROUTING_FOLDER}/{LISTS} ] || export APT_CONFIG={ROUTING_FOLDER}/{_WITH_LISTS}",
)

# How apt works inside a build, wherever its packages come from.
_ALWAYS = (
    # Not every build can change to the user _apt; the image appears whole or not at all, so
    # dpkg need not sync every file.
    apt_syntax.setting("APT::Sandbox::User", "root"),
    'DPkg::Options:: "--force-unsafe-io";',
    apt_syntax.setting("Acquire::Languages", "none"),
)
_INSIDE = (
    apt_syntax.setting("Dir::Etc::SourceList", f"{ROUTING_FOLDER}/sources.list"),
    apt_syntax.setting("Dir::Etc::SourceParts", "/dev/null"),
    *_ALWAYS,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class AptSource:
    """One line of the host's apt sources that serves the base's release."""

    uri: str
    suite: str
    components: tuple[str, ...]
    keyring: Path | None

    def line(self, keyring: str | None) -> str:
        """Return the line of a sources.list."""
        return apt_syntax.source_line([self.uri, self.suite, *self.components], keyring=keyring)


def read(
    plan: Plan, host: HostMachine, runner: Runner, proxies: Mapping[str, str]
) -> tuple[tuple[AptSource, ...], tuple[str, ...]]:
    """Read the host's sources for the base's release, and apt's proxy settings.

    Both are empty where the host has no apt, or is of another distribution than the base.
    """
    base, choice = plan.recipe.base.facts, plan.site.routing.apt
    if base is None or choice == "default":
        return (), ()
    if choice != "auto":
        return parse_lines(choice), proxy_settings((), proxies)
    get, config = (find_program(name, host.environ) for name in ("apt-get", "apt-config"))
    if not (get and config and base.distribution == host.distribution):
        return (), ()
    # apt itself reads its two formats of sources. Without release info it needs no list on disk: a
    # fresh machine has none, and an ordinary user can't fetch any.
    form = "$(CREATED_BY)\t$(REPO_URI)\t$(RELEASE)\t$(COMPONENT)\t$(SIGNED_BY)"
    try:
        listed = runner([str(get), "indextargets", "--no-release-info", "--format", form]).stdout
        dump = runner([str(config), "dump", "Acquire"]).stdout
    except CommandFailedError:
        return (), ()
    sources = parse_targets(listed, base.release) or _of_sibling(listed, host, base.release)
    return sources, proxy_settings(parse_dump(dump), proxies)


def parse_dump(text: str) -> tuple[str, ...]:
    """Pick the settings that a build takes over from apt's own; raises ConfigError."""
    kept = []
    for name, value in apt_syntax.dumped(text):
        if not _APT_KEPT.fullmatch(name):
            continue
        # apt may be told of a SOCKS proxy too; all else about the address is the same.
        address = re.sub(r"^socks5h://", "http://", value)
        if name.endswith("Proxy") and value not in _NO_PROXY and not is_proxy(address):
            raise ConfigError(
                "not the address of a proxy",
                where=f"apt's setting {name}",
                why="the form is http://[USER:PASSWORD@]HOST[:PORT], with other characters as %XX",
                next_step="correct it in /etc/apt/apt.conf.d, or set routing.apt of the site",
            )
        kept.append(apt_syntax.setting(name, value))
    return tuple(kept)


def proxy_settings(settings: tuple[str, ...], proxies: Mapping[str, str]) -> tuple[str, ...]:
    """Add the proxies of a build to apt's own settings, where these name none."""
    added = [
        apt_syntax.setting(f"Acquire::{scheme}::Proxy", proxies[f"{scheme}_proxy"])
        for scheme in ("http", "https")
        if f"{scheme}_proxy" in proxies and not any(f"{scheme}::Proxy" in line for line in settings)
    ]
    return (*settings, *added)


def parse_lines(lines: tuple[str, ...]) -> tuple[AptSource, ...]:
    """Read the deb lines of a site config; their form is checked there."""
    sources = []
    for line in lines:
        words = line.split()
        option = words.pop(1) if words[1].startswith("[") else ""
        keyring = Path(option.removeprefix("[signed-by=").removesuffix("]")) if option else None
        _, uri, suite, *components = words
        sources.append(
            AptSource(
                uri=uri.rstrip("/"), suite=suite, components=tuple(components), keyring=keyring
            )
        )
    return tuple(sources)


def parse_targets(text: str, release: str) -> tuple[AptSource, ...]:
    """Pick the sources of one release (its updates and security too) from apt's own listing."""
    targets: dict[tuple[str, str, str], list[str]] = {}
    suites = {release, f"{release}-updates", f"{release}-security"}
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) == 5 and fields[0] == "Packages" and fields[2] in suites:
            components = targets.setdefault((fields[1], fields[2], fields[4]), [])
            if fields[3] not in components:
                components.append(fields[3])
    return tuple(
        AptSource(
            uri=uri.rstrip("/"),
            suite=suite,
            components=tuple(components),
            keyring=Path(key) if key.startswith("/") and Path(key).is_file() else None,
        )
        for (uri, suite, key), components in targets.items()
    )


def _of_sibling(listed: str, host: HostMachine, release: str) -> tuple[AptSource, ...]:
    """Return where another release of the host's distribution would be on the host's own
    mirrors.
    """
    host_release = str(host.release)
    return tuple(
        replace(source, suite=release + source.suite.removeprefix(host_release))
        for source in parse_targets(listed, host_release)
    )


def write(
    folder: Path, sources: tuple[AptSource, ...], settings: tuple[str, ...], *, has_ca: bool
) -> None:
    """Write apt's configuration for the inside of a build, its keyrings with it."""
    (folder / LISTS / "partial").mkdir(parents=True, exist_ok=True)
    lines = []
    for number, source in enumerate(sources):
        keyring = None
        if source.keyring:
            name = f"key-{number}{source.keyring.suffix}"
            shutil.copyfile(source.keyring, folder / name)
            (folder / name).chmod(0o644)
            keyring = f"{ROUTING_FOLDER}/{name}"
        lines.append(source.line(keyring))
    (folder / "sources.list").write_text("\n".join(lines) + "\n")
    config = [*settings, *_INSIDE]
    if has_ca:
        config.append(apt_syntax.setting("Acquire::https::CAInfo", f"{ROUTING_FOLDER}/ca.crt"))
    (folder / FILE).write_text("\n".join(config) + "\n")
    config.append(apt_syntax.setting("Dir::State::Lists", f"{ROUTING_FOLDER}/{LISTS}"))
    (folder / _WITH_LISTS).write_text("\n".join(config) + "\n")


def write_default(folder: Path) -> None:
    """Write apt's configuration for a build whose packages come from the image's own sources."""
    (folder / FILE).write_text("\n".join(_ALWAYS) + "\n")


def take_lists(source: Path, folder: Path) -> None:
    """Move lists that apt has fetched and verified to where a build's apt begins with them.

    It verifies them again. Where there are some already, or none can be taken, all stays as it is.
    """
    target = folder / LISTS
    with contextlib.suppress(OSError):
        if not any(target.glob("*InRelease")):
            for path in source.glob("*_*"):
                shutil.move(path, target / path.name)
    shutil.rmtree(source, ignore_errors=True)


def write_local(folder: Path) -> None:
    """Write apt's configuration for a build whose packages all lie in the routing's folder.

    They were checked against a lock: no signature says more.
    """
    line = f"deb [trusted=yes] file:{ROUTING_FOLDER} ./\n"  # of constants alone
    (folder / "sources.list").write_text(line)
    (folder / FILE).write_text("\n".join(_INSIDE) + "\n")
