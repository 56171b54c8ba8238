"""Definition files: base, apt and pip lines are taken, every other line is listed or refused."""

from pathlib import Path

import pytest

from tests.unit.authoring.images import asked, left, lines, read, refused

HEAD = "Bootstrap: docker\nFrom: python:3.11-slim\n"


def test_a_file_with_all_that_is_taken(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("einops\n")
    words = read(
        tmp_path / "sci.def",
        """\
# made by bootstrap: a tool
BootStrap: docker
From: pytorch/pytorch:2.4.0-CUDA   # the usual one

%files
    requirements.txt /opt/
    src /src

%environment
    # of the image
    export LC_ALL=C
    GREETING="good day"
    export GREETING
    export PATH=/x:$PATH
    . /x/activate

%post -c /bin/bash
    set -ex
    # bootstrap: nothing
    export DEBIAN_FRONTEND=noninteractive
    apt-get update &&
        apt-get -y install \\
        tree \\
        gcc
    if [ -f /x ]; then
        pip install numpy
    fi
    cd /opt
    pip install -r requirements.txt
    ./configure && make

%runscript
    exec python3 "$@"

%help
    Nothing.
""",
    )
    assert asked(words) == ["3: torch", "1: einops"]
    assert words.base.image == "pytorch/pytorch:2.4.0-CUDA"
    assert words.os_packages == ("tree", "gcc")
    assert words.environment == {"LC_ALL": "C", "GREETING": "good day"}
    assert left(words) == [
        "7: %files src /src (files: bind them, or write a step with `files`)",
        "14: %environment PATH (dlcontainer, a site or a shell sets it)",
        "15: %environment . /x/activate (more than NAME=VALUE)",
        "25: if [ -f /x ]; then pip install numpy fi (commands that depend on each other)",
        "28: cd /opt (neither pip nor apt)",
        "30: ./configure (neither pip nor apt)",
        "30: make (neither pip nor apt)",
        "32: %runscript (line 33) (images run what a job names)",
        "35: %help (line 36) (the recipe has its own facts)",
    ]
    assert words.wishes.notes == (
        "apt's recommended packages are not installed: name those wanted",
    )


def test_kept_as_it_is_written(tmp_path: Path) -> None:
    content = f"""\
{HEAD}%post
    if true; then
        pip install numpy
    fi
    pip install six
    echo "a  b" | cat
"""
    words = read(tmp_path / "x.def", content, keep_shell=True)
    assert words.shell == 'if true; then\n        pip install numpy\n    fi\necho "a  b" | cat\n'
    assert asked(words) == ["7: six"]


def test_a_list_of_another_line_goes_on(tmp_path: Path) -> None:
    content = f"{HEAD}%post\n  test -f /x &&\n    pip install numpy\n  pip install six\n"
    words = read(tmp_path / "x.def", content)
    assert (asked(words), lines(words)) == (["6: six"], [4, 5])


REFUSED = [
    ("Bootstrap: localimage\nFrom: x.sif\n%post\n pip install six\n", ":1:1: Bootstrap: local", ""),
    ("Bootstrap: library\nFrom: x\n", ":1:1: Bootstrap: library is not read", "docker"),
    ("From: python:3\n", "no Bootstrap: docker", ""),
    ("Bootstrap: docker\n", "From: names no image", ""),
    ("Bootstrap: docker\nFrom: {{ BASE }}\n", ":2:1: From: names no image", "template"),
    ("Bootstrap: docker\nFrom: alpine\n", ":2:1: no recipe stands for the base", "--extends"),
    ("Bootstrap: docker\nRegistry: h\nFrom: x\n", ":2:1: 'registry:' in the header", ""),
    (f"{HEAD}%post\n true\n{HEAD}", ":5:1: a second stage (Bootstrap)", "of its own"),
    (f"{HEAD}%files from build\n /x\n", ":3:1: %files from another stage", ""),
    (f"{HEAD}%post\n cat > /x <<EOF\n pip install six\nEOF\n", ":4:11: a here-document", ""),
    (f"{HEAD}%post -c /usr/bin/python3\n pip install six\n", ":3:1: %post -c", "/bin/sh"),
    (f"{HEAD}%install\n pip install six\n", ":3:1: %install is no section", "write one of"),
    (f"{HEAD}hello\n", ":3:1: 'hello' is no line of a definition's header", ""),
    (f"{HEAD}%post\n echo 'a\n b'\n", ":4:7: ' has no other half", ""),
    (f"{HEAD}%post\n from: x\n pip install six\n", ":4:2: spython", "plain commands"),
    (f"{HEAD}%post\n pip install -i https://h six\n", ":4:14: -i is not taken", ""),
    (f"{HEAD}%post\n ls\n", "no pip line and no apt line", ""),
    (f"{HEAD}%files\n ../r.txt /r.txt\n%post\n pip install -r /r.txt\n", "leads out", ""),
    (f"{HEAD}%files\n /etc/passwd /r\n%post\n pip install -r /r\n", "leads out", ""),
]


@pytest.mark.parametrize(("content", "what", "step"), REFUSED)
def test_refused_with_its_line(tmp_path: Path, content: str, what: str, step: str) -> None:
    said = refused(tmp_path / "x.def", content)
    assert said.startswith("x.def")
    assert what in said
    assert step in said


def test_three_thousand_lines(tmp_path: Path) -> None:
    content = f"{HEAD}%post\n pip install six\n" + " echo $(date)\n" * 3000
    words = read(tmp_path / "x.def", content)
    assert lines(words) == list(range(5, 3005))
