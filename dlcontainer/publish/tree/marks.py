"""The marks of a version: default, aliases and deprecation. None of them is lost in silence."""

from collections.abc import Iterator, Sequence

from dlcontainer.errors import PublishError
from dlcontainer.publish.tree import generation, layout
from dlcontainer.publish.tree.generation import Generation, GenerationEntry
from dlcontainer.publish.tree.layout import PublishedTree


def tell_leaving(tree: PublishedTree, entry: GenerationEntry) -> None:
    """Say which marks and pins go with a version that is taken back."""
    names = [version for version, _ in entry.loadable if entry.older]
    pins = [f"{entry.name}/{version}" for version in names if version != entry.version]
    going = [*([f"its marks: {entry.marks}"] if entry.marks else []), *pins]
    if going:
        tree.note(
            f"with {entry.module} go {' and '.join(going)}; to replace its image and keep them, "
            "roll back, then: dlcontainer publish --release"
        )


def tell_lost(tree: PublishedTree, entry: GenerationEntry) -> None:
    """Say which marks a version had when it was published last, and nobody has now."""
    before = _last(tree, entry)
    if before is None:
        return
    number, last = before
    with tree.top.sub(layout.GENERATIONS) as generations:
        live = layout.current(tree.top)
        entries = generation.read(generations, live).entries if live else ()
    siblings = [sibling for sibling in entries if sibling.name == entry.name]
    commands = list(_commands(tree, last, siblings))
    if commands:
        tree.note(
            f"{entry.module} had these marks in generation {number}: {last.marks}; to set them "
            f"again: {'; '.join(commands)}"
        )


def tell_no_default(tree: PublishedTree, base: Generation, entry: GenerationEntry) -> None:
    """Say what NAME alone loads where a version has its second release, and none is the default."""
    if not any(sibling.default for sibling in base.entries if sibling.name == entry.name):
        tree.note(
            f"no version of {entry.name} is the default: `module load {entry.name}` takes the "
            f"highest name; to mark one: {layout.typed(tree.root, 'default', entry.module)}"
        )


def _last(tree: PublishedTree, entry: GenerationEntry) -> tuple[int, GenerationEntry] | None:
    for number in reversed(layout.numbers(tree.generations)):
        try:
            before = generation.read(tree.generations, number).find(entry.name, entry.version)
        except PublishError:
            continue
        if before is not None:
            return number, before
    return None


def _commands(
    tree: PublishedTree, last: GenerationEntry, siblings: Sequence[GenerationEntry]
) -> Iterator[str]:
    if last.default and not any(sibling.default for sibling in siblings):
        yield layout.typed(tree.root, "default", last.module)
    aliases = {alias for sibling in siblings for alias in sibling.aliases}
    for alias in last.aliases:
        if alias not in aliases:
            yield layout.typed(tree.root, "alias", last.module, alias)
    if last.deprecated is not None:
        words = ["--message", last.deprecated.message]
        removal = last.deprecated.removal
        words += ["--removal", removal] if removal else []
        yield layout.typed(tree.root, "deprecate", last.module, *words)
