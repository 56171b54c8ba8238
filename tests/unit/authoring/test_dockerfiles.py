"""Dockerfiles: base, apt and pip lines are taken, every other line is listed or refused."""

import io
from pathlib import Path

import pytest

from dlcontainer.authoring.foreign import image_names, spython_reading
from dlcontainer.errors import ConfigError, EngineError
from tests.unit.authoring.images import asked, left, lines, read, refused

FILES = "files: bind them, or write a step with `files`"


def test_a_file_with_all_that_is_taken(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("einops>=0.8\n-r more/extra.txt\n")
    (tmp_path / "more").mkdir()
    (tmp_path / "more/extra.txt").write_text("tqdm\n")
    words = read(
        tmp_path / "Dockerfile",
        """\
# syntax=docker/dockerfile:1
ARG MINOR=12
FROM python:3.${MINOR}-slim AS app
# what for
RUN apt-get update && DEBIAN_FRONTEND=noninteractive \\
    apt-get install -yqq --no-install-recommends \\
      libgomp1 \\
      # of the library
      libfoo=1.2-3:4 > /dev/null 2>&1 && \\
    rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY requirements.txt ./
RUN set -eux; pip3 install --no-cache-dir -U pip "six >= 1.16" 'numpy<3' \\
    packaging==25.0 \\
    -r requirements.txt
run python3 -m pip install --progress-bar off pip && pip cache purge
ENV GREETING="good day" LC_ALL=C.UTF-8
ENV PIP_NO_CACHE_DIR 1
ENV OLD value of old
""",
    )
    assert asked(words) == [
        "13: six>=1.16",
        "13: numpy<3",
        "14: packaging==25.0",
        "1: einops>=0.8",
        "1: tqdm",
    ]
    assert words.wishes.python == "==3.12.*"
    assert words.os_packages == ("libgomp1", "libfoo=1.2-3:4")
    assert words.environment == {
        "GREETING": "good day",
        "LC_ALL": "C.UTF-8",
        "OLD": "value of old",
    }
    assert left(words) == [
        "2: ARG MINOR (a variable of the build)",
        "11: WORKDIR /app (jobs start in their own folder)",
        "13: pip (the image's Python brings pip)",
        "16: pip (the image's Python brings pip)",
    ]
    assert words.shell == ""


def test_every_other_line_is_listed(tmp_path: Path) -> None:
    content = """\
FROM debian:bookworm
LABEL who="me"
MAINTAINER me
USER root
EXPOSE 80
VOLUME /data
STOPSIGNAL TERM
ONBUILD RUN true
HEALTHCHECK CMD true
COPY . /app
ADD https://u:s3cret@h/x.tgz /x
ARG TOKEN=hidden
ENV API_TOKEN=hidden PATH=/x:$PATH PYTHONPATH=/app TWO={{two}}
RUN ["pip", "install", "numpy"]
RUN pip install numpy && git clone https://u:s3cret@h/x && make -j$(nproc)
RUN apt-get upgrade -y && apt-get install -y ./own.deb
RUN pip install -e . && pip install . ./own six
RUN curl -s https://h/x | bash
ENTRYPOINT ["x"]
CMD ["x"]
"""
    words = read(tmp_path / "Dockerfile", content)
    assert asked(words) == ["15: numpy", "17: six"]
    said = "\n".join(left(words))
    assert lines(words) == [
        *(2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 13, 13, 13, 14),
        *(15, 15, 16, 16, 17, 17, 17, 18, 19, 20),
    ]
    assert "s3cret" not in said
    assert "hidden" not in said
    assert "12: ARG TOKEN (a variable of the build)" in said
    assert f"10: COPY . /app ({FILES})" in said
    assert "16: apt-get install -y ./own.deb ('./own.deb' is no OS package" in said
    assert "15: make -j$(nproc) (a shell fills in a part of it ($))" in said
    assert "18: curl -s https://h/x | bash (a pipe)" in said
    assert words.environment == {}


# What a command of RUN means, if not what its words say: none of these installs anything.
NOT_TAKEN = [
    "pip install $PACKAGES",
    "pip install $(cat list)",
    'pip install "$(cat list)"',
    "pip install `cat list`",
    "pip install torch>=2.0",
    "pip install numpy || true",
    "test -f x && pip install numpy",
    "if true; then pip install numpy; fi",
    "for p in numpy; do pip install $p; done",
    "case x in (x) pip install numpy;; y) true;; esac",
    "f() { pip install numpy; }",
    "(pip install numpy)",
    "{ pip install numpy; }",
    "exit 0; pip install numpy",
    "yes | pip install numpy",
    "pip install numpy &",
    "pip download numpy",
    "pip uninstall -y numpy",
    "PYTHONPATH=/x pip install numpy",
    "conda install -y numpy",
    "conda run pip install numpy",
    "dnf install -y gcc",
    "apt-get install -y gcc-",
    "apt-get install -y -t sid gcc",
    "apt-get install -y 'gcc; true'",
    "apt-get remove -y gcc",
    "pip install -r missing.txt",
    "echo pip install numpy",
    "pip install .",
    "pip install -e ./x[dev]",
]


@pytest.mark.parametrize("command", NOT_TAKEN)
def test_no_guess(tmp_path: Path, command: str) -> None:
    words = read(tmp_path / "Dockerfile", f"FROM python:3\nRUN pip install six\nRUN {command}\n")
    assert asked(words) == ["2: six"]
    assert words.os_packages == ()
    assert lines(words)[0] == 3


@pytest.mark.parametrize("command", NOT_TAKEN)
def test_kept_as_it_is_written(tmp_path: Path, command: str) -> None:
    content = f"FROM python:3\nWORKDIR /a b\nRUN pip install six\nRUN {command}\n"
    words = read(tmp_path / "Dockerfile", content, keep_shell=True)
    enter = "(\nmkdir -p '/a b'\ncd '/a b'\n"
    assert words.shell.startswith(enter)
    kept = words.shell.removeprefix(enter).removesuffix("\n)\n")
    assert kept == command.replace("&& ", "&&\n").replace("0; ", "0\n")


def test_the_order_of_what_is_kept(tmp_path: Path) -> None:
    content = (
        "FROM debian\nRUN git clone x && pip install six && cd x && make\n"
        "RUN apt-get install -y gcc\nRUN ./late && ${#x} && {{ x }}\n"
    )
    words = read(tmp_path / "Dockerfile", content, keep_shell=True)
    assert words.shell == "(\ngit clone x\ncd x &&\nmake\n)\n(\n./late\n)\n"
    kept = [line.text for line in words.untaken if line.kept]
    assert kept == ["git clone x", "cd x", "make", "./late"]
    templates = [str(line) for line in words.untaken if not line.kept]
    assert templates == [
        "not taken, line 4: ${#x} (marks of a template ({{, {% or {#))",
        "not taken, line 4: {{ x }} (marks of a template ({{, {% or {#))",
    ]


REFUSED = [
    ("FROM a AS b\nFROM c\n", "Dockerfile:2:1: a second stage (FROM)", "of its own"),
    ("FROM debian\nRUN --mount=type=cache,target=/x pip install six\n", ":2:1: RUN --mount", ""),
    ("FROM debian\nRUN <<EOF\npip install six\nEOF\n", ":2:5: a here-document", "COPY it"),
    ("FROM debian\nCOPY <<EOF /x\nhi\nEOF\n", ":2:6: a here-document", ""),
    ("FROM debian\nCOPY --from=alpine /x /y\n", ":2:1: COPY --from", ""),
    ('FROM debian\nSHELL ["bash"]\n', ":2:1: SHELL is not read", "/bin/sh"),
    ("FROM $BASE\n", ":1:1: no ARG before gives '$BASE'", "ARG NAME=VALUE"),
    ("ARG BASE\nFROM ${BASE}:x\n", ":2:1: no ARG before gives", ""),
    ("ARG B=${C}\nFROM $B\n", ":2:1: no ARG before gives", ""),
    ("ARG B=debian\nFROM ${B:-x}\n", ":2:1: no ARG before gives", ""),
    ("FROM alpine:3\n", ":1:1: no recipe stands for the base 'alpine:3'", "--extends RECIPE"),
    ("FROM scratch\n", ":1:1: no recipe stands for", ""),
    ("FROM continuumio/miniconda3\n", ":1:1: no recipe stands for", ""),
    ("FROM debian bookworm\n", ":1:1: not FROM IMAGE [AS NAME]", ""),
    ("RUN true\nFROM debian\n", ":1:1: RUN stands before FROM", ""),
    ("# escape=`\nFROM debian\n", ":1:1: # escape=` is not read", "remove the line"),
    ("# syntax=me/mine\nFROM debian\n", ":1:1: # syntax=me/mine is not read", ""),
    ("FROM debian\nINSTALL six\n", ":2:1: 'INSTALL' is no instruction", "write one of ADD"),
    ("@@ ARGS @@\nFROM debian\n", ":1:1: '@@' is no instruction", ""),
    ("FROM debian\nRUN pip install 'six\n", ":2:17: ' has no other half", "on one line"),
    ("FROM debian\nRUN echo $(pip install six\n", ":2:10: $ has no other half", ""),
    ("FROM debian\nRUN pip install -f https://h six\n", ":2:17: -f is not taken", "routing.pip"),
    ("FROM debian\nRUN pip install six --index-url https://h\n", "--index-url is not taken", ""),
    ("FROM debian\nRUN pip install --extra-index-url=https://h six\n", "--extra-index-url", ""),
    ("FROM debian\nRUN uv pip install --index https://h six\n", "unknown option --index", ""),
    ("FROM debian\nRUN pip install \\\n  six \\\n  git+https://h/x\n", ":4:3: an address of", ""),
    ("FROM debian\nRUN pip install --no-deps six\n", "unknown option --no-deps", "remove it"),
    ("FROM debian\nRUN pip install --pre six\n", "--pre is not taken", "NAME==VERSION"),
    ("FROM debian\nRUN pip install -r https://h/r.txt\n", "-r with an address", ""),
    ("FROM debian\nRUN pip install numpy=1.2\n", ":2:22: not a requirement", "numpy==1.2"),
    ("FROM debian\nENV PIP_INDEX_URL=https://h\nRUN pip install six\n", ":2:1: PIP_INDEX", ""),
    ("FROM debian\nRUN echo hello\n", "no pip line and no apt line", "plain lines"),
    ("FROM debian\nRUN pip install $X\n", "why: not taken, line 2: pip install $X", ""),
    ("", "the file is empty", "write FROM"),
    (" \n\n", "the file is empty", ""),
    ("# FROM debian\n", "it has no FROM", "give a Dockerfile"),
    (b"FROM debian\nRUN pip\0\n", ":2:8: character U+0000", ""),
    (b"FROM debian\nRUN \x1b[2J pip\n", ":2:5: character U+001B", ""),
    (b"FROM debian\nRUN \xff pip\n", ":2:5: not UTF-8", ""),
    ("FROM debian\u2028RUN pip install six\n", "character U+2028", ""),
]


@pytest.mark.parametrize(("content", "what", "step"), REFUSED)
def test_refused_with_its_line(tmp_path: Path, content: str | bytes, what: str, step: str) -> None:
    said = refused(tmp_path / "Dockerfile", content)
    assert said.startswith("Dockerfile")
    assert what in said
    assert step in said


@pytest.mark.parametrize(
    ("image", "wish", "python", "distribution"),
    [
        ("pytorch/pytorch:2.1.0-cuda12.1-cudnn8-runtime", "torch", None, None),
        ("docker.io/pytorch/pytorch", "torch", None, None),
        ("nvcr.io/nvidia/pytorch:24.05-py3", "torch", None, None),
        (f"rocm/pytorch:latest@sha256:{'a' * 64}", "torch", None, None),
        ("tensorflow/tensorflow:2.16.1-gpu", "tensorflow", None, None),
        ("nvcr.io/nvidia/jax:24.04-py3", "jax", None, None),
        ("python:3.11", None, "==3.11.*", None),
        ("docker.io/library/python:3.10.4-slim-bullseye", None, "==3.10.*", None),
        ("python:3", None, None, None),
        ("python", None, None, None),
        ("ubuntu:22.04", None, None, ("ubuntu", "jammy")),
        ("ubuntu:noble-20240530", None, None, ("ubuntu", "noble")),
        ("ubuntu:18.04", None, None, None),
        ("debian:bookworm-slim", None, None, ("debian", "bookworm")),
        ("debian:13.1", None, None, ("debian", "trixie")),
        ("debian:11", None, None, None),
        ("nvidia/cuda:12.4.1-cudnn-devel-ubuntu22.04", None, None, ("ubuntu", "jammy")),
    ],
)
def test_what_a_base_s_name_says(
    tmp_path: Path,
    image: str,
    wish: str | None,
    python: str | None,
    distribution: tuple[str, str] | None,
) -> None:
    words = read(
        tmp_path / "Dockerfile", f"FROM --platform=linux/amd64 {image}\nRUN pip install six"
    )
    assert asked(words) == [*([f"1: {wish}"] if wish else []), "2: six"]
    assert words.wishes.python == python
    assert words.base.distribution == distribution
    assert (words.base.image, words.base.origin) == (image, f"{tmp_path}/Dockerfile:1")


def test_a_recipe_below_takes_the_place_of_any_base(tmp_path: Path) -> None:
    content = "FROM me/own:python3.9\nRUN pip install six\n"
    words = read(tmp_path / "Dockerfile", content, has_below=True)
    assert (words.base.image, asked(words)) == ("me/own:python3.9", ["2: six"])
    words = read(
        tmp_path / "Dockerfile", "FROM pytorch/pytorch\nRUN pip install six", has_below=True
    )
    assert asked(words) == ["2: six"]


@pytest.mark.parametrize(
    "copied",
    [
        "COPY req.txt /app/",
        "COPY req.txt /app/req.txt",
        "COPY --chown=me:me ./req.txt /app",
        "WORKDIR /app\nCOPY req.txt .",
        "WORKDIR /app\nCOPY . .",
        "COPY . /app",
        "COPY req*.txt /app/",
        "ADD setup.py req.txt /app/",
        "WORKDIR /\nWORKDIR app\nCOPY req.txt other ./",
    ],
)
def test_where_a_copied_list_stands(tmp_path: Path, copied: str) -> None:
    (tmp_path / "req.txt").write_text("six\n")
    for run in ("pip install -r /app/req.txt", "cd /app && pip install -r req.txt"):
        words = read(tmp_path / "Dockerfile", f"FROM python:3\n{copied}\nRUN {run}\n")
        assert asked(words) == ["1: six"]


@pytest.mark.parametrize("move", ["cd $X", "if true; then cd x; fi", "pushd x"])
def test_a_folder_that_nobody_knows(tmp_path: Path, move: str) -> None:
    (tmp_path / "req.txt").write_text("six\n")
    for path, taken in (("req.txt", []), ("/req.txt", ["1: six"])):
        content = f"FROM python:3\nCOPY . /\nRUN pip install tqdm; {move}; pip install -r {path}\n"
        assert asked(read(tmp_path / "Dockerfile", content)) == ["3: tqdm", *taken]


@pytest.mark.parametrize("source", ["../secret.txt", "sub/../../secret.txt", "link.txt"])
def test_no_way_out_of_the_folder(tmp_path: Path, source: str) -> None:
    (tmp_path / "secret.txt").write_text("root:x:0:0\n")
    folder = tmp_path / "project"
    (folder / "sub").mkdir(parents=True)
    (folder / "link.txt").symlink_to("../secret.txt")
    said = refused(
        folder / "Dockerfile", f"FROM python:3\nCOPY {source} /r.txt\nRUN pip install -r /r.txt\n"
    )
    assert "Dockerfile:3:17: -r" in said
    assert "leads out of the folder" in said
    assert "root" not in said


@pytest.mark.parametrize("line", ["-r ../secret.txt", "-c ../secret.txt"])
def test_no_way_out_by_an_included_list(tmp_path: Path, line: str) -> None:
    (tmp_path / "secret.txt").write_text("root:x:0:0\n")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "r.txt").write_text(f"six\n{line}\n")
    said = refused(folder / "Dockerfile", "FROM python:3\nCOPY . /\nRUN pip install -r r.txt\n")
    assert "r.txt:2:1" in said
    assert "leads out of the folder" in said


