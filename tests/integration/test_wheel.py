"""The release: both archives as `make dist` makes them; the wheel in an empty environment."""

import ast
import email.message
import email.parser
import email.policy
import fnmatch
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from dlcontainer import __version__
from dlcontainer.formats import texts
from dlcontainer.system.environ.variables import PROXIES
from tests.docs_blocks import blocks
from tests.integration.accounts import without
from tests.integration.world import missing
from tests.processes import MARK, kill_marked, new_mark
from tests.skips import skip
from tests.values import ROOT, TEMPLATES, shipped_plan

SOURCES = (
    *(".gitignore", "Makefile", "pyproject.toml", "README.md", "LICENSE"),
    *("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff"),
    *("dlcontainer", "recipes", "templates", "site-configs"),
    *("tests", "docs", "tools", "benchmarks"),
)
# Lies about in a checkout that is worked in.
JUNK = (
    *(".tools/apptainer/bin/apptainer", ".venv/bin/python", "demo/x.sif", "images/x.sif"),
    *(".mypy_cache/x.json", ".hypothesis/x", ".pytest_cache/x", "dist/dlcontainer-0.0.1.tar.gz"),
    *("dlcontainer/__pycache__/x.cpython-311.pyc", "recipes/pytorch/__pycache__/verify.pyc"),
    *("tests/__pycache__/x.pyc", "dlcontainer.egg-info/PKG-INFO"),
)
UNWANTED = ("*.py[co]", "*/__pycache__/*", "*/.?*_cache/*", "*/.tools/*", "*/.venv/*", "*.sif",
            "*/.hypothesis/*", "*/dist/*", "*.egg-info/*", "*/.git/*", "*~", "*.swp")  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Archives:
    """What `make dist` left in dist/."""

    wheel: Path
    sdist: Path


def run(*argv: object, cwd: Path, home: Path | None = None) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    if home is not None:
        env["HOME"] = str(home)
    words = [str(word) for word in argv]
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def make_dist(checkout: Path, *, umask: int) -> Archives:
    """Make both archives in a copy of the checkout, by this environment's tools."""
    if shutil.which("make") is None:
        missing("make")
    for name in SOURCES:
        source, target = ROOT / name, checkout / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(source, target)
    for name in JUNK:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text("junk")
    # Its `make setup` is this environment's.
    script = f'umask {umask:o}; exec make -s -o setup dist BIN="$0"'
    run("/bin/sh", "-c", script, Path(sys.executable).parent, cwd=checkout)
    [wheel] = (checkout / "dist").glob("*.whl")
    [sdist] = (checkout / "dist").glob("*.tar.gz")
    assert len(list((checkout / "dist").iterdir())) == 2, "an old archive is still there"
    return Archives(wheel=wheel, sdist=sdist)


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Archives:
    return make_dist(tmp_path_factory.mktemp("a") / "copy", umask=0o022)


