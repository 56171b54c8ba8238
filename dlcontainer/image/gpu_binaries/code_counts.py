"""The device code of a file: for which GPUs, and how often."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceCode:
    """Code by its name (sm_90a, compute_80, gfx90a:xnack-) with its count, and what was not read.

    `ptx_isa` is the newest PTX ISA (major, minor) of each code that is PTX.
    """

    codes: Mapping[str, int] = field(default_factory=dict)
    ptx_isa: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether a file has no device code, as far as it was read."""
        return not self.codes and not self.notes


def joined(parts: Sequence[DeviceCode]) -> DeviceCode:
    """Count the code of a file's sections together."""
    codes: Counter[str] = Counter()
    isa: dict[str, tuple[int, int]] = {}
    for part in parts:
        codes.update(part.codes)
        for code, version in part.ptx_isa.items():
            isa[code] = max(isa.get(code, version), version)
    notes = tuple(note for part in parts for note in part.notes)
    return DeviceCode(codes=dict(codes), ptx_isa=isa, notes=notes)