def test_windows_ends_and_a_byte_order_mark(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbfFROM python:3\r\nRUN pip install six \\\r\n  tqdm\r\nCMD x\r\n"
    words = read(tmp_path / "Dockerfile", content)
    assert (asked(words), lines(words)) == (["2: six", "3: tqdm"], [4])


def test_three_thousand_lines(tmp_path: Path) -> None:
    content = "FROM python:3\nRUN pip install six\n" + "RUN echo $(date) | cat\n" * 3000
    words = read(tmp_path / "Dockerfile", content, keep_shell=True)
    assert lines(words) == list(range(3, 3003))
    long = "FROM python:3\nRUN true" + " && \\\n echo x" * 3000 + " && pip install six\n"
    assert asked(read(tmp_path / "Dockerfile", long)) == ["3002: six"]


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("Dockerfile", "Dockerfile"),
        ("Containerfile", "Dockerfile"),
        ("Dockerfile.gpu", "Dockerfile"),
        ("gpu.Dockerfile", "Dockerfile"),
        ("x.def", "definition"),
        ("Singularity", "definition"),
        ("Singularity.gpu", "definition"),
        ("requirements.txt", None),
        ("Dockerfiles", None),
        ("def", None),
    ],
)
def test_names(name: str, format_: str | None) -> None:
    assert image_names.format_of(Path("a/b") / name) == format_