@pytest.fixture(scope="module")
def unpacked(archives: Archives, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the source archive."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(archives.sdist) as archive:
        # Of our own making. The Python of Debian 12, 3.11.2, has no filters.
        kept = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(folder, **kept)  # type: ignore[arg-type]
    [top] = folder.iterdir()
    return top


@pytest.fixture(scope="module")
def installed(archives: Archives, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel and what it needs into an empty environment; give its bin."""
    environment = tmp_path_factory.mktemp("installed") / "it's empty"
    venv.create(environment, with_pip=False, symlinks=True)
    python = environment / "bin/python"
    # This user's own way to an index; nothing of this checkout.
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-compile", archives.wheel, cwd=Path("/"))
    return environment / "bin"


def names(archive: Path) -> list[str]:
    if archive.suffix == ".whl":
        return zipfile.ZipFile(archive).namelist()
    with tarfile.open(archive) as opened:
        return opened.getnames()


def test_what_is_in_the_wheel(archives: Archives) -> None:
    found = set(names(archives.wheel))
    shipped = {
        f"dlcontainer/_data/{path.relative_to(ROOT)}"
        for kind in ("recipes", "templates", "site-configs")
        for path in (ROOT / kind).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    modules = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "dlcontainer").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    info = {name for name in found if name.startswith(f"dlcontainer-{__version__}.dist-info/")}
    assert found - info == shipped | modules
    assert {Path(name).name for name in info} == {
        *("METADATA", "WHEEL", "RECORD", "entry_points.txt", "LICENSE")
    }


def test_what_is_in_the_source_archive(archives: Archives) -> None:
    found = {name.partition("/")[2] for name in names(archives.sdist)}
    tops = {name.partition("/")[0] for name in found}
    assert tops == {*SOURCES, "PKG-INFO"}
    some = ("tests/unit/planning/test_plan.py", "docs/extend/releasing.md", "tools/setup_venv.py")
    assert set(some) <= found


def test_nothing_unwanted_is_in_either(archives: Archives) -> None:
    for archive in (archives.wheel, archives.sdist):
        bad = [n for n in names(archive) for one in UNWANTED if fnmatch.fnmatch(f"/{n}", one)]
        assert bad == []


def test_two_builds_are_the_same_bytes(archives: Archives, tmp_path: Path) -> None:
    again = make_dist(tmp_path / "another copy", umask=0o077)
    for one, other in ((archives.wheel, again.wheel), (archives.sdist, again.sdist)):
        assert one.name == other.name
        digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (one, other)]
        assert digests[0] == digests[1], one.name


def test_the_source_archive_gives_the_same_wheel(
    archives: Archives, unpacked: Path, tmp_path: Path
) -> None:
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=unpacked)
    [wheel] = tmp_path.iterdir()
    assert wheel.name == archives.wheel.name
    contents = []
    for path in (archives.wheel, wheel):
        with zipfile.ZipFile(path) as archive:
            contents.append({name: archive.read(name) for name in archive.namelist()})
    assert contents[0].keys() == contents[1].keys()
    assert [name for name in contents[0] if contents[0][name] != contents[1][name]] == []


def metadata(archives: Archives) -> email.message.Message:
    with zipfile.ZipFile(archives.wheel) as archive:
        text = archive.read(f"dlcontainer-{__version__}.dist-info/METADATA").decode()
    return email.parser.Parser(policy=email.policy.compat32).parsestr(text)


def test_its_authors_and_addresses(archives: Archives) -> None:
    found = metadata(archives)
    assert found["Author"] == "The maintainers of dlcontainer"
    # No address is invented: what stands here is the project's own.
    assert [one for one in found.get_all("Project-URL", []) if "https://" not in one] == []


def test_its_types_are_checked(archives: Archives, installed: Path, tmp_path: Path) -> None:
    assert "dlcontainer/py.typed" in names(archives.wheel)
    user = tmp_path / "user.py"
    user.write_text(
        "from dlcontainer import __version__\nfrom dlcontainer.errors import Mark\n\n"
        "place = Mark(file=__version__, line=1, column=1)\nreveal_type(place.line)\n"
        "wrong: int = __version__\n"
    )
    mypy = (sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--python-executable")
    done = subprocess.run(
        [*mypy, installed / "python", user.name],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = [line.partition(": ")[2] for line in done.stdout.splitlines()]
    # Without the file: "missing library stubs or py.typed marker".
    assert said[0] == 'note: Revealed type is "int"', done.stdout
    assert said[1].startswith('error: Incompatible types in assignment (expression has type "str"')
    assert len(said) == 3, done.stdout


def test_its_metadata(archives: Archives) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = metadata(archives)
    assert (found["Name"], found["Version"]) == ("dlcontainer", __version__)
    assert (found["License-Expression"], found["License-File"]) == ("Apache-2.0", "LICENSE")
    assert found["Requires-Python"] == ">=3.11"
    assert found.get_all("Classifier") == project["classifiers"]
    # With a licence expression an index refuses the classifier.
    assert not [one for one in project["classifiers"] if one.startswith("License ::")]
    assert found["Description-Content-Type"] == "text/markdown"
    assert found.get_payload() == (ROOT / "README.md").read_text()
    needed = [one for one in found.get_all("Requires-Dist", []) if "extra ==" not in one]
    assert {re.split(r"[<>=!~;\[ ]", one)[0].lower() for one in needed} == {
        re.split(r"[<>=!~;\[ ]", one)[0].lower() for one in project["dependencies"]
    }


def test_the_version_is_said_in_one_place(installed: Path) -> None:
    assert "version" not in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    said = run(installed / "dlcontainer", "--version", cwd=Path("/"))
    assert said == f"dlcontainer {__version__}\n"
    program = "from importlib.metadata import version; print(version('dlcontainer'))"
    assert run(installed / "python", "-c", program, cwd=Path("/")) == f"{__version__}\n"


def test_it_works_without_a_checkout(installed: Path, tmp_path: Path) -> None:
    def said(*argv: str) -> str:
        return run(installed / "dlcontainer", *argv, cwd=Path("/"), home=tmp_path)

    program = "import dlcontainer, json, sys; print(json.dumps([dlcontainer.__file__, *sys.path]))"
    paths = json.loads(run(installed / "python", "-c", program, cwd=Path("/")))
    assert paths[0].startswith(f"{installed.parent}/")
    assert not [path for path in paths if path.startswith(f"{ROOT}/") or path == str(ROOT)]

    assert "pytorch" in said("plan", "pytorch", "--site", "local")
    argv = ("render", "pytorch", "--site", "example-slurm", "--format", "apptainer")
    wanted = texts.text(shipped_plan("example-slurm", "pytorch"), "apptainer", [TEMPLATES])
    assert said(*argv) == wanted
    sites, recipes = said("site", "list"), said("recipe", "list")
    assert [p.stem for p in (ROOT / "site-configs").glob("*.yaml") if p.stem not in sites] == []
    assert [p.name for p in (ROOT / "recipes").iterdir() if p.name not in recipes] == []


# What only somebody with a checkout can type.
OF_A_CHECKOUT = re.compile(r"make setup|dlcontainer's checkout")


def test_one_module_alone_names_the_checkout(archives: Archives) -> None:
    """Messages of the wheel, and its texts: none sends its user to a checkout."""
    found = {}
    with zipfile.ZipFile(archives.wheel) as archive:
        for name in archive.namelist():
            text = archive.read(name).decode(errors="replace")
            said = [one for one in spoken(name, text) if OF_A_CHECKOUT.search(one)]
            if said:
                found[name] = said
    assert list(found) == ["dlcontainer/installation/__init__.py"]


def spoken(name: str, text: str) -> list[str]:
    """Give a module's texts but for docstrings, and any other file whole."""
    if not name.endswith(".py") or "_data" in name:
        return [text]
    tree = ast.parse(text)
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, holders) and node.body and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
    ]


