"""No bytes crash a reader: a list of wishes comes out, or an error of ours in six lines."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcontainer.authoring.foreign import image_file, image_names
from dlcontainer.authoring.readers import wish_file
from dlcontainer.errors import DlcontainerError

IMAGES = ["Dockerfile", "x.def"]
NAMES = [*IMAGES, "r.txt", "pyproject.toml", "pylock.toml", "uv.lock", "environment.yml"]
# What the formats are made of: a file of these gets further than one of any bytes.
_WORDS = r"""
    numpy torch==1 x>=1,<2 [a] ; os_name == 'a' and ( ) @ git+https://h --hash=sha256: -r -c -e .
    --index-url \ # = { } [ ] , [[package]] [[packages]] [project] dependencies name version
    wheels source marker 'own' "x" "1" 1 1.0 lock-version = "1.0" - pip: dependencies: - numpy=1
    FROM debian RUN pip install COPY /x ENV A=1 ARG && || ; $(x) ${x} > << %post %files if fi ' " `
    apt-get Bootstrap: docker From: %environment export (
    - python=3.11 : | & * ! {name='a'} requires-python [dependency-groups] {virtual="."}
"""
WORDS = [*_WORDS.split(), "\ufeff", "\0", "\u2028", "\udc80", "\n", "\r\n", "\t", "\n  - "]


def read_any(name: str, content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        wishes, text = None, ""
        format_ = image_names.format_of(path)
        try:
            if format_ is None:
                wishes = wish_file.read(path)
            else:
                words = image_file.read(path, format_, keep_shell=True, has_below=True)
                wishes = words.wishes
                assert wishes.wishes or words.os_packages or words.shell
                return
        except DlcontainerError as error:
            text = str(error)
    if wishes is None:
        assert 0 < len(text.splitlines()) <= 6
        return
    assert wishes.wishes
    assert all(wish.origin.startswith(f"{path}:") for wish in wishes.wishes)


@pytest.mark.parametrize("name", NAMES)
@given(content=st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode()))
def test_any_bytes(name: str, content: bytes) -> None:
    read_any(name, content)


@pytest.mark.parametrize("name", NAMES)
@given(
    words=st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=40),
    blank=st.sampled_from([" ", "", "\n"]),
)
def test_any_words(name: str, words: list[str], blank: str) -> None:
    read_any(name, blank.join(words).encode(errors="surrogatepass"))
