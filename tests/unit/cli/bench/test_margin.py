"""`--margin`: the user's own, declared first."""

import pytest

from dlcontainer.cli.bench import session_options
from dlcontainer.errors import UsageError


@pytest.mark.parametrize(
    ("text", "share"), [("2%", 0.02), ("0.02", 0.02), (" 2.2 %", 0.022), ("50%", 0.5), (None, None)]
)
def test_a_margin_is_a_share(text: str | None, share: float | None) -> None:
    assert session_options.margin(text) == share


@pytest.mark.parametrize("text", ["", "0", "-2%", "2", "100%", "nan", "inf", "two", "0.01%"])
def test_what_is_no_margin(text: str) -> None:
    with pytest.raises(UsageError, match=r"--margin") as caught:
        session_options.margin(text)
    assert "--margin 5%" in str(caught.value)
