"""Pins by the names of their packages. Pure."""

import re

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


def name(pin: str) -> str:
    """Return the name of a pin's package as indexes compare it; what is no pin, as it is.

    Source: packaging.python.org, "Names and normalization".
    """
    match = _NAME.match(pin)
    return re.sub(r"[-_.]+", "-", match[0]).lower() if match else pin


def version(pin: str) -> str:
    """Return the version of a pin: 2.3.5 of `numpy==2.3.5`."""
    return pin.partition("==")[2]
