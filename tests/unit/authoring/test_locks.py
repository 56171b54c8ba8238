"""pylock.toml and uv.lock: what is taken, what is refused, and where."""

from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.unit.authoring.wishes import asked, read, refused

SHA, OTHER = "ab" * 32, "cd" * 32

LOCK = f"""\
lock-version = "1.0"
requires-python = ">=3.10"
environments = ["sys_platform == 'linux'"]
extras = ["plot"]
dependency-groups = ["dev", "default"]
default-groups = ["default"]
[[packages]]
name = "numpy"
version = "2.2.6"
marker = "python_version < '3.11'"
index = "https://secret/simple"
sdist = {{url = "https://secret/numpy.tar.gz", hashes = {{sha256 = "{OTHER}"}}}}
wheels = [
    {{url = "https://secret/a.whl", hashes = {{sha256 = "{SHA}"}}}},
    {{url = "https://secret/b.whl", hashes = {{sha256 = "{OTHER.upper()}"}}}},
]
[[packages]]
name = "numpy"
version = "2.4.6"
marker = "python_version >= '3.11'"
wheels = [{{url = "https://secret/c.whl", hashes = {{sha256 = "{SHA}"}}}}]
[[packages]]
name = "matplotlib"
version = "3.9"
marker = "'plot' in extras or 'dev' in dependency_groups"
wheels = [{{url = "https://secret/d.whl", hashes = {{sha256 = "{SHA}"}}}}]
[[packages]]
name = "tqdm"
version = "4"
marker = "'default' in dependency_groups and os_name != 'nt'"
wheels = [{{url = "https://secret/e.whl", hashes = {{sha256 = "{SHA}"}}}}]
[[packages]]
name = "old"
version = "1"
marker = "sys_platform == 'win32'"
sdist = {{url = "https://secret/old.tar.gz", hashes = {{sha256 = "{OTHER}"}}}}
"""


def holds(text: str) -> bool:
    """Return whether the marker of a line holds on Linux and Python 3.12."""
    marker = Requirement(text.partition(": ")[2]).marker
    linux = {"python_version": "3.12", "sys_platform": "linux", "os_name": "posix"}
    return marker is None or marker.evaluate(linux)


def test_a_standard_lock(tmp_path: Path) -> None:
    wishes = read(tmp_path / "pylock.toml", LOCK)
    lines = asked(wishes)
    assert lines[0] == '8: numpy==2.2.6; python_version < "3.11"'
    assert wishes.wishes[0].hashes == {SHA, OTHER}
    assert [line for line in lines if holds(line)] == [lines[1], lines[3]]
    assert (wishes.format, wishes.python, wishes.is_locked) == ("pylock", ">=3.10", True)
    assert wishes.notes == (
        "the lock was made for: sys_platform == 'linux'",
        f"{tmp_path}/pylock.toml:32: the lock has no wheel of 'old'",
    )
    assert "secret" not in repr(wishes)


def test_extras_and_groups_of_a_standard_lock(tmp_path: Path) -> None:
    path = tmp_path / "pylock.x.toml"
    with_extra = [line for line in asked(read(path, LOCK, extras=["Plot"])) if holds(line)]
    assert [line.split()[1][:5] for line in with_extra] == ["numpy", "matpl", "tqdm="]
    # The default groups count where no group is asked for.
    with_group = [line for line in asked(read(path, LOCK, groups=["dev"])) if holds(line)]
    assert [line.split()[1][:5] for line in with_group] == ["numpy", "matpl"]
    assert "4:1: there is no extra 'x'; known: plot" in refused(path, LOCK, extras=["x"])


def package(*lines: str) -> str:
    return "\n".join(['lock-version = "1.0"', "[[packages]]", 'name = "x"', *lines])


def versioned(*lines: str) -> str:
    return package('version = "1"', *lines)


