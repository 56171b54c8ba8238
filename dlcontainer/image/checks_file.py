"""What was checked of an image, as files have it: one model for who writes and who reads them.

`validate --json` prints `dlcontainer/validate/1`; a published release has `checks.json`.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import ClassVar, Literal, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

VALIDATED = "dlcontainer/validate/1"
CHECKS = "dlcontainer/checks/1"
T = TypeVar("T")
# A later version may write more than this one knows.
_OURS = ConfigDict(extra="ignore", allow_inf_nan=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckRecord:
    """One check; `ok` is False too for what could not be tried, which `state` tells apart."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    name: str
    ok: bool
    detail: str | None = ""
    # None in files of versions that tried all.
    state: Literal["ok", "failed", "not tried"] | None = None
    next_step: str = ""

    @property
    def body(self) -> dict[str, object]:
        """Return it as plain data; the next step of a check that failed alone."""
        return {name: value for name, value in asdict(self).items() if name != "next_step" or value}


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidationFile:
    """What `validate --json` prints; `plan` and `sha256` are those of a sound image's record."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    ok: bool
    image: str = ""
    date: str | None = None
    plan: str | None = None
    sha256: str | None = None
    site: str | None = None
    checks: tuple[CheckRecord, ...] = ()

    @property
    def body(self) -> dict[str, object]:
        """Return it as plain data."""
        return {**asdict(self), "checks": [check.body for check in self.checks]}


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseChecks:
    """A release's `checks.json`; `reached` says how far its site got, a line each."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    finished: str = ""
    image_sha256: str = ""
    checks: tuple[CheckRecord, ...] = ()
    reached: tuple[str, ...] = ()

    @property
    def body(self) -> dict[str, object]:
        """Return it as plain data."""
        checks = [check.body for check in self.checks]
        return {"schema": CHECKS, **asdict(self), "checks": checks}


_VALIDATION: TypeAdapter[ValidationFile] = TypeAdapter(ValidationFile)
_RELEASE: TypeAdapter[ReleaseChecks] = TypeAdapter(ReleaseChecks)


def validation(body: Mapping[str, object]) -> ValidationFile:
    """Read what `validate --json` printed; raises ValueError, with the key."""
    return _read(_VALIDATION, body)


def of_release(body: Mapping[str, object]) -> ReleaseChecks:
    """Read a release's checks; raises ValueError, with the key."""
    return _read(_RELEASE, body)


def _read(model: TypeAdapter[T], body: Mapping[str, object]) -> T:
    try:
        # From JSON text, because there a list may stand for a tuple and nothing else is lenient.
        return model.validate_json(json.dumps(body), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"]))
        raise ValueError(f"{name}: {first['msg'][0].lower()}{first['msg'][1:]}") from None
