"""What every group of facts of a site config has: where its facts are from."""

from typing import Self

from pydantic import model_validator

from dlcontainer.config.field_types import Line, Strict


class SiteFacts(Strict):
    """A group of facts: `sources` names where they stand, `remembered` the keys nobody checked."""

    sources: tuple[Line, ...] = ()
    remembered: tuple[Line, ...] = ()

    @model_validator(mode="after")
    def _remembered_are_keys(self) -> Self:
        for key in self.remembered:
            if key not in type(self).model_fields:
                raise ValueError(f"'remembered' names {key!r}, which is not a key of this group")
        return self
