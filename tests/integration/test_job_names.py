"""A job's id may hold any bytes; what scripts call files by it is one plain name, and its own."""

import os
import subprocess
from pathlib import Path

import pytest

from dlcontainer.config.templating import render_template
from tests.values import TEMPLATES

PLAIN = (b"7", b"12[3].server", b"42_7", b"..", b".", b"-n", b"")
OTHERS = (
    *("ƒM7Zq9".encode(), b"a/b", b"../../x", b"a b", b"a\nb", b"a\n", b"a+b", b"*", b"$(id)"),
    *(b"x" * 300, b"x" * 65, b"\xff\xfe", b"\xff", b"`id`", b"'", b'"'),
)
SAY = b'\ndlc_name_job "$@" || dlc_job=FAILED\nprintf %s "$dlc_job"\n'


def name(shell: str, words: list[bytes], path: str = os.environ["PATH"], locale: str = "C") -> str:
    """Run the function as a script would, and give what it calls the job."""
    text = render_template([TEMPLATES], "module/job_name.sh.j2", {})
    done = subprocess.run(
        [os.fsencode(shell), b"-euc", text.encode() + SAY, b"job", *words],
        env={"PATH": path, "LC_ALL": locale},
        capture_output=True,
        check=True,
    )
    assert done.stderr == b""
    return done.stdout.decode()


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
def test_an_id_of_any_bytes_is_a_name_of_its_own(shell: str, locale: str) -> None:
    # No process starts where it is plain: there is none.
    plain = [name(shell, [each], "/no/such", locale) for each in PLAIN]
    assert plain == [each.decode() for each in PLAIN]
    others = [name(shell, [each], locale=locale) for each in OTHERS]
    assert [len(each) for each in others] == [len("sha256-") + 64] * len(OTHERS)
    assert all(each.removeprefix("sha256-").isalnum() for each in others)
    assert len({*plain, *others}) == len(PLAIN) + len(OTHERS)


def test_a_step_is_told_from_another() -> None:
    said = [
        ["7", "", "0"],
        ["7", "", "1"],
        ["7", "", ""],
        ["7+0", "", ""],
        ["ƒ7", "0"],
        ["ƒ", "70"],
    ]
    names = [name("/bin/sh", [word.encode() for word in words]) for words in said]
    assert names[:3] == ["7+0", "7+1", "7"]
    assert len(set(names)) == len(said)


def test_without_the_checksum_s_tool_there_is_no_name(tmp_path: Path) -> None:
    assert name("/bin/sh", [b"a/b"], str(tmp_path)) == "FAILED"
