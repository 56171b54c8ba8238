"""Where this machine gets its packages: its apt sources, in both formats apt reads.

The files of this project name no mirror: the one the host uses is read from here.
Formats: sources.list(5), https://manpages.debian.org/sources.list.5
"""

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.errors import EngineError

# The names a rolling or relative source may have in place of the release's codename.
_RELATIVE_SUITES = frozenset({"stable", "oldstable", "testing", "unstable", "sid", "devel"})
# What apt downloads from, without a hand at a drive.
_NETWORK_SCHEMES = ("http:", "https:", "file:", "copy:", "ftp:", "mirror", "tor+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """One entry of the apt sources that offers binary packages."""

    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str | None = None  # keyring paths or fingerprints, or a whole armoured key


def parse_one_line(text: str) -> list[Source]:
    """Parse the `deb [options] URI suite component…` format."""
    sources = []
    for raw in text.splitlines():
        line = raw.split("#", 1)[0].strip()
        match = re.match(r"deb\s+(?:\[(?P<options>[^\]]*)\]\s*)?(?P<rest>\S.*)$", line)
        if not match:
            continue
        uri, suite, *components = match["rest"].split()[:2] + match["rest"].split()[2:]
        options = dict(
            option.split("=", 1) for option in shlex.split(match["options"] or "") if "=" in option
        )
        sources.append(
            Source(
                uris=(uri,),
                suites=(suite,),
                components=tuple(components),
                signed_by=options.get("signed-by", "").replace(",", " ") or None,
            )
        )
    return sources


def parse_deb822(text: str) -> list[Source]:
    """Parse the format of `*.sources` files: paragraphs of `Field: value`."""
    sources = []
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines)):
        fields = _fields(paragraph)
        if "deb" not in fields.get("types", "").split():
            continue
        if fields.get("enabled", "yes").strip().lower() in {"no", "false", "0"}:
            continue
        sources.append(
            Source(
                uris=tuple(fields.get("uris", "").split()),
                suites=tuple(fields.get("suites", "").split()),
                components=tuple(fields.get("components", "").split()),
                signed_by=fields.get("signed-by", "").strip() or None,
            )
        )
    return sources


def _fields(paragraph: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    name = ""
    for line in paragraph.splitlines():
        if line[:1] in {" ", "\t"} and name:
            fields[name] += "\n" + line.strip()
        elif ":" in line:
            name, _, value = line.partition(":")
            name = name.strip().lower()
            fields[name] = value.strip()
    return fields


def read_sources(etc_apt: Path = Path("/etc/apt")) -> list[Source]:
    """Read all of the host's apt sources, in the order apt reads them."""
    sources: list[Source] = []
    parts = sorted((etc_apt / "sources.list.d").glob("*"))
    for path in [etc_apt / "sources.list", *parts]:
        if path.suffix not in {".list", ".sources"} or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        sources += parse_deb822(text) if path.suffix == ".sources" else parse_one_line(text)
    return sources


def archive_of(sources: Iterable[Source], codename: str) -> Source:
    """Return the source of the distribution's main archive; EngineError where there is none."""
    usable = [
        source
        for source in sources
        if "main" in source.components
        and any(uri.startswith(_NETWORK_SCHEMES) for uri in source.uris)
    ]
    for suites in (frozenset({codename}), _RELATIVE_SUITES):
        for source in usable:
            if suites & set(source.suites):
                return source
    raise EngineError(
        "the host's apt sources name no mirror of the distribution",
        why=f"no entry under /etc/apt offers suite '{codename}' with component 'main'",
        next_step="add the distribution's mirror to /etc/apt/sources.list, or install Apptainer "
        "by hand: https://apptainer.org/docs/admin/main/installation.html",
    )


def suite_of(source: Source, suite: str) -> str:
    """Write a deb822 entry for another suite of the same mirror, signed by the same keys."""
    lines = [
        "Types: deb",
        f"URIs: {' '.join(source.uris)}",
        f"Suites: {suite}",
        "Components: main",
        "Targets: Packages",  # the index alone: a host with apt-file would fetch 100 MB more
    ]
    if source.signed_by:
        key = source.signed_by.splitlines()
        lines.append("\n ".join([f"Signed-By: {key[0]}".rstrip(), *key[1:]]))
    return "\n".join(lines) + "\n"
