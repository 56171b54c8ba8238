"""The one way to skip a test."""

import os
from typing import Literal, NoReturn

import pytest

# Where a test runs that can't run here. A program that can be installed is not among these.
Elsewhere = Literal[
    "a run as root",
    "Debian or Ubuntu",
    "another processor",
    "another kernel",
    "a folder on a disk",
    "a checkout that others may enter",
    "test_an_old_python_is_here",
    "a mirror that holds what its index names",
]


def skip(reason: str, *, elsewhere: Elsewhere | None = None) -> NoReturn:
    """Skip a test for what this machine lacks; in CI that fails, unless it runs elsewhere."""
    __tracebackhide__ = True
    if elsewhere is not None:
        pytest.skip(f"{reason}; covered by {elsewhere}")
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
