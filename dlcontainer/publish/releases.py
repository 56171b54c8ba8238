"""What an image's record says of it, as far as a module of it needs that."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, cast

from pydantic import ValidationError

from dlcontainer.errors import PublishError
from dlcontainer.image import bill_file, record, sif
from dlcontainer.image.record import ImageContent
from dlcontainer.planning import built_for
from dlcontainer.publish.modulefiles import CACHES, ModuleRelease
from dlcontainer.publish.offered import PublishCandidate
from dlcontainer.recipes.base import Base
from dlcontainer.recipes.distributions import DISTRIBUTIONS
from dlcontainer.sites.site import Site

# The packages that bring a C++ compiler, in Debian's and SUSE's names, Red Hat's and conda's.
_COMPILER = re.compile(r"g\+\+(-[0-9.]+)?|gcc[0-9]*-c\+\+|clang[0-9-]*|gxx(_linux-.+)?|clangxx.*")


def described(offered: PublishCandidate, site: Site) -> ModuleRelease:
    """Read what an image's record says of it; raises PublishError where it does not fit."""
    path, body = record.beside(offered.path), offered.record
    text = json.dumps(body.body["content"], sort_keys=True, separators=(",", ":"))
    if hashlib.sha256(text.encode()).hexdigest() != body.record.digest:
        raise PublishError(
            f"{path} was changed: its content does not match its digest",
            next_step="use the record that the build wrote, or build the image again",
        )
    content, offer = body.record.content, body.record.content.offer
    survey = content.adopted or content.extended
    if body.record.needs_trust:
        raise PublishError(
            f"{offered.path.name} {body.record.came}, and nobody trusted it yet",
            why="users run a published image with their own files and network",
            next_step=f"read docs/image/adopt.md; then: dlcontainer adopt {offered.path.name} "
            f"--site {site.name} --trust",
        )
    # Of its epochs and kinds of nodes it becomes the image's own.
    mismatch = built_for.mismatch(content, site, whole=False)
    if mismatch is not None:
        raise PublishError(
            f"{offered.path.name} was {mismatch.what}",
            why=mismatch.why,
            next_step=mismatch.next_step,
        )
    base = _base(body.body["content"])
    glibc = base.facts.glibc if base and base.facts else None
    distribution = (
        DISTRIBUTIONS.get((base.distribution or "", base.release or "")) if base else None
    )
    return ModuleRelease(
        name=offer.name,
        version=_version(content),
        summary=offer.summary,
        homepage=offer.homepage,
        license=offer.license,
        commands=offer.exposes,
        prefix=offer.prefix,
        digest=body.record.digest,
        sha256=body.record.image.sha256,
        offset=sif.tree(offered.path, offered.image).offset,
        own_caches=frozenset(CACHES) & frozenset(content.environment),
        mpi=offer.stack.mpi.family if offer.stack.mpi else None,
        glibc=survey.glibc if survey else glibc,
        gcc=distribution.gcc if distribution else None,
        environment=content.environment,
        without_compiler=_without_compiler(offered, base),
    )


def _without_compiler(offered: PublishCandidate, base: Base | None) -> bool:
    """Return whether torch.compile finds no compiler: PyTorch is there, and no package of one.

    A vendor's base may hold one that is no package.
    """
    offer = offered.record.record.content.offer
    if offered.bill is None or base is None or base.image or "torch" not in offer.verify.imports:
        return False
    return not any(map(_COMPILER.fullmatch, bill_file.names(offered.bill)))


def _version(content: ImageContent) -> str:
    """Name a module's version: images of one recipe for several node types stand side by side."""
    parts = (content.offer.version, content.epoch, content.node_type)
    return "-".join(part for part in parts if part)


def _base(content: Mapping[str, Mapping[str, object]]) -> Base | None:
    try:
        below = cast("Mapping[str, Any]", content.get("extended", {}).get("base") or {})
        recipe = content.get("recipe") or (below.get("content") or {}).get("recipe") or {}
        return Base.model_validate(recipe.get("base"))
    except ValidationError:
        return None  # adopted, or of another dlcontainer: nothing is known of it