def test_without_spython(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "spython.main.parse", None)
    with pytest.raises(EngineError, match="spython") as caught:
        read(tmp_path / "Dockerfile", "FROM python:3\nRUN pip install six\n")
    assert "-m pip install 'spython>=0.3.14,<0.4'" in str(caught.value.next_step)


def test_a_line_that_spython_reads_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spython.main.parse import parsers

    def other(self: object, line: str) -> None:
        vars(self)["recipe"][vars(self)["active_layer"]].install.append("pip install evil")

    monkeypatch.setattr(parsers.DockerParser, "_run", other)
    said = refused(tmp_path / "Dockerfile", "FROM python:3\nRUN pip install six\n")
    assert said.startswith("Dockerfile:2:1: spython reads this line otherwise")


def test_spython_s_own_words_stay_off_the_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spython.logger import bot

    words = io.StringIO()
    monkeypatch.setattr(bot, "errorStream", words)
    bot.warning("heard")
    content = "FROM python:3\nCOPY no*thing /x\nRUN pip install six\n"
    read(tmp_path / "Dockerfile", content)
    assert "thing" not in words.getvalue()
    bot.warning("heard again")
    assert words.getvalue().count("heard") == 2


def test_spython_that_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from spython.main.parse import parsers

    def stop(self: object) -> None:
        raise SystemExit(1)

    monkeypatch.setattr(parsers.DockerParser, "parse", stop)
    with pytest.raises(ConfigError, match="spython can't read this line"):
        read(tmp_path / "Dockerfile", "FROM python:3\nRUN pip install six\n")
    assert spython_reading.NEXT


@pytest.mark.parametrize(
    "name",
    [
        *("PATH", "HOME", "LD_PRELOAD", "PYTHONPATH", "https_proxy", "TMPDIR", "IFS"),
        *("APPTAINER_BIND", "SLURM_JOB_ID", "DLCONTAINER_X", "prefix", "CUDA_VISIBLE_DEVICES"),
    ],
)
def test_variables_that_are_no_image_s(tmp_path: Path, name: str) -> None:
    content = f"FROM python:3\nENV A=1 {name}=1 B=2\nRUN pip install six\n"
    words = read(tmp_path / "Dockerfile", content)
    assert words.environment == {"A": "1", "B": "2"}
    assert left(words) == [f"2: ENV {name} (dlcontainer, a site or a shell sets it)"]


def test_a_name_like_a_secret_s(tmp_path: Path) -> None:
    content = "FROM python:3\nENV TOKENIZERS_PARALLELISM=false HF_TOKEN=x\nRUN pip install six\n"
    words = read(tmp_path / "Dockerfile", content)
    assert words.environment == {"TOKENIZERS_PARALLELISM": "false"}
    assert left(words) == ["2: ENV HF_TOKEN (by its name a secret: no image should have it)"]
