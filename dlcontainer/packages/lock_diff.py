"""What moved between two locks: one line a package, for people."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dlcontainer.packages.lockfile import Lock, OsPin, WheelPin


@dataclass(frozen=True, kw_only=True, slots=True)
class LockChange:
    """One difference: where it is, of which package; None where there is none of it."""

    part: str
    name: str
    old: str | None
    new: str | None


def compare(old: Lock, new: Lock) -> list[LockChange]:
    """List what differs: the plan, the base, the steps in their order, the host's parts."""
    changes = list(_facts("lock", _head(old), _head(new)))
    changes += _packages("base", old.base.packages, new.base.packages)
    before = {step.name: step for step in old.steps}
    after = {step.name: step for step in new.steps}
    for name in [*after, *(name for name in before if name not in after)]:
        earlier, later = before.get(name), after.get(name)
        for kind in ("os_packages", "python_packages"):
            changes += _packages(
                f"step {name}",
                getattr(earlier, kind) if earlier else (),
                getattr(later, kind) if later else (),
            )
    sums = ({pin.name: pin.sha256[:12] for pin in lock.sources} for lock in (old, new))
    changes += _facts("sources", *sums)
    changes += _facts("host", old.host.model_dump(), new.host.model_dump())
    return changes


def _head(lock: Lock) -> Mapping[str, str | None]:
    base = lock.base
    return {
        "image": lock.name,
        "plan": lock.plan[:12],
        "arch": lock.arch,
        "python": lock.python,
        "base": base.image or f"{base.distribution} {base.release}",
    }


def _facts(
    part: str, old: Mapping[str, str | None], new: Mapping[str, str | None]
) -> Iterator[LockChange]:
    for name in {**old, **new}:
        if old.get(name) != new.get(name):
            yield LockChange(part=part, name=name, old=old.get(name), new=new.get(name))


def _packages(
    part: str, old: Iterable[OsPin | WheelPin], new: Iterable[OsPin | WheelPin]
) -> Iterator[LockChange]:
    before, after = ({_key(pin): pin for pin in pins} for pins in (old, new))
    for key in sorted({*before, *after}):
        earlier, later = before.get(key), after.get(key)
        if earlier == later:
            continue
        same = earlier is not None and later is not None and earlier.version == later.version
        yield LockChange(part=part, name=key, old=_shown(earlier, same), new=_shown(later, same))


def _key(pin: OsPin | WheelPin) -> str:
    return pin.name


def _shown(pin: OsPin | WheelPin | None, same_version: bool) -> str | None:  # noqa: FBT001
    if pin is None:
        return None
    # The same version of another content: a mirror that rebuilt it, or another wheel.
    return f"{pin.version} (sha256 {pin.sha256[:12]}…)" if same_version else pin.version
