"""The device code of a file: for which GPUs, and how often."""

from collections.abc import Mapping
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
