"""What a terminal, or what stands in its place, is shown: pages, and streams that are odd."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest
import typer

from dlcontainer.cli import main
from dlcontainer.cli.app import HelpGroup
from tests import terminals
from tests.integration.world import Built, World
from tests.terminals import Samples
from tests.unit.cli.test_help import commands

COMMAND = (sys.executable, "-c", "from dlcontainer.cli.main import run; run()")
DOCUMENTED = {0, 1, 2, 3, 4, 5, 6, 7, 8, 130}
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")

GROUPS = [
    words
    for words, one in commands(typer.main.get_command(main.app))
    if isinstance(one, HelpGroup) and one.no_args_is_help
]
# One whose result is long, one whose result is short, a text for files, and two errors.
LOOKING = (
    "site list",
    "--version",
    "render pytorch --site local --format job",
    "plan pytorch --site nosuch",
    "site",
)


@dataclass(frozen=True, kw_only=True)
class Shown:
    code: int
    text: str


def on_a_terminal(*words: str, columns: int = 80, **environ: str) -> Shown:
    """Run a command on a terminal of its own; give all that it shows there."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    usual = {"TERM": "xterm", "COLUMNS": ""}
    given = {**os.environ, **usual, **environ}
    process = subprocess.Popen(
        [*COMMAND, *words], stdin=follower, stdout=follower, stderr=follower, env=given
    )
    os.close(follower)
    shown = bytearray()
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # so Linux says that the last one who writes has gone
            break
        shown += part
    os.close(leader)
    return Shown(code=process.wait(), text=shown.decode().replace("\r\n", "\n"))


@pytest.mark.parametrize("words", GROUPS, ids=" ".join)
def test_a_group_without_a_command_shows_its_help(words: tuple[str, ...]) -> None:
    bare, page = on_a_terminal(*words), on_a_terminal(*words, "--help")
    assert (bare.code, page.code) == (2, 0)
    assert bare.text == page.text
    assert ESCAPE.search(bare.text)
    assert "\\u001b" not in bare.text
    assert "\x1b" not in on_a_terminal(*words, NO_COLOR="1").text


def test_a_page_has_the_colours_of_the_stream_that_it_goes_to(tmp_path: Path) -> None:
    kept = tmp_path / "errors"
    line = f"exec {' '.join(map(_quoted, COMMAND))} site 2> {_quoted(str(kept))}"
    leader, follower = pty.openpty()
    subprocess.run(
        ["sh", "-c", line], stdout=follower, check=False, env={**os.environ, "TERM": "xterm"}
    )
    os.close(follower)
    os.close(leader)
    assert kept.read_text().startswith("Usage: dlcontainer site")
    assert "\x1b" not in kept.read_text()


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)


STREAMS: Mapping[str, str] = {
    "closed stdout": ">&-",
    "closed stderr": "2>&-",
    "closed stdin": "<&-",
    "all closed": "<&- >&- 2>&-",
    "full stdout": ">/dev/full",
    "full stderr": "2>/dev/full",
    "both full": ">/dev/full 2>&1",
    "a reader that has gone": "| true",
    "a log whose reader has gone": "2>&1 >/dev/null | true",
}


def run(words: str, streams: str = "", **environ: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command with its streams as a shell sets them; its own exit code is the shell's."""
    line = f"set -o pipefail; {' '.join(map(_quoted, COMMAND))} {words} {streams}"
    # Buffered, as for users: what is left is written as the interpreter ends.
    own = {**os.environ, "PYTHONUNBUFFERED": "", **environ}
    return subprocess.run(["bash", "-c", line], capture_output=True, check=False, env=own)


@cache
def usually(words: str) -> subprocess.CompletedProcess[bytes]:
    return run(words)


@pytest.mark.parametrize("streams", STREAMS)
@pytest.mark.parametrize("words", LOOKING)
def test_streams_that_are_closed_or_full(words: str, streams: str) -> None:
    usual = usually(words)
    done = run(words, STREAMS[streams])
    assert b"Traceback" not in done.stderr + done.stdout
    assert done.returncode in DOCUMENTED
    if "full stdout" not in streams and "both full" not in streams:
        # What nobody hears changes nothing of what was found.
        gone = streams == "a reader that has gone" and usual.stdout
        assert done.returncode == (0 if gone else usual.returncode)
    elif usual.stdout:
        assert done.returncode != 0


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
@pytest.mark.parametrize("words", LOOKING)
def test_a_terminal_of_few_characters(words: str, encoding: str) -> None:
    usual, done = usually(words), run(words, PYTHONIOENCODING=encoding)
    assert done.returncode == usual.returncode
    assert b"Traceback" not in done.stderr
    assert done.stdout.decode(encoding).isascii() or encoding == "latin-1"


def test_a_text_for_files_is_the_same_bytes_whatever_the_terminal_has(tmp_path: Path) -> None:
    site = tmp_path / "lab.yaml"
    text = "schema: 1\nname: lab\nextends: example-slurm\nsummary: s\nunknown: ['Größe: µ…']\n"
    site.write_text(text, encoding="utf-8")
    words = f"render pytorch --cpu --format job --site {_quoted(str(site))}"
    usual, done = run(words), run(words, PYTHONIOENCODING="ascii")
    assert usual.returncode == 0, usual.stderr
    assert "Größe" in usual.stdout.decode()
    assert done.stdout == usual.stdout


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    return terminals.samples(tmp_path_factory.mktemp("samples"))


@pytest.mark.parametrize(
    ("line", "columns"),
    [
        ("site show lumi", 80),
        ("report {imports} {findings}", 100),
        ("modules list --root {tree}", 80),
        ("plan pytorch --site nosuch", 80),
        ("bench --help", 20),
    ],
)
def test_a_real_terminal_shows_what_the_unit_tests_see(
    line: str, columns: int, samples: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(samples.home))
    words = samples.words(line)
    real = on_a_terminal(*words, columns=columns)
    seen = terminals.show(words, monkeypatch, columns)
    assert real.code == seen.code
    assert ESCAPE.sub("", real.text) == seen.out + seen.err


RUNNING = [one.words for one in terminals.typed() if one.runs]


@pytest.mark.parametrize("line", RUNNING)
def test_what_starts_processes_fits_too(
    line: str, samples: Samples, tiny_image: Built, world: World
) -> None:
    images = {"image": str(tiny_image.image), "other": str(tiny_image.image)}
    words = replace(samples, files={**samples.files, **images}).words(line)
    for columns in (80, 100):
        shown = on_a_terminal(*words, columns=columns, **world.environ)
        assert shown.code in DOCUMENTED
        text = re.sub(r"\x1b\[[0-9;]*[mK]|[^\n]*\r", "", shown.text)
        if not {"--sbom", "--sarif"} & set(words):  # texts for files
            assert terminals.too_wide(text, columns) == []


def test_a_terminal_that_can_do_nothing() -> None:
    for words in (("site", "list"), ("site",), ("plan", "pytorch", "--site", "nosuch")):
        assert "\x1b" not in on_a_terminal(*words, TERM="dumb").text


@pytest.mark.parametrize("words", LOOKING)
def test_a_locale_of_ascii(words: str) -> None:
    usual = usually(words)
    done = run(words, LC_ALL="C", LANG="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
    assert done.returncode == usual.returncode
    assert b"Traceback" not in done.stderr


def test_a_list_of_which_one_line_is_read() -> None:
    done = run("site list", "| head -1")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"active\n", b"")
