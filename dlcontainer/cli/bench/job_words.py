"""The options of `bench job` that are words with a meaning of their own."""

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

from dlcontainer.cli.bench import session_options
from dlcontainer.errors import UsageError
from dlcontainer.schedulers import SCHEDULERS

if TYPE_CHECKING:
    from dlcontainer.bench.job.job_records import StepDeclaration


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


def pattern(text: str | None, option: str = "--first-step") -> str | None:
    """Read the pattern of lines; raises UsageError."""
    if text is None:
        return None
    try:
        re.compile(text.encode())
    except re.error as error:
        raise UsageError(
            f"{option} {text!r}: not a regular expression: {error}",
            next_step="give a Python regular expression, searched in each line: "
            f"{option} 'step +1 '",
        ) from None
    if not text:
        raise UsageError(f"{option}: the pattern is empty", next_step=f"leave {option} out")
    return text


def steps(
    *, without: bool, mark: str | None, warm_up: int, margin: str | None
) -> "StepDeclaration | None":
    """Read how steps are seen; None where they are not asked for. Raises UsageError."""
    from dlcontainer.bench.job import step_times
    from dlcontainer.bench.job.job_records import StepDeclaration

    if without and mark is not None:
        raise UsageError(
            "--no-steps and --step-mark are incompatible", next_step="leave one of them out"
        )
    if without:
        return None
    text = pattern(mark, "--step-mark")
    return StepDeclaration(
        source="optimizer" if text is None else "output",
        mark=text,
        warm_up=warm_up,
        fewest=step_times.FEWEST,
        margin=session_options.margin(margin, "--step-margin") or step_times.MARGIN,
    )


def require_plain(folder: Path, fix: str) -> None:
    """Refuse a folder that neither PYTHONPATH nor the engine's binds can name."""
    if set(str(folder)) & set(":,"):
        raise UsageError(
            f"the folder of -o has a colon or a comma in its name: {folder}",
            why="the hook of PyTorch's steps lies there, and is named in PYTHONPATH and in the "
            "engine's binds, which split names there",
            next_step=f"choose another folder with -o{fix}",
        )
