"""requirements.txt and `pip freeze`: what is taken, what is refused, and where."""

import os
from pathlib import Path

import pytest
from packaging.markers import Marker

from dlcontainer.authoring.readers import wish_file
from dlcontainer.errors import ConfigError, UsageError
from tests.unit.authoring.wishes import asked, read, refused

SHA, OTHER = "ab" * 32, "cd" * 32


def test_a_file_with_all_that_is_taken(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/more.txt").write_text("-c ../bounds.txt\nscipy\n")
    (tmp_path / "bounds.txt").write_text("numpy<3  # no extras here\n")
    text = f"""\
# a head; with a marker
numpy >= 1.26, <3   # what for
transformers [ torch , sentencepiece ] == 4.50.0 ; python_version < "3.13"

torch==2.13.0+cpu \\
    --hash=sha256:{SHA} \\
    --hash sha256:{OTHER.upper()}
    # via others
-r sub/more.txt
--requirement=sub/more.txt
--only-binary=:all:
--prefer-binary
Some_Name[a]~=1.4 --hash=sha256:{SHA}
"""
    wishes = read(tmp_path / "requirements.txt", text)
    assert asked(wishes) == [
        "2: numpy<3,>=1.26",
        '3: transformers[sentencepiece,torch]==4.50.0; python_version < "3.13"',
        "5: torch==2.13.0+cpu",
        "2: scipy",
        "13: Some_Name[a]~=1.4",
    ]
    assert [str(wish.requirement) for wish in wishes.constraints] == ["numpy<3"]
    assert wishes.constraints[0].origin == f"{tmp_path}/sub/../bounds.txt:1"
    assert wishes.wishes[2].hashes == {SHA, OTHER}
    assert wishes.format == "requirements"
    assert not wishes.is_locked
    assert wishes.notes == ()


def test_markers_are_kept_and_not_evaluated(tmp_path: Path) -> None:
    wishes = read(tmp_path / "r.txt", 'a; sys_platform == "win32"\nb; platform_machine=="z80"\n')
    assert [wish.requirement.marker for wish in wishes.wishes] == [
        Marker('sys_platform == "win32"'),
        Marker('platform_machine == "z80"'),
    ]


# Each line stands on line 2; the column, what is said, what to do.
REFUSED = [
    ("-e .", 1, "-e: an editable project is not taken", "remove it: your own project"),
    ("-e lib", 1, "-e: an editable project is not taken", "write NAME==VERSION of a release"),
    ("-e git+https://x/y#egg=z", 1, "-e: an editable project", "write NAME==VERSION"),
    ("--editable=./x", 1, "--editable", "write NAME==VERSION"),
    (".", 1, "a path is not taken: '.'", "write NAME==VERSION"),
    ("./evil", 1, "a path is not taken: './evil'", "(routing.wheels)"),
    ("../evil[extra]", 1, "a path is not taken", ""),
    ("/abs/evil", 1, "a path is not taken", ""),
    ("~/evil", 1, "a path is not taken", ""),
    ("sub/evil", 1, "a path is not taken", ""),
    (r"C:\evil", 1, "a path is not taken", ""),
    ("evil-1.0-py3-none-any.whl", 1, "a file is not taken", ""),
    ("evil-1.0.tar.gz ; python_version>'3'", 1, "a file is not taken", ""),
    ("https://h/evil.whl", 1, "an address is not taken", ""),
    ("file:///evil", 1, "an address is not taken", ""),
    ("git+https://u:secret@h/evil", 1, "version control (git)", ""),
    ("  evil @ git+ssh://git@h/evil", 10, "'evil': an address of version control (git)", ""),
    ("evil[x] @ https://u:secret@h/e", 9, "'evil': an address is not taken", ""),
    ("numpy @ file:///croot/x", 1, "'numpy @ file:…' names a place", "write numpy==VERSION"),
    ("-i https://u:secret@h/simple", 1, "-i is not taken", "indexes are the site's (routing.pip"),
    ("--index-url=https://secret/x", 1, "--index-url is not taken", "indexes are the site's"),
    ("--extra-index-url https://secret/", 1, "--extra-index-url is not taken", "routing.pip"),
    ("-f https://secret/whl.html", 1, "-f is not taken", "routing.pip"),
    ("--find-links wheels", 1, "--find-links is not taken", "routing.pip"),
    ("--trusted-host h", 1, "--trusted-host is not taken", "routing.pip"),
    ("--no-index", 1, "--no-index is not taken", "routing.pip"),
    ("--only-binary :all: --no-binary x", 21, "--no-binary is not taken", "images take wheels"),
    ("x==1 --config-settings a=b", 6, "--config-settings is not taken", "images take wheels"),
    ("x==1 --global-option=a", 6, "--global-option is not taken", "images take wheels"),
    ("--pre", 1, "--pre is not taken", "write NAME==VERSION of the pre-release"),
    ("--wat", 1, "unknown option --wat", "remove it"),
    ("x==1 --wat", 6, "unknown option --wat", "remove it"),
    ("-z", 1, "unknown option -z", "remove it"),
    ("-", 1, "stands beside an option", "a line of its own"),
    ("-r a.txt -c b.txt", 1, "-r is not taken", "write -r on a line of its own"),
    ("-r a.txt b.txt", 1, "'b.txt' stands beside an option", "a line of its own"),
    ("-r 'a.txt", 1, "a quote without its other half", "close the quote"),
    ("-r", 1, "-r without a file", "write -r FILE"),
    ("-r https://u:secret@h/r.txt", 1, "-r with an address is not taken", "copy the file"),
    ("-c file:///r.txt", 1, "-c with an address is not taken", "copy the file"),
    ("-r nowhere.txt", 1, "-r: nowhere.txt: cannot be read: No such file", ""),
    ("-r folder", 1, "cannot be read: it is a folder", ""),
    ("-rpipe.txt", 1, "cannot be read: it is not a regular file", ""),
    ("-r pyproject.toml", 1, "takes requirements files, not 'pyproject.toml'", "give that file"),
    ("-r ${HOME}/x", 1, "variables of the host", ""),
    ("x==${VERSION}", 4, "variables of the host", "write the value out"),
    ('x; python_verison > "3"', 4, "unknown environment marker 'python_verison'", "python_version"),
    ('x; sys_platform ~= "linux"', 3, "the marker compares two things", "markers are"),
    ("x; " + "(" * 99 + "os_name=='a'" + ")" * 99, 1, "too many parentheses", ""),
    ("x" * 5000, 1, "a requirement of more than 4096 characters", ""),
    ("x=1.0", 2, "has a single '='", "write x==1.0"),
    ("x=1.0=py311_0", 2, "has a single '='", "write x==1.0"),
    ("x 1.0", 3, "not a requirement: 'x 1.0'", "write NAME, NAME==VERSION"),
    ("x>=", 2, "not a requirement: 'x>='", ""),
    ("x>=1.0.*", 2, "not a requirement", ""),
    ("x[a", 2, "not a requirement: 'x[a'", ""),
    ("@EXPLICIT", 1, "not a requirement: '@EXPLICIT'", ""),
    ("<html>", 1, "not a requirement: '<html>'", ""),
    ("x \\ # why", 3, "a backslash stands inside the line", "nothing may follow the backslash"),
    (f"x --hash=sha256:{SHA[:-1]}", 10, "bad hash 'sha256:abab", "64 hex digits"),
    (f"x --hash=sha256:{SHA[:-1]}g", 10, "bad hash", "64 hex digits"),
    ("x --hash=md5:" + "a" * 32, 10, "a hash of kind md5 can't be compared", "--hash=sha256:"),
    ("x --hash", 3, "bad hash ''", "64 hex digits"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "column", "what", "step"), REFUSED, ids=[row[0][:40] for row in REFUSED]
)
def test_a_line_that_is_refused(
    tmp_path: Path, line: str, column: int, what: str, step: str
) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe.txt")
    text = refused(tmp_path / "r.txt", f"numpy\n{line}\nscipy\n")
    head, _, following = text.partition("\n  next: ")
    assert head.startswith(f"r.txt:2:{column}: ")
    assert what in head
    assert step in following
    assert "secret" not in text


def test_a_refusal_inside_a_continued_line_has_its_own_place(tmp_path: Path) -> None:
    text = refused(tmp_path / "r.txt", "numpy\nx==1 \\\n  --hash=sha256:1 \\\n  --wat\n")
    assert text.splitlines() == [
        "r.txt:3:10: bad hash 'sha256:1'; write --hash=sha256: and 64 hex digits",
        "r.txt:4:3: unknown option --wat; remove it",
    ]


def test_many_refusals_are_six_lines_in_order(tmp_path: Path) -> None:
    lines = [f"x{number}=1" for number in range(20)]
    text = refused(tmp_path / "r.txt", "\n".join(["pandas==1", "pandas==2", *lines]))
    assert [line.partition(" ")[0] for line in text.splitlines()] == [
        *("r.txt:2:", "r.txt:3:3:", "r.txt:4:3:", "r.txt:5:3:", "r.txt:6:3:"),
        "…",
    ]
    assert text.endswith("… and 16 more")


def test_a_comment_ends_a_continued_line(tmp_path: Path) -> None:
    wishes = read(tmp_path / "r.txt", "numpy \\\n  # why \\\nscipy\n#\\\ntorch\\\n")
    assert asked(wishes) == ["1: numpy", "3: scipy", "5: torch"]


def test_a_number_sign_inside_a_word_is_no_comment(tmp_path: Path) -> None:
    assert "not a requirement: 'x#y'" in refused(tmp_path / "r.txt", "x#y\n")


def test_pip_freeze(tmp_path: Path) -> None:
    text = "numpy==2.0.0\npkg-resources==0.0.0\npkg_resources==0.0.0\ntorch==2.13.0+cu128\n"
    wishes = read(tmp_path / "freeze.txt", text)
    assert asked(wishes) == ["1: numpy==2.0.0", "4: torch==2.13.0+cu128"]
    assert "freeze.txt:2: pkg-resources==0.0.0 is left out" in wishes.notes[0]
    editable = "# Editable install with no version control (own==0.1)\n-e /home/ada/own\n"
    assert refused(tmp_path / "freeze.txt", text + editable).startswith("freeze.txt:6:1: -e:")


def test_a_closure_is_said_to_be_one(tmp_path: Path) -> None:
    hashed = f"a==1 --hash=sha256:{SHA}\nb==2 --hash=sha256:{SHA}\n"
    assert read(tmp_path / "r.txt", hashed).is_locked
    header = "# This file was autogenerated by uv via the following command:\n"
    assert read(tmp_path / "r.txt", f"{header}a==1\nb==2\n").is_locked
    for text in (f"{header}a==1\nb>=2\n", "a==1\nb==2\n", f"{header}a==1.*\n", hashed + "c==1\n"):
        assert not read(tmp_path / "r.txt", text).is_locked


def test_require_hashes(tmp_path: Path) -> None:
    text = f"--require-hashes\na==1 --hash=sha256:{SHA}\n"
    assert read(tmp_path / "r.txt", text).is_locked
    assert refused(tmp_path / "r.txt", f"{text}b==1\n").startswith("r.txt:3: 'b==1' has no hash")


def test_cycles_and_files_that_are_included_twice(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("-r a.txt\n")
    text = refused(tmp_path / "a.txt", "-r b.txt\n")
    assert text.startswith("b.txt:1:1: -r a.txt includes itself: the files are a cycle")
    assert "-r a.txt includes itself" in refused(
        tmp_path / "a.txt", "x\n-r ./../" + tmp_path.name + "/a.txt"
    )
    # Without a memory this is 2^30 files.
    for level in range(9):
        line = f"-r {level + 1}.txt\n"
        (tmp_path / f"{level}.txt").write_text(line * 8)
    (tmp_path / "9.txt").write_text("numpy\n")
    assert asked(read(tmp_path / "r.txt", "scipy\n-r 1.txt\n")) == ["1: scipy", "1: numpy"]
    (tmp_path / "9.txt").write_text("-r 10.txt\n")
    (tmp_path / "10.txt").write_text("numpy\n")
    assert "10 levels" in refused(tmp_path / "r.txt", "-r 0.txt\n")


def test_what_constraints_can_not_have(tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("x[a]<2\n-r more.txt\n")
    lines = refused(tmp_path / "r.txt", "-c c.txt\nx\n").splitlines()
    assert lines[0].startswith("c.txt:1:1: 'x[a]<2': a constraint has no extras")
    assert lines[1].startswith("c.txt:2:1: -r inside constraints")


MERGED = [
    ("numpy\nNumPy\n", ["1: numpy"]),
    ("x==1\nx == 1 ; os_name<'3'\n", ["1: x==1", '2: x==1; os_name < "3"']),
    ("numpy>=1\nnumpy<2\n", ["1: numpy>=1", "2: numpy<2"]),
    ("torch==2.13.0+cpu\ntorch==2.13.0\n", ["1: torch==2.13.0+cpu", "2: torch==2.13.0"]),
    ("x==2.13.0\nx==2.13.0+cpu\n", ["1: x==2.13.0", "2: x==2.13.0+cpu"]),
    ("x==1\nx==2;os_name=='b'\n", ["1: x==1", '2: x==2; os_name == "b"']),
    ("x~=1.4\nx==1.4.*\nx!=1.5\n", ["1: x~=1.4", "2: x==1.4.*", "3: x!=1.5"]),
    ("x>=1.4\nx<=1.4\n", ["1: x>=1.4", "2: x<=1.4"]),
    ("x===odd\nx==1\n", ["1: x===odd", "2: x==1"]),
    ("x>=2.0.dev0\nx<2.0\n", ["1: x>=2.0.dev0", "2: x<2.0"]),
    ("x==1.4.*\nx<1.4.1\n", ["1: x==1.4.*", "2: x<1.4.1"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "lines"), MERGED)
def test_a_package_on_two_lines(tmp_path: Path, text: str, lines: list[str]) -> None:
    assert asked(read(tmp_path / "r.txt", text)) == lines


CONTRADICTIONS = [
    ("x==1\nx==2\n", "'x==2' contradicts 'x==1' at r.txt:1"),
    ("x==1.0\nX==1\nx>1\n", "'x>1' contradicts 'x==1.0' at r.txt:1"),
    ("x>=2\nx<2\n", "'x<2' contradicts 'x>=2' at r.txt:1"),
    ("x>2\nx<=2\n", "'x<=2' contradicts 'x>2' at r.txt:1"),
    ("x<1\nx~=1.4\n", "'x~=1.4' contradicts 'x<1' at r.txt:1"),
    ("x==1.4.*\nx>=1.5\n", "contradicts"),
    ("x~=1.4.2\nx>=1.5\n", "contradicts"),
    ("x==2.13.0+cpu\nx==2.13.0+cu128\n", "'x==2.13.0+cu128' contradicts 'x==2.13.0+cpu'"),
    ("x==1;os_name=='a'\nx==2;os_name=='a'\n", "contradicts"),
    ("x>=2,<1\n", "no version meets 'x<1,>=2'"),
    ("x==1,!=1\n", "no version meets"),
    ("-c c.txt\nx==2\n", "contradicts 'x==2' at r.txt:2"),
]


@pytest.mark.parametrize(("text", "what"), CONTRADICTIONS)
def test_bounds_that_no_version_meets(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "c.txt").write_text("x<2\n")
    assert what in refused(tmp_path / "r.txt", text)


def test_hashes_of_one_package_on_two_lines(tmp_path: Path) -> None:
    text = f"x==1\nx==1 --hash=sha256:{SHA}\nx==1 --hash=sha256:{SHA} --hash=sha256:{OTHER}\n"
    (wish,) = read(tmp_path / "r.txt", text).wishes
    assert wish.hashes == {SHA}
    text += f"x==1 --hash=sha256:{OTHER}\n"
    assert "r.txt:4: x==1: other hashes than at r.txt:1" in refused(tmp_path / "r.txt", text)


SLIPS = [
    *[(name, "numpy") for name in ("nunpy", "nmupy", "numpi", "numppy", "umpy", "nump", "Num.py")],
    *[
        ("pandsa", "pandas"),
        ("tranformers", "transformers"),
        ("troch", "torch"),
        ("torhc", "torch"),
    ],
    *[("sklearn", "scikit-learn"), ("cv2", "opencv-python-headless"), ("pytorch", "torch")],
    *[("dsak", "dask"), ("yaml", "pyyaml"), ("PIL", "pillow")],
]


@pytest.mark.parametrize(("name", "famous"), SLIPS)
def test_a_slip_is_said_and_not_changed(tmp_path: Path, name: str, famous: str) -> None:
    wishes = read(tmp_path / "r.txt", f"scipy\n{name}\n")
    assert wishes.wishes[1].requirement.name == name
    (note,) = wishes.notes
    assert note.startswith(f"{tmp_path}/r.txt:2: did you mean '{famous}'? '")


def test_names_that_are_no_slips(tmp_path: Path) -> None:
    names = "numpy torch torchx dash task dask desk jax max rich ruff ray trl peft numpyro numba"
    assert read(tmp_path / "r.txt", "\n".join(names.split())).notes == ()
    many = "\n".join(f"numpy{number}" for number in "abcdefghijklmnop")
    assert read(tmp_path / "r.txt", many).notes[-1] == "… and 6 more such names"


def test_a_file_of_three_thousand_lines(tmp_path: Path) -> None:
    lines = [f"package-{number}==1.{number} --hash=sha256:{number:064x}" for number in range(3000)]
    wishes = read(tmp_path / "r.txt", "\n".join(lines))
    assert len(wishes.wishes) == 3000
    assert wishes.wishes[-1].origin.endswith(":3000")


def test_a_file_of_too_many_requirements(tmp_path: Path) -> None:
    text = "\n".join(f"x{number}" for number in range(20_050))
    assert "more than 20000 requirements" in refused(tmp_path / "r.txt", text)


WHOLE_FILES = [
    (b"", "r.txt: the file asks for no package"),
    (b"# a comment\n\n   \n", "r.txt: the file asks for no package"),
    ("numpy\r\n".encode("utf-16"), "r.txt:1:1: the file is UTF-16, not UTF-8"),
    (b"numpy\n# caf\xe9\n", "r.txt:2:6: not UTF-8: byte 0xe9"),
    (b"numpy\nto\x00rch\n", "r.txt:2:3: character U+0000 is not allowed in a file"),
    ("a\u2028b".encode(), "r.txt:1:2: character U+2028"),
    (b"x" * (4 << 20), "a line of more than"),
    (b"x\n" * (2 << 20) + b"x", "r.txt: cannot be read: it has 4 MB; the limit is 4 MB"),
]


@pytest.mark.parametrize(("content", "what"), WHOLE_FILES, ids=range(len(WHOLE_FILES)))
def test_files_that_are_no_text(tmp_path: Path, content: bytes, what: str) -> None:
    assert what in refused(tmp_path / "r.txt", content)


def test_a_byte_order_mark_and_windows_ends(tmp_path: Path) -> None:
    wishes = read(tmp_path / "r.txt", b"\xef\xbb\xbfnumpy\r\nscipy \\\r\n  >=1\r\n")
    assert asked(wishes) == ["1: numpy", "2: scipy>=1"]


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    for name, what in (
        ("pipe.txt", "cannot be read: it is not a regular file"),
        ("nowhere.txt", "cannot be read: No such file"),
        ("poetry.lock", "no file of this kind is read"),
        ("x.ipynb", "no file of this kind is read"),
        ("a\nb.txt", "the file's name has a control character"),
        ("a\0b.txt", "the file's name has a control character"),
    ):
        with pytest.raises(ConfigError, match=what):
            wish_file.read(tmp_path / name)
    with pytest.raises(ConfigError, match="it is a folder"):
        wish_file.read(tmp_path)


def test_groups_are_of_other_formats(tmp_path: Path) -> None:
    for name in ("r.txt", "environment.yml"):
        with pytest.raises(UsageError, match="has no groups and no extras"):
            read(tmp_path / name, "numpy", groups=["dev"])


def test_an_entry_that_can_not_be_opened(tmp_path: Path) -> None:
    (tmp_path / "loop.txt").symlink_to("loop.txt")
    assert "cannot be read" in refused(tmp_path / "r.txt", "-r loop.txt\n")
