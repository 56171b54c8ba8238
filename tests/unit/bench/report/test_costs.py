"""A cost that may be none, or a gain, never stands without its interval."""

import pytest

from dlcontainer.bench.analysis.seconds import Seconds
from dlcontainer.bench.report.text import seconds_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (Seconds(added=0.91, low=0.85, high=0.97), "+0.9 s"),
        (Seconds(added=-0.8, low=-1.93, high=0.36), "-0.8 s (-1.9 to +0.4 s)"),
        (Seconds(added=-0.8, low=-0.9, high=-0.7), "-0.8 s (-0.9 to -0.7 s)"),
        (Seconds(added=0.3, low=-0.1, high=0.7), "+0.3 s (-0.1 to +0.7 s)"),
        (Seconds(added=0.004, low=-0.001, high=0.009), "+0.004 s (-0.001 to +0.009 s)"),
    ],
)
def test_a_cost(seconds: Seconds, text: str) -> None:
    assert seconds_text.cost(seconds) == text