WHEEL = f'wheels = [{{url="u", hashes={{sha256="{SHA}"}}}}]'
SHORT = 'wheels = [{url="u", hashes={sha256="1"}}]'
ON_DISK = WHEEL.replace("url=", "path=")
VCS = '[packages.vcs]\ntype="git"\nurl="https://secret"'
TWICE = versioned(WHEEL, "[[packages]]", 'name = "X"', 'version = "2"', WHEEL)
LOCKS = [
    ('lock-version = "2.0"', "l.toml:1:1: lock-version is not 1.x: '2.0'"),
    ("lock-version = 1.0", "l.toml:1:1: lock-version is not 1.x: 1.0"),
    ('lock-version = "1.0"', "l.toml:1:1: no list [[packages]]"),
    ('lock-version = "1.0"\npackages = []', "l.toml: the file asks for no package"),
    (versioned(VCS), "l.toml:5:1: 'x' comes from version control"),
    (package('directory = {path = "."}'), "l.toml:4:1: 'x' comes from a directory"),
    (package('archive = {url = "https://secret"}'), "l.toml:4:1: 'x' comes from an archive"),
    (package(WHEEL), "l.toml:2:1: 'x' has no version"),
    (versioned(ON_DISK), "l.toml:5:11: 'x': a wheel at a path"),
    (versioned(SHORT), "l.toml:5:11: 'x': a file without"),
    (versioned(SHORT.replace("sha256", "md5")), "l.toml:5:11: 'x': a file without"),
    (versioned("wheels = [1]"), "l.toml:5:11: 'x': a file without"),
    (versioned(WHEEL, 'marker = "wat == 1"'), "l.toml:6:1: a marker that is not understood"),
    (versioned(WHEEL, "marker = 1"), "l.toml:6:1: a marker that is not understood"),
    (versioned(WHEEL, "marker = \"extras == 'a'\""), "l.toml:6:1: a marker that is not"),
    (package('version = "1; os_name"', WHEEL), "l.toml:3:1: not a requirement"),
    (TWICE, "l.toml:7: 'X==2' contradicts 'x==1' at l.toml:3"),
]


def test_a_choice_that_is_turned_round(tmp_path: Path) -> None:
    text = 'extras = ["a"]\n' + versioned(WHEEL, "marker = \"'a' not in extras\"")
    assert holds(asked(read(tmp_path / "l.toml", text))[0])
    assert not holds(asked(read(tmp_path / "l.toml", text, extras=["a"]))[0])


@pytest.mark.parametrize(("text", "what"), LOCKS, ids=range(len(LOCKS)))
def test_a_standard_lock_that_is_refused(tmp_path: Path, text: str, what: str) -> None:
    words = refused(tmp_path / "l.toml", text)
    assert what in words
    assert "secret" not in words


def entry(name: str, version: str, *lines: str, source: str = 'registry = "https://secret"') -> str:
    head = f'[[package]]\nname = "{name}"\nversion = "{version}"\nsource = {{ {source} }}'
    return "\n".join([head, *lines, f'wheels = [{{ url = "u", hash = "sha256:{SHA}", size = 1 }}]'])


OWN = """\
version = 1
revision = 3
requires-python = ">=3.10"
[[package]]
name = "own"
source = { editable = "." }
dependencies = [
    { name = "a", marker = "os_name == 'posix'" },
    { name = "b", extra = ["x"] },
    { name = "n", version = "1", source = { registry = "r" }, marker = "python_version < '3.11'" },
    { name = "n", version = "2", source = { registry = "r" }, marker = "python_version >= '3.11'" },
]
[package.optional-dependencies]
plot = [{ name = "p" }]
[package.dev-dependencies]
dev = [{ name = "d" }]
"""
EXTRA = 'x = [{ name = "c", marker = "os_name == \'nt\'" }]'
UV = "\n".join(
    [
        OWN,
        entry("a", "1", 'dependencies = [{ name = "c", marker = "sys_platform == \'linux\'" }]'),
        entry("b", "1"),
        "[package.optional-dependencies]",
        EXTRA,
        entry("c", "1", 'dependencies = [{ name = "a" }]'),
        *(entry("n", "1"), entry("n", "2"), entry("p", "1"), entry("d", "1"), entry("lost", "1")),
    ]
)  # fmt: skip


