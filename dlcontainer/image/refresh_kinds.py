"""What may be taken newer: read at the start of a command, so it imports nothing."""

from typing import Literal

RefreshKind = Literal["base", "os", "python"]