def test_the_first_day_without_an_engine_names_no_checkout(installed: Path, tmp_path: Path) -> None:
    """Each command of the first day ends with a documented code and a way that a user has."""
    [day] = [block for block in blocks() if block.heading == "Your first day at a centre"]
    (tmp_path / "bin").mkdir()
    environ = {"HOME": str(tmp_path), "PATH": str(tmp_path / "bin"), "LANG": "C.UTF-8"}
    codes, said = {}, {}
    for words in day.of_ours():
        done = subprocess.run(
            [installed / "dlcontainer", *words[1:]],
            cwd=tmp_path, env=environ, capture_output=True, text=True, check=False,
        )  # fmt: skip
        codes[words[1]], said[words[1]] = done.returncode, done.stdout + done.stderr
    assert len(codes) == 10
    assert {name: text for name, text in said.items() if OF_A_CHECKOUT.search(text)} == {}
    assert {name: codes[name] for name in ("site", "recipe", "plan")} == dict.fromkeys(
        ("site", "recipe", "plan"), 0
    )
    assert (codes["doctor"], codes["build"]) == (1, 4)
    assert set(codes.values()) <= {0, 1, 2, 4, 7}, said
    for name in ("doctor", "build"):
        assert "https://apptainer.org/docs/admin/main/installation.html" in said[name]
    # By the module of this machine's system, whatever that is.
    assert "install" in said["doctor"]


