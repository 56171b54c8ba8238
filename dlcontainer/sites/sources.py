"""Where a site's facts are written: each group names its sources, or its file does for all."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dlcontainer import config
from dlcontainer.config import Document, KeyPath, SelectedDocument, ValueOrigin
from dlcontainer.errors import ConfigError, Mark
from dlcontainer.sites.groups import SiteFacts
from dlcontainer.sites.site import Site


@dataclass(frozen=True, kw_only=True, slots=True)
class FileSource:
    """The `source` at the top of a site file: its name, and where that is written."""

    name: str
    origin: ValueOrigin


def of_file(document: Document, file: str) -> Mapping[str, FileSource]:
    """Map a site file, as messages name it, to its `source`; empty where it has none."""
    name = document.data.get("source")
    if not isinstance(name, str):
        return {}
    return {file: FileSource(name=name, origin=document.origin(("source",)))}


def serve(site: SelectedDocument[Site], files: Mapping[str, FileSource]) -> SelectedDocument[Site]:
    """Write each file's `source` into the groups whose facts stand there without sources.

    A group that names sources in the same file keeps these alone; to those of another file, which
    it extends, the own is added.
    """
    document = site.document
    for path, group in site.value.groups():
        new_sources = dict(_serving(site.document, path, group, files))
        if new_sources:
            document = _with_sources(document, path, group.sources, new_sources)
    if document is site.document:
        return site
    return SelectedDocument(value=config.validate(document, Site), document=document)


def _serving(
    document: Document, path: KeyPath, group: SiteFacts, files: Mapping[str, FileSource]
) -> Iterator[tuple[str, ValueOrigin]]:
    named = document.origins.get((*path, "sources"))
    for key in _facts(group):
        origin = document.origin((*path, key))
        if origin.mark is None or origin.mark.file not in files:
            continue
        file = files[origin.mark.file]
        is_same_file = (
            named is not None and named.mark is not None and named.mark.file == origin.mark.file
        )
        if not is_same_file and file.name not in group.sources:
            yield file.name, file.origin


def _facts(group: SiteFacts) -> Iterator[str]:
    """Name the keys written in a group that need a source; a form is a group of its own."""
    exempt = {"sources", "remembered", "forms", *group.remembered}
    yield from (key for key in type(group).model_fields if key in group.model_fields_set - exempt)


def _with_sources(
    document: Document, path: KeyPath, sources: tuple[str, ...], more: Mapping[str, ValueOrigin]
) -> Document:
    """Add sources to those of a group."""

    def put(value: object, rest: KeyPath) -> object:
        if isinstance(value, list):
            return [
                put(element, rest[1:]) if at == rest[0] else element
                for at, element in enumerate(value)
            ]
        mapping = dict(value) if isinstance(value, dict) else {}
        if not rest:
            return {**mapping, "sources": [*sources, *more]}
        return {**mapping, str(rest[0]): put(mapping.get(str(rest[0])), rest[1:])}

    data = put(document.data, path)
    at = (*path, "sources")
    first = next(iter(more.values()))
    added = {(*at, number): origin for number, origin in enumerate(more.values(), len(sources))}
    return Document(
        data=data if isinstance(data, dict) else {},
        origins={at: first, **document.origins, **added},
    )


def require(site: SelectedDocument[Site]) -> None:
    """Refuse a site file with facts that name no source, or one that `sources` does not have.

    Raises ConfigError with the place of each of them, all at once.
    """
    bare, unknown = list(_bare(site)), list(_unknown(site))
    if not bare and not unknown:
        return
    remedies = ["add the name to `sources`, with the place where it is written"] if unknown else []
    if bare:
        remedies.append(
            "write `source: NAME` at the top of the file for all its facts, or in a group "
            "`sources: [NAME]`, with NAME and where it is written in `sources`; or "
            "`remembered: [KEY]` for what nobody checked"
        )
    raise ConfigError(
        "\n".join(f"{where}: {text}" for where, text in [*unknown, *bare]),
        why="readers must be able to check each fact",
        next_step="; ".join(remedies),
    )


def _bare(site: SelectedDocument[Site]) -> Iterator[tuple[Mark | str, str]]:
    """Find the groups with facts that have no source; a user's own settings need none."""
    if site.value.facts == "host":
        return
    for path, group in site.value.groups():
        if group.sources:
            continue
        origins = {key: site.document.origin((*path, key)) for key in _facts(group)}
        keys = [key for key, origin in origins.items() if origin.layer.startswith("site")]
        if keys:
            plural = f"facts without a source: {', '.join(keys)}"
            text = plural if len(keys) > 1 else f"a fact without a source: {keys[0]}"
            yield origins[keys[0]].where, f"{config.dotted(path)}: {text}"


def _unknown(site: SelectedDocument[Site]) -> Iterator[tuple[Mark | str, str]]:
    """Find the names that `sources` does not have."""
    sources, document = site.value.sources, site.document
    named: list[tuple[KeyPath, str]] = [
        ((*path, "sources", at), name)
        for path, group in (*site.value.groups(), (("trust",), site.value.trust))
        for at, name in enumerate(group.sources)
        # The file's own is told once, at the top.
        if not (name == site.value.source and name not in sources)
    ]
    if site.value.source is not None:
        named.insert(0, (("source",), site.value.source))
    for path, name in named:
        if name not in sources:
            text = f"{config.dotted(path)}: {name!r} is not in 'sources'"
            yield document.origin(path).where, f"{text}{config.suggest(name, sources)}"
