"""The options of `bench job` that are words with a meaning of their own."""

import math
import re

from dlcontainer.errors import UsageError
from dlcontainer.schedulers import SCHEDULERS


def seconds(text: str) -> float:
    """Read a margin in seconds; raises UsageError."""
    number = text.strip().removesuffix("s").strip()
    try:
        margin_s = float(number)
    except ValueError:
        margin_s = math.nan
    if not 0.001 <= margin_s <= 86_400:
        raise UsageError(
            f"--margin {text}: must be 0.001 to 86400 seconds of start-up",
            next_step="give seconds, e.g. --margin 0.5s",
        )
    return margin_s


def limit(text: str) -> float:
    """Read the time limit of a job that no scheduler ends, in seconds; raises UsageError."""
    try:
        return float(SCHEDULERS["none"].read_time(text))
    except ValueError as error:
        raise UsageError(
            f"--time {error}",
            next_step="write three numbers as hours, minutes and seconds: 0:30:00",
        ) from None


def pattern(text: str | None) -> str | None:
    """Read the pattern of a first step; raises UsageError."""
    if text is None:
        return None
    try:
        re.compile(text.encode())
    except re.error as error:
        raise UsageError(
            f"--first-step {text!r}: not a regular expression: {error}",
            next_step="give a Python regular expression, searched in each line: --first-step "
            "'step +1 '",
        ) from None
    if not text:
        raise UsageError("--first-step: the pattern is empty", next_step="leave --first-step out")
    return text
