"""The licence of a package, as its own files state it."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageLicense:
    """A package's licence: an SPDX expression, or else names; `source` is what states it.

    `is_declared` is false for names that a text mentions, without saying how they combine.
    """

    expression: str = ""
    names: tuple[str, ...] = ()
    source: str = ""
    is_declared: bool = True
