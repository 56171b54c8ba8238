"""Full or ill disks and slow programs are no bug: a documented exit code, at whichever call."""

import errno
import os

import pytest

from dlcontainer.cli import main
from dlcontainer.system.runner import CommandTimeoutError
from tests.fakes import completed


@pytest.mark.parametrize(
    ("argv", "code"),
    [(["cache", "prune"], 5), (["publish"], 6), (["modules", "gc"], 6), (["bench", "run"], 7)],
    ids=str,
)
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.ESTALE])
def test_a_disk_that_fails_is_explained(
    argv: list[str],
    code: int,
    number: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(**_: object) -> None:
        raise OSError(number, os.strerror(number), "/a/file")

    monkeypatch.setattr(main, "app", fail)
    assert main._run(argv, as_json=False) == code
    first, _, last = capsys.readouterr().err.partition("\n")
    assert first == f"dlcontainer: /a/file: the file system failed: {os.strerror(number)}"
    assert ("free some space" in last) is (number in (errno.ENOSPC, errno.EDQUOT))


def test_a_program_that_takes_too_long_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise CommandTimeoutError(completed("apptainer", "exec"), 120)

    monkeypatch.setattr(main, "app", fail)
    assert main._run(["bench", "train"], as_json=False) == 4
    said = capsys.readouterr().err
    assert said.startswith("dlcontainer: `apptainer exec` did not end within 120 s\n")
    assert "next: try again" in said


def test_another_error_of_ours_stays_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise FileNotFoundError(errno.ENOENT, "", "/a/file")

    monkeypatch.setattr(main, "app", fail)
    with pytest.raises(FileNotFoundError):
        main._run(["cache", "prune"], as_json=False)
