"""What an image's record says of it, as far as a module of it needs that."""

import hashlib
import json
from collections.abc import Mapping

from pydantic import ValidationError

from dlcontainer.errors import PublishError
from dlcontainer.image import record, sif
from dlcontainer.image.record import Content
from dlcontainer.publish.modulefiles import CACHES, Release
from dlcontainer.publish.offered import Offered
from dlcontainer.recipes.distributions import DISTRIBUTIONS
from dlcontainer.recipes.recipe import Base
from dlcontainer.sites.site import Site


def described(offered: Offered, site: Site) -> Release:
    """Read what an image's record says of it; raises PublishError where it does not fit."""
    path, body = record.beside(offered.path), offered.record
    text = json.dumps(body.body["content"], sort_keys=True, separators=(",", ":"))
    if hashlib.sha256(text.encode()).hexdigest() != body.record.digest:
        raise PublishError(
            f"{path} was changed: its content does not give its digest",
            next_step="build the image again",
        )
    content, recipe = body.record.content, body.record.content.recipe
    if content.site != site.name:
        raise PublishError(
            f"{offered.path.name} was built for the site {content.site}, not for {site.name}",
            next_step=f"build it for this one: dlcontainer build {recipe.name} --site {site.name}",
        )
    base = _base(body.body["content"]["recipe"])
    system = base.facts if base else None
    distribution = (
        DISTRIBUTIONS.get((base.distribution or "", base.release or "")) if base else None
    )
    return Release(
        name=recipe.name,
        version=_version(content),
        summary=recipe.summary,
        homepage=recipe.homepage,
        license=recipe.license,
        commands=recipe.exposes,
        prefix=recipe.prefix,
        digest=body.record.digest,
        sha256=body.record.image.sha256,
        offset=sif.tree(offered.path, offered.image).offset,
        own_caches=frozenset(CACHES) & frozenset(content.environment),
        mpi=recipe.stack.mpi.family if recipe.stack.mpi else None,
        glibc=system.glibc if system else None,
        gcc=distribution.gcc if distribution else None,
        environment=content.environment,
    )


def _version(content: Content) -> str:
    """Name a module's version: images of one recipe for several node types stand side by side."""
    parts = (content.recipe.version, content.epoch, content.node_type)
    return "-".join(part for part in parts if part)


def _base(recipe: Mapping[str, object]) -> Base | None:
    try:
        return Base.model_validate(recipe.get("base"))
    except ValidationError:
        return None  # of another dlcontainer: nothing is known of it
