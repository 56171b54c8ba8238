"""Old spellings of commands: they lead to today's, and what is gone says which version has it."""

import pytest

from dlcontainer.cli import renamed
from dlcontainer.errors import UsageError


@pytest.mark.parametrize("old", renamed.RENAMED, ids=" ".join)
def test_an_old_spelling(old: tuple[str, ...]) -> None:
    new = renamed.RENAMED[old]
    argv, note = renamed.resolve([*old, "--help", "x y"])
    assert argv == [*new, "--help", "x y"]
    assert note is not None
    assert f"{' '.join(old)} is now dlcontainer {' '.join(new)}" in note


@pytest.mark.parametrize(
    "argv", [[], ["--version"], ["bench"], ["bench", "import"], ["lab", "count"]]
)
def test_what_has_its_name_still(argv: list[str]) -> None:
    assert renamed.resolve(argv) == (argv, None)


def test_what_is_gone() -> None:
    with pytest.raises(UsageError, match="modules takeover was removed") as caught:
        renamed.resolve(["modules", "takeover", "--root", "x"])
    assert "dlcontainer 0.9.0" in str(caught.value.next_step)
