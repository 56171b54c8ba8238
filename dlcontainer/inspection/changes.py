"""What differs between two sets of named values."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageChange:
    """One thing that differs; "" where an image does not have it, sizes in bytes."""

    name: str
    before: str
    after: str
    size_before: int = 0
    size_after: int = 0

    @property
    def how(self) -> str:
        """Return the change in a word."""
        if not self.before:
            return "added"
        return "changed" if self.after else "removed"


def between(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[ImageChange, ...]:
    """Return what differs between two sets of named values."""
    return tuple(
        ImageChange(name=name, before=before.get(name, ""), after=after.get(name, ""))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    )


def flat(value: object, name: str = "") -> dict[str, str]:
    """Name each value of plain data by its path: recipe.steps.0.shell."""
    return dict(_flat(value, name))


def _flat(value: object, name: str) -> Iterator[tuple[str, str]]:
    inner: Iterator[tuple[object, object]] | None = None
    if isinstance(value, Mapping):
        inner = iter(value.items())
    elif isinstance(value, list):
        inner = iter(enumerate(value))
    if inner is None:
        yield name, "" if value is None else str(value)
        return
    for key, part in inner:
        yield from _flat(part, f"{name}.{key}" if name else str(key))
