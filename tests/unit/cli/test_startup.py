"""Start-up: homes are on NFS, so few files are opened and heavy imports wait for their command."""

import ast
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import typer

from dlcontainer.cli import command_list, main
from dlcontainer.cli.app import HelpGroup


@dataclass(frozen=True, kw_only=True, slots=True)
class Ceiling:
    """The most that a command may open and import."""

    files: int
    own: int
    packages: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    """What a command printed, opened and imported (module -> its file)."""

    out: str
    opened: list[str]
    modules: dict[str, str | None]

    def of_packages(self) -> list[str]:
        return sorted(
            name for name, file in self.modules.items() if file and "site-packages" in file
        )

    def own(self) -> list[str]:
        return sorted(name for name in self.modules if name.split(".")[0] == "dlcontainer")


# What a command opens and imports, with a margin of a twentieth: a change that costs more has a
# reason, and raises the figure here. Modules are the program's own and the packages' it takes;
# those of Python itself differ between its versions.
CEILINGS = {
    "--help": Ceiling(files=103, own=15, packages=33),
    "plan --help": Ceiling(files=112, own=22, packages=33),
    "bench --help": Ceiling(files=165, own=67, packages=33),
    "export --help": Ceiling(files=105, own=16, packages=33),
    "site list": Ceiling(files=290, own=78, packages=101),
    "render pytorch --site example-slurm": Ceiling(files=480, own=143, packages=124),
}
# None of it is needed to say what there is: the page is made of cli/command_list.py.
NOT_FOR_HELP = {
    *("annotated_types", "charset_normalizer", "certifi", "cryptography", "docker", "idna"),
    *("jinja2", "markupsafe", "numpy", "packaging", "pydantic", "pydantic_core", "requests"),
    *("rich", "scipy", "typing_extensions", "typing_inspection", "urllib3", "yaml"),
    *("asyncio", "concurrent", "csv", "decimal", "email", "fractions", "hashlib", "hmac", "html"),
    *("http", "importlib.metadata", "logging", "multiprocessing", "pickle", "queue"),
    *("random", "secrets", "socket", "sqlite3", "ssl", "statistics", "tarfile", "tempfile"),
    *("tomllib", "unittest", "xml", "zipfile", "zoneinfo"),
    *(
        f"dlcontainer.{room}"
        for room in (
            *("adopt", "bench", "build", "config", "doctor", "evidence", "formats"),
            *("image", "inspection", "packages", "planning", "probe", "proof", "publish"),
            *("recipes", "registry", "schedulers", "sites", "validate"),
            *("engines.apptainer", "engines.capabilities", "engines.execution"),
        )
    ),
}
PROGRAM = """
import sys
opened = []
def hear(event, args):
    if event == "open" and isinstance(args[0], str):
        opened.append(args[0])
sys.addaudithook(hear)
sys.argv = ["dlcontainer", *sys.argv[1:]]
from dlcontainer.cli.main import run
try:
    run()
finally:
    found = {name: getattr(one, "__file__", None) for name, one in sys.modules.items()}
    print([opened, found], file=sys.stderr)
"""

Start = Callable[..., Started]


@pytest.fixture
def start(real_processes: None, tmp_path: Path) -> Start:
    def start(*argv: str) -> Started:
        # Byte code is written the first time after a change, whatever the caller's PYTHON* say.
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "it's a home")}
        argv = (sys.executable, "-c", PROGRAM, *argv)
        for _ in range(2):
            done = subprocess.run(
                argv, capture_output=True, text=True, cwd=tmp_path, env=env, check=True
            )
        opened, modules = ast.literal_eval(done.stderr.splitlines()[-1])
        return Started(out=done.stdout, opened=opened, modules=modules)

    return start


@pytest.mark.parametrize("line", CEILINGS)
def test_a_start_opens_and_imports_little(start: Start, line: str) -> None:
    most, started = CEILINGS[line], start(*line.split())
    assert started.out
    for what, found, ceiling in (
        ("modules of ours", started.own(), most.own),
        ("modules of packages", started.of_packages(), most.packages),
        ("files", started.opened, most.files),
    ):
        assert len(found) <= ceiling, f"{line}: {len(found)} {what}: " + " ".join(found)


