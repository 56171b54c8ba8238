"""What the last refresh made of a plan's packages: later builds go on from there."""

import contextlib
from dataclasses import replace
from pathlib import Path

from dlcontainer.build.context import BuildContext
from dlcontainer.errors import ChecksFailedError
from dlcontainer.image import record
from dlcontainer.image.record import RefreshProvenance
from dlcontainer.planning.plan import Plan
from dlcontainer.system import atomic_files, guarded_files


def recalled(plan: Plan, context: BuildContext, image_record: Path) -> BuildContext:
    """Return the context with the last refresh: of this cache, or of the image that is there.

    Unchanged where one is under way already, and where a lock says which packages.
    """
    if context.bundle is not None or context.refreshed is not None:
        return context
    return replace(context, refreshed=last(plan, context.execution.cache, image_record))


def last(plan: Plan, cache: Path, image_record: Path) -> RefreshProvenance | None:
    """Return the last refresh of a plan: of a cache, or of the image that is there."""
    candidates = [_noted(plan, cache), _of_image(image_record)]
    return max(filter(None, candidates), key=lambda refresh: refresh.asked_at, default=None)


def note(plan: Plan, context: BuildContext) -> None:
    """Note the refresh that a finished image is of."""
    if context.refreshed is None:
        return
    path = _path(plan, context.execution.cache)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    atomic_files.write(path, context.refreshed.model_dump_json() + "\n", mode=0o600)


def _noted(plan: Plan, cache: Path) -> RefreshProvenance | None:
    with contextlib.suppress(OSError, ValueError):
        return RefreshProvenance.model_validate_json(guarded_files.read_own(_path(plan, cache)))
    return None


def _of_image(path: Path) -> RefreshProvenance | None:
    with contextlib.suppress(ChecksFailedError):
        written = record.read(path)
        return written.refresh if written else None
    return None


def _path(plan: Plan, cache: Path) -> Path:
    return cache / "refreshed" / f"{plan.name}.json"