def test_a_lock_of_uv(tmp_path: Path) -> None:
    wishes = read(tmp_path / "uv.lock", UV)
    assert [line.partition(": ")[2] for line in asked(wishes)] == [
        # On its own, and in the circle by c.
        'a==1; os_name == "nt" or os_name == "posix"',
        "b==1",
        'c==1; os_name == "nt" or (os_name == "posix" and sys_platform == "linux")',
        'n==1; python_version < "3.11"',
        'n==2; python_version >= "3.11"',
    ]
    assert asked(wishes)[0].startswith("19: ")
    assert {frozenset({SHA})} == {wish.hashes for wish in wishes.wishes}
    assert (wishes.format, wishes.python, wishes.is_locked) == ("uv.lock", ">=3.10", True)
    assert wishes.notes[0].startswith("your own package is not in the image: 'own'")
    more = read(tmp_path / "some.lock", UV, groups=["dev"], extras=["plot"])
    assert [line.partition(": ")[2] for line in asked(more)[5:]] == ["p==1", "d==1"]
    assert "there is no group 'x'; known: dev" in refused(tmp_path / "uv.lock", UV, groups=["x"])


A = entry("a", "1")
ROOT = '[[package]]\nname = "own"\nsource = {{ virtual = "." }}\ndependencies = [{}]'
EXPORT = "uv export --frozen --no-dev --no-emit-project --format pylock.toml -o pylock.toml"
NEEDS_A = ROOT.format('{name = "a"}')
OF_ANOTHER = ROOT.format('{name = "a", marker = "extra == \'extra-5-other-cpu\'"}')
UNKNOWN = ROOT.format('{name = "a", marker = "wat"}')
FROM_GIT = entry("a", "1", source='git = "https://secret"')
FROM_PATH = entry("a", "1", source='path = "../a"')
UV_LOCKS = [
    ([A], "no project in the lock", EXPORT),
    ([ROOT.format(""), ROOT.format("")], "2 projects in one lock", "--package NAME"),
    ([ROOT.format("")], "the file asks for no package", "ask for an extra"),
    ([NEEDS_A, FROM_GIT], "uv.lock:9:1: 'a' comes from a git source", "write NAME=="),
    ([NEEDS_A, FROM_PATH], "uv.lock:9:1: 'a' comes from a path source", "write NAME=="),
    ([NEEDS_A, A, A], "'a' stands 2 times", EXPORT),
    ([ROOT.format('{name = "z"}'), A], "'z' stands 0 times", EXPORT),
    ([ROOT.format("1"), A], "a dependency that is no table", EXPORT),
    ([UNKNOWN, A], "the marker 'wat'", EXPORT),
    ([OF_ANOTHER, A], "the marker 'extra == ", EXPORT),
]


@pytest.mark.parametrize(("parts", "what", "step"), UV_LOCKS, ids=range(len(UV_LOCKS)))
def test_a_lock_of_uv_that_is_refused(
    tmp_path: Path, parts: list[str], what: str, step: str
) -> None:
    words = refused(tmp_path / "uv.lock", "\n".join(["version = 1", *parts]))
    head, _, following = words.partition("\n  next: ")
    assert what in head
    assert step in following
    assert "secret" not in words


@pytest.mark.parametrize(
    ("package", "said"),
    [
        (A.replace("wheels", "others"), "the lock has no wheel of 'a'"),
        (A.replace("sha256", "md5"), "the lock has no SHA-256 of 'a' to compare"),
    ],
)
def test_what_a_lock_of_uv_lacks_is_said(tmp_path: Path, package: str, said: str) -> None:
    """A folder of the site may have the wheel; the resolver refuses where none has."""
    wishes = read(tmp_path / "uv.lock", f"version = 1\n{NEEDS_A}\n{package}")
    assert [wish.hashes for wish in wishes.wishes] == [frozenset()]
    assert wishes.notes == (f"{tmp_path}/uv.lock:7: {said}",)


