"""By what a bill is judged."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from dlcontainer.vulnerabilities.allowed import AllowList


@dataclass(frozen=True, kw_only=True, slots=True)
class ScanRules:
    """By what a bill is judged, and when; `max_age_days` of the newest record of an ecosystem."""

    database: Path | None
    now: datetime
    max_age_days: int = 30
    allowed: AllowList | None = None
    tell: Callable[[str], None] = lambda _: None
