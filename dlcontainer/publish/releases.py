"""What an image's record says of it, as far as a module of it needs that."""

import hashlib
import json

from pydantic import ConfigDict, Field, ValidationError

from dlcontainer.config.field_types import (
    Command,
    EnvName,
    ImagePath,
    Line,
    Name,
    Sha256,
    Strict,
    Url,
    Version,
)
from dlcontainer.errors import PublishError
from dlcontainer.image import record, sif
from dlcontainer.publish.modulefiles import CACHES, Release
from dlcontainer.publish.offered import Offered
from dlcontainer.sites.site import Site


class _Loose(Strict):
    """What is read of a record, as far as it becomes paths and programs."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class _Recipe(_Loose):
    name: Name
    version: Version
    summary: Line
    homepage: Url | None = None
    license: Line | None = None
    prefix: ImagePath
    exposes: tuple[Command, ...]


class _Content(_Loose):
    site: Name
    epoch: Name | None = None
    node_type: Name | None = None
    recipe: _Recipe
    environment: dict[EnvName, str] = Field(default_factory=dict)


class _Image(_Loose):
    sha256: Sha256


class _Body(_Loose):
    image: _Image
    content: _Content


def described(offered: Offered, site: Site) -> Release:
    """Read what an image's record says of it; raises PublishError where it does not fit."""
    path, written = record.beside(offered.path), offered.record.written
    text = json.dumps(offered.record.body.get("content"), sort_keys=True, separators=(",", ":"))
    try:
        body = _Body.model_validate_json(json.dumps(offered.record.body))
    except ValidationError as error:
        raise PublishError(
            f"{path}: {record.unusable(error)}",
            next_step="build the image again",
        ) from None
    if hashlib.sha256(text.encode()).hexdigest() != written.digest:
        raise PublishError(
            f"{path} was changed: its content does not give its digest",
            next_step="build the image again",
        )
    content, recipe = body.content, body.content.recipe
    if content.site != site.name:
        raise PublishError(
            f"{offered.path.name} was built for the site {content.site}, not for {site.name}",
            next_step=f"build it for this one: dlcontainer build {recipe.name} --site {site.name}",
        )
    return Release(
        name=recipe.name,
        version=_version(content),
        summary=recipe.summary,
        homepage=recipe.homepage,
        license=recipe.license,
        commands=recipe.exposes,
        prefix=recipe.prefix,
        digest=written.digest,
        sha256=written.sha256,
        offset=sif.tree(offered.path, offered.image).offset,
        own_caches=frozenset(CACHES) & frozenset(content.environment),
    )


def _version(content: _Content) -> str:
    """Name a module's version: images of one recipe for several node types stand side by side."""
    parts = (content.recipe.version, content.epoch, content.node_type)
    return "-".join(part for part in parts if part)
