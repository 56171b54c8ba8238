"""Commands that have another name now: the old one works until 1.0, and says the new one."""

from collections.abc import Mapping, Sequence

from dlcontainer.errors import UsageError

Words = tuple[str, ...]
# Each at the beginning of a command line; the longest that fits counts.
RENAMED: Mapping[Words, Words] = {
    ("bench", "count"): ("lab", "count"),
    ("bench", "probe-fs"): ("lab", "probe-fs"),
    ("bench", "scale"): ("bench", "import-matrix"),
    ("bench", "slowfs"): ("lab", "slowfs"),
    ("bench", "slownet"): ("lab", "slownet"),
    ("bench", "storm"): ("lab", "storm"),
    ("attest",): ("evidence", "attest"),
    ("explain-env",): ("site", "environment"),
    ("sign",): ("evidence", "sign"),
    ("verify",): ("evidence", "verify"),
}
# Commands that are gone, and the last version that has them.
GONE: Mapping[Words, str] = {("modules", "takeover"): "0.9.0"}


def resolve(argv: Sequence[str]) -> tuple[list[str], str | None]:
    """Return a command line in today's words, and a note where yesterday's were typed.

    Raises UsageError for a command that is gone.
    """
    for old, version in GONE.items():
        if tuple(argv[: len(old)]) == old:
            raise UsageError(
                f"dlcontainer {' '.join(old)} was removed",
                next_step=f"use dlcontainer {version}, the last version that has it",
            )
    for old, new in RENAMED.items():
        if tuple(argv[: len(old)]) == old:
            note = (
                f"note: {' '.join(old)} is now dlcontainer {' '.join(new)}; "
                "the old name works until 1.0"
            )
            return [*new, *argv[len(old) :]], note
    return list(argv), None