@pytest.mark.parametrize("lines", [(), ('sdist = {url="u"}',)])
def test_a_standard_lock_without_a_wheel(tmp_path: Path, lines: tuple[str, ...]) -> None:
    wishes = read(tmp_path / "l.toml", versioned(*lines))
    assert [wish.hashes for wish in wishes.wishes] == [frozenset()]
    assert wishes.notes == (f"{tmp_path}/l.toml:2: the lock has no wheel of 'x'",)


# What uv writes of extras of which a project takes one: the index's torch, or one of two others.
CHOSEN = "extra == 'extra-3-own-{}'"
NOT_CHOSEN = CHOSEN.replace("==", "!=")


def choosing(version: str, index: str, marker: str) -> str:
    source = f'source = {{ registry = "{index}" }}'
    return f'{{ name = "torch", version = "{version}", {source}, marker = "{marker}" }}'


CPU, GPU = CHOSEN.format("cpu"), CHOSEN.format("gpu")
EXCLUSIVE = "\n".join(
    [
        "version = 1",
        ROOT.format(
            ", ".join(
                [
                    choosing(
                        "2", "cpu", f"(sys_platform == 'darwin' and {CPU}) or ({CPU} and {GPU})"
                    ),
                    choosing(
                        "2",
                        "any",
                        f"{NOT_CHOSEN.format('cpu')} and {NOT_CHOSEN.format('gpu')}",
                    ),
                    choosing("2+cpu", "cpu", f"(sys_platform != 'darwin' and {CPU})"),
                    choosing("2+cu1", "cu", GPU),
                ]
            )
        ),
        '[package.optional-dependencies]\ncpu = [{ name = "a" }]\ngpu = []',
        entry("torch", "2", source='registry = "cpu"'),
        entry("torch", "2", source='registry = "any"'),
        entry("torch", "2+cpu", source='registry = "cpu"'),
        entry("torch", "2+cu1", source='registry = "cu"'),
        A,
    ]
)


@pytest.mark.parametrize(
    ("extras", "lines"),
    [
        ([], ["torch==2"]),
        (["gpu"], ["torch==2+cu1"]),
        (
            ["cpu"],
            [
                'torch==2; sys_platform == "darwin"',
                'torch==2+cpu; sys_platform != "darwin"',
                "a==1",
            ],
        ),
    ],
)
def test_extras_of_which_a_lock_takes_one(
    tmp_path: Path, extras: list[str], lines: list[str]
) -> None:
    wishes = read(tmp_path / "uv.lock", EXCLUSIVE, extras=extras)
    assert [line.partition(": ")[2] for line in asked(wishes)] == lines


def test_a_lock_of_a_later_version(tmp_path: Path) -> None:
    words = refused(tmp_path / "uv.lock", "version = 2\n")
    assert words.startswith("uv.lock:1:1: no uv.lock of version 1")
    assert EXPORT in words


def test_a_lock_of_many_routes_is_left_to_uv(tmp_path: Path) -> None:
    """Each of seven packages in a row is reached on two routes: 128 to the last."""
    edge = '{{ name = "p{0}", marker = "os_name {1} \'{0}\'" }}'
    rows = []
    for level in range(7):
        edges = ", ".join(edge.format(level + 1, compared) for compared in ("==", ">"))
        rows.append(entry(f"p{level}", "1", f"dependencies = [{edges}]"))
    text = "\n".join(["version = 1", ROOT.format('{ name = "p0" }'), *rows, entry("p7", "1")])
    assert "more than 32 routes lead to one package" in refused(tmp_path / "uv.lock", text)


def test_other_locks_are_requirements(tmp_path: Path) -> None:
    assert read(tmp_path / "requirements.lock", "numpy==1\n").format == "requirements"
