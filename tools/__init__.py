"""Set-up scripts for the machine: standard library only, they run before any venv exists."""

import sys

_OLDEST = (3, 11)


def refusal(major: int, minor: int) -> "str | None":  # quoted: any Python 3 reads it
    """Return why this Python can't be used; None where it can."""
    if (major, minor) >= _OLDEST:
        return None
    return (
        f"error: this is Python {major}.{minor}\n"
        "  why: dlcontainer needs Python 3.11 or newer\n"
        "  next: name a newer one: make demo PYTHON=python3.11 (the same for make setup, make test)"
    )


# Here, where every script comes by first: an older Python fails at the next import, in a riddle.
if refusal(*sys.version_info[:2]):
    sys.exit(refusal(*sys.version_info[:2]))
