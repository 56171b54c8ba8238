"""What Tab offers: names of sites, recipes, variants and epochs; silent where it can't tell."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import typer

from dlcontainer.cli import user_folders
from dlcontainer.system.environ import variables

_PACKAGE = Path(__file__).resolve().parents[1]

Kind = Literal["recipes", "site-configs"]

# Keys of a mapping that stands at the top of a file, read without a YAML parser: each Tab is a
# process, and homes are on NFS. A file written otherwise completes nothing, and works.
_KEY = re.compile(r"""^  ["']?([A-Za-z0-9][A-Za-z0-9._-]*)["']?:""")
_EXTENDS = re.compile(r"^extends:\s*([a-z0-9][a-z0-9._-]*)\s*$", re.MULTILINE)


def names(kind: Kind) -> list[str]:
    """List the recipes or sites that have a name."""
    # As config/resources.py, which takes a YAML parser along; a test holds the two together.
    pattern = "*/recipe.yaml" if kind == "recipes" else "*.yaml"
    matches = {_name(kind, path) for root in _roots() for path in (root / kind).glob(pattern)}
    return sorted(matches)


def sites(incomplete: str) -> list[str]:
    """Complete a site, after its name an epoch or a node type of it."""
    return _quietly(lambda: _sites(incomplete))


def recipes(incomplete: str) -> list[str]:
    """Complete a recipe."""
    return _quietly(lambda: names("recipes"))


def variants(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a variant of the recipe that was typed, or of any."""
    return _quietly(lambda: _variants(_typed(ctx, "recipe", "recipes")))


def epochs(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete an epoch of the site that was typed."""
    return _quietly(lambda: _of_site(ctx, "epochs"))


def node_types(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a node type of the site that was typed."""
    return _quietly(lambda: _of_site(ctx, "node_types"))


def _quietly(find: Callable[[], list[str]]) -> list[str]:
    try:
        return find()
    except Exception:  # noqa: BLE001  a traceback in the middle of a command line helps nobody
        return []


def _roots() -> list[Path]:
    home = variables.home(os.environ)
    folder = user_folders.folder(os.environ, "XDG_CONFIG_HOME", home, ".config")
    # A wheel brings its own data; a checkout has none there.
    shipped = _PACKAGE / "_data"
    centre = user_folders.centre(os.environ)
    return [folder, *centre, shipped if shipped.is_dir() else _PACKAGE.parent]


def _name(kind: Kind, path: Path) -> str:
    return path.parent.name if kind == "recipes" else path.stem


def _text(kind: Kind, name: str) -> str:
    below = f"{name}/recipe.yaml" if kind == "recipes" else f"{name}.yaml"
    paths = (root / kind / below for root in _roots())
    return next(path for path in paths if path.is_file()).read_text(encoding="utf-8")


def _sites(incomplete: str) -> list[str]:
    sites = names("site-configs")
    site, mark, _ = incomplete.partition("@")
    if mark and site in sites:
        return [f"{site}@{epoch}" for epoch in _keys_over("site-configs", site, "epochs")]
    site, mark, _ = incomplete.partition(":")
    if mark and site in sites:
        return [f"{site}:{kind}" for kind in _keys_over("site-configs", site, "node_types")]
    return sites


def _of_site(ctx: typer.Context, key: str) -> list[str]:
    site = _typed(ctx, "site", "site-configs")
    return list(_keys_over("site-configs", site, key)) if site else []


def _typed(ctx: typer.Context, option: str, kind: Kind) -> str | None:
    """Return what was typed for an option or an argument; the parser leaves arguments in a rest."""
    candidates = names(kind)
    for word in (ctx.params.get(option), *ctx.args):
        bare = str(word).partition("@")[0].partition(":")[0]
        if bare in candidates:
            return bare
    return None


def _keys_over(kind: Kind, name: str, key: str) -> Iterator[str]:
    """Return the keys of a file's mapping, and of those of the files that it extends."""
    text = _text(kind, name)
    yield from _top_keys(text, key)
    parent = _EXTENDS.search(text)
    if parent:
        yield from _keys_over(kind, parent[1], key)


def _top_keys(text: str, key: str) -> Iterator[str]:
    below = False
    for line in text.splitlines():
        if not line.startswith((" ", "#")) and line:
            below = line.startswith(f"{key}:")
        match = _KEY.match(line) if below else None
        if match:
            yield match[1]


def _variants(recipe: str | None) -> list[str]:
    chosen = [recipe] if recipe else names("recipes")
    return sorted({key for name in chosen for key in _keys_over("recipes", name, "variants")})
