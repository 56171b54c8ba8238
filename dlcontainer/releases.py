"""What an image's record says of it, as far as a module of it needs that."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import ConfigDict, ValidationError

from dlcontainer import record
from dlcontainer.engines import sif
from dlcontainer.errors import PublishError
from dlcontainer.fields import Command, ImagePath, Line, Name, Strict, Url, Version
from dlcontainer.modulefiles import CACHES, Release
from dlcontainer.siteconfig import Site


class _Recipe(Strict):
    """What a record says of its recipe, as far as it becomes paths and programs."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    name: Name
    version: Version
    summary: Line
    homepage: Url | None = None
    license: Line | None = None
    prefix: ImagePath
    exposes: tuple[Command, ...]


def described(image: Path, site: Site) -> Release:
    """Read what an image's record says of it; raises PublishError where it does not fit."""
    path = record.beside(image)
    if not image.is_file():
        raise PublishError(f"there is no image {image}", next_step="build one: dlcontainer build")
    written = record.read(path)
    if written is None:
        raise PublishError(
            f"{image.name} has no record: there is no {path.name} beside it",
            why="a module names the evidence for what is in it",
            next_step="publish an image that `dlcontainer build` made, with what lies beside it",
        )
    content = json.loads(path.read_text()).get("content")
    try:
        recipe = _Recipe.model_validate_json(json.dumps(content["recipe"]))
    except (ValidationError, KeyError, TypeError) as error:
        raise PublishError(f"{path} is no whole record: {error}") from None
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    if hashlib.sha256(text.encode()).hexdigest() != written.digest:
        raise PublishError(
            f"{path} was changed: its content does not give its digest",
            next_step="build the image again",
        )
    if content.get("site") != site.name:
        raise PublishError(
            f"{image.name} was built for the site {content.get('site')}, not for {site.name}",
            next_step=f"build it for this one: dlcontainer build {recipe.name} --site {site.name}",
        )
    return Release(
        name=recipe.name,
        version=_version(content, recipe.version),
        summary=recipe.summary,
        homepage=recipe.homepage,
        license=recipe.license,
        commands=recipe.exposes,
        prefix=recipe.prefix,
        digest=written.digest,
        sha256=written.sha256,
        offset=sif.tree(image).offset,
        own_caches=frozenset(CACHES) & frozenset(content.get("environment") or ()),
    )


def _version(content: Mapping[str, object], version: str) -> str:
    """Name a module's version: images of one recipe for several node types stand side by side."""
    parts = (version, content.get("epoch"), content.get("node_type"))
    return "-".join(str(part) for part in parts if part)