def test_what_is_copied_to_begin_with(installed: Path, tmp_path: Path) -> None:
    for words, name in ((("site", "show", "example-slurm"), "example-slurm.yaml"),
                        (("recipe", "show", "pytorch"), "pytorch")):  # fmt: skip
        told = run(installed / "dlcontainer", *words, "--path", cwd=Path("/"), home=tmp_path)
        path = Path(told.removesuffix("\n"))
        assert path.name == name
        assert path.is_relative_to(installed.parent)
        assert path.exists()


def without_engine(installed: Path, *words: str) -> list[str]:
    """Give a command of dlcontainer's as on a machine that has no engine of its own."""
    return [*without("apptainer", "singularity"), str(installed / "dlcontainer"), *words]


def call(installed: Path, home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Type a command of dlcontainer's as on a machine that has no engine of its own."""
    return subprocess.run(
        without_engine(installed, *words),
        cwd="/",
        env=environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def environment(home: Path) -> dict[str, str]:
    proxies = {name: value for name, value in os.environ.items() if name.lower() in PROXIES}
    return {"HOME": str(home), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **proxies}


SET_UP = ("setup", "engine", "--no")


def test_the_engine_comes_from_the_wheel_and_goes(installed: Path, tmp_path: Path) -> None:
    """One command brings an engine that all commands find; another leaves nothing of it."""
    if shutil.which("apt-get") is None:
        skip("no apt-get here", elsewhere="Debian or Ubuntu")
    made = call(installed, tmp_path, *SET_UP, "--json")
    assert made.returncode == 0, made.stdout + made.stderr
    body = json.loads(made.stdout)
    prefix = tmp_path / ".local/share/dlcontainer/engine"
    assert (body["prefix"], body["system_changes"]) == (str(prefix), [])
    assert body["private"]
    done = call(installed, tmp_path, "doctor", "--json")
    findings = {each["name"]: each for each in json.loads(done.stdout)["findings"]}
    assert (findings["engine"]["state"], findings["build"]["state"]) == ("ok", "ok"), done.stdout
    assert str(prefix / "bin/apptainer") in findings["engine"]["detail"]
    assert call(installed, tmp_path, *SET_UP).returncode == 0
    assert call(installed, tmp_path, "setup", "engine", "--remove").returncode == 0
    assert list(prefix.parent.iterdir()) == []


def engines_in(home: Path) -> list[str]:
    """List the trees of engines, whole and half ones."""
    folder = home / ".local/share/dlcontainer/engine"
    return [path.name for path in folder.glob("apptainer-*")]


@pytest.mark.long
def test_killed_half_way_no_engine_is_found_and_the_next_run_makes_one(
    installed: Path, tmp_path: Path
) -> None:
    """The road is that of the test above, killed with all its processes in each phase."""
    for phase in ("unpack it and", "patch its programs"):
        mark = new_mark()
        with subprocess.Popen(
            without_engine(installed, *SET_UP, "-v"),
            cwd="/",
            env={**environment(tmp_path), MARK: mark},
            stderr=subprocess.PIPE,
            text=True,
        ) as running:
            assert any(phase in line for line in running.stderr or ())
            kill_marked(mark)
        links = tmp_path / ".local/share/dlcontainer/engine/bin"
        assert not (links / "apptainer").is_symlink()
        done = call(installed, tmp_path, "doctor")
        assert (done.returncode, "`dlcontainer setup engine`" in done.stdout) == (1, True)
    made = call(installed, tmp_path, *SET_UP)
    assert made.returncode == 0, made.stderr
    assert len(engines_in(tmp_path)) == 1


@pytest.mark.long
def test_two_at_once_make_one_engine_and_an_upgrade_another(
    installed: Path, tmp_path: Path
) -> None:
    """The road is that of the test before the last."""
    both = [
        subprocess.Popen(
            without_engine(installed, *SET_UP, "-v"),
            cwd="/",
            env=environment(tmp_path),
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    said = [one.communicate(timeout=300)[1] for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    assert sum("waiting for another set-up" in text for text in said) == 1
    [first] = engines_in(tmp_path)
    assert call(installed, tmp_path, *SET_UP, "--upgrade").returncode == 0
    [second] = engines_in(tmp_path)
    assert first != second