def test_nothing_looks_for_plugins(start: Start) -> None:
    # pydantic would read the metadata of each installed package, with all of Python that does so.
    for line in ("render pytorch --site example-slurm", "render --format job --site example-slurm"):
        assert "importlib.metadata" not in start(*line.split()).modules


def test_a_later_pydantic_gets_its_own_module(real_processes: None) -> None:
    # One that wants more of it than today's does.
    program = (
        "from dlcontainer.config import pydantic_plugins; pydantic_plugins.leave_out_plugins()\n"
        "from pydantic.plugin._loader import get_plugins as ours\n"
        "from pydantic.plugin._loader import PYDANTIC_ENTRY_POINT_GROUP as more\n"
        "from pydantic.plugin._loader import get_plugins as own; print(ours is own, more)"
    )
    argv = [sys.executable, "-c", program]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout == "False pydantic\n"


@pytest.mark.parametrize("command", [(), ("plan",), ("build",), ("site",), ("export",)])
def test_help_imports_nothing_that_works(start: Start, command: tuple[str, ...]) -> None:
    started = start(*command, "--help")
    assert "Usage: dlcontainer" in started.out
    found = {
        name
        for name in started.modules
        if any(f"{name}.".startswith(f"{one}.") for one in NOT_FOR_HELP)
    }
    assert found == set()


def groups(of: HelpGroup) -> Iterator[HelpGroup]:
    yield of
    for one in of.commands.values():
        if isinstance(one, HelpGroup):
            yield from groups(one)


def test_a_group_says_of_each_command_what_its_own_page_says() -> None:
    top = typer.main.get_command(main.app)
    assert isinstance(top, HelpGroup)
    found = list(groups(top))
    assert len(found) > 7
    for group in found:
        for entry in group.entries.values():
            page = group.commands[entry.name].help or ""
            first, said = (text.split("\n\n")[0].split() for text in (page, entry.summary))
            assert first == said, f"cli/command_list.py: {entry.name}"


def test_a_command_imports_no_other_command(start: Start) -> None:
    lists = (
        *command_list.TOP,
        *command_list.BENCH,
        *command_list.EVIDENCE,
        *command_list.EXPORT,
        *command_list.LAB,
    )
    places = {str(entry.place).partition(":")[0] for entry in lists}
    for line, own in (
        ("plan --help", {"plan"}),
        ("export jupyter --help", {"export", "export_jupyter"}),
        ("lab count --help", {"lab.group", "lab.count"}),
    ):
        found = {name.removeprefix("dlcontainer.cli.") for name in start(*line.split()).own()}
        assert found & places == own


@pytest.mark.parametrize("command", ["plan", "render"])
def test_plan_and_render_start_no_process(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: object
) -> None:
    from dlcontainer.cli import main

    events: list[str] = []
    started = ("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.posix_spawn")
    listening = True

    def listen(event: str, args: object) -> None:
        if listening and event in started:
            events.append(event)

    sys.addaudithook(listen)
    monkeypatch.setenv("HOME", str(tmp_path))
    try:
        assert main._run([command, "--site", "local"], as_json=False) in {0, 3}
        assert main._run([command, "--site", "example-slurm"], as_json=False) == 0
    finally:
        listening = False
    assert events == []


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(
            ("site", value)
            for value in ("a-site", "", "k\N{LATIN SMALL LETTER O WITH DIAERESIS}ln")
        ),
        *(("site", value) for value in ("bad\udc80", None, 7)),
        *(("settings", value) for value in (("a=1", "b=2"), ["a=\udc80"], (), None, "a=1")),
        *(("form", value) for value in ("job", "jobs", None)),
        *(("verbose", value) for value in (True, False, None)),
    ],
)
def test_what_was_typed_is_read_as_typer_reads_it(option: str, value: object) -> None:
    entry = next(entry for entry in command_list.TOP if entry.name == "render")
    command = entry.made()
    # Making the context lightens the options; Typer's own way is that of their class.
    with command.make_context("render", [], resilient_parsing=True) as ctx:
        param = next(param for param in command.get_params(ctx) if param.name == option)
        lightened, own = param.process_value, partial(type(param).process_value, param)

        def read(process: Callable[..., object]) -> object:
            try:
                return process(ctx, value)
            except typer.TyperException as error:
                return str(error), type(error)

        assert read(lightened) == read(own)
