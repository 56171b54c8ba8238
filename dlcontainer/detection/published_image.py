"""A published image as drift looks at it: its libraries and its base, by its own record."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from dlcontainer.image.record import ImageContent, Record
from dlcontainer.recipes.base import Base, System
from dlcontainer.recipes.recipe import Recipe
from dlcontainer.recipes.stack import Stack


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedImage:
    """A module's image: `recipe` has what rules ask for, of an adopted one what its files told.

    `doubt` says what its record does not tell, so that nothing is judged by it.
    """

    module: str
    site: str
    node_type: str | None
    arch: str | None
    recipe: Recipe
    is_unpacked: bool = False
    has_job: bool = False
    doubt: str | None = None

    @property
    def stack(self) -> Stack:
        """What its framework was built for."""
        return self.recipe.stack


def of_record(module: str, body: Mapping[str, Any], record: Record) -> PublishedImage:
    """Read an image's record; what another version wrote in another form is in doubt."""
    content = record.content
    recipe, doubt = _recipe(body.get("content") or {}, content)
    arch = (body.get("content") or {}).get("arch")
    return PublishedImage(
        module=module,
        site=content.site,
        node_type=content.node_type,
        arch=arch if isinstance(arch, str) else None,
        recipe=recipe,
        doubt=doubt,
    )


def _recipe(content: Mapping[str, Any], written: ImageContent) -> "tuple[Recipe, str | None]":
    environment = dict(written.environment)
    if written.recipe is not None:
        try:
            plain = {**content["recipe"], "environment": environment}
            return Recipe.model_validate_json(json.dumps(plain)), None
        except (ValidationError, KeyError, TypeError, ValueError):
            doubt: str | None = "its record is of another version: base and steps are not judged"
    else:
        doubt = None
    offer = written.offer
    survey = written.adopted or written.extended
    stack, unread = _stack(offer.stack.model_dump(mode="json"))
    glibc = survey.glibc if survey else None
    base = Base.model_construct(
        image="docker://unknown/unknown",
        system=System.model_construct(
            distribution="unknown", release="unknown", glibc=glibc, python=None, source="its files"
        ),
    )
    # What rules of a recipe and a site read; nobody knows the rest.
    fields: dict[str, Any] = {
        "name": offer.name,
        "version": offer.version,
        "prefix": offer.prefix,
        "stack": stack,
        "base": base,
        "steps": (),
        "environment": environment,
    }
    recipe: Recipe = Recipe.model_construct(**fields)
    return recipe, doubt or unread


def _stack(plain: dict[str, Any]) -> "tuple[Stack, str | None]":
    """Read the libraries of a record, each as far as it has a form that rules know."""
    kept = {key: part for key, part in plain.items() if part}
    if isinstance(kept.get("mpi"), dict):
        # Of an adopted image the family alone is known.
        kept["mpi"] = {**kept["mpi"], "name": kept["mpi"]["name"] or kept["mpi"]["family"]}
    for _ in plain:
        try:
            return Stack.model_validate_json(json.dumps(kept)), _unread(plain, kept)
        except ValidationError as error:
            for wrong in error.errors():
                kept.pop(str(next(iter(wrong["loc"]), "")), None)
    return Stack(), _unread(plain, {})


def _unread(plain: Mapping[str, Any], kept: Mapping[str, Any]) -> str | None:
    missing = [key for key, part in plain.items() if part and key not in kept]
    return f"its record's {', '.join(missing)} can't be read" if missing else None
