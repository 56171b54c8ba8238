"""What Tab offers: names of sites, recipes, variants, epochs; nothing heavy, nothing on errors."""

import subprocess
import sys
from pathlib import Path

import pytest

from dlcontainer.cli import command_list, completion, main
from dlcontainer.config import resources


def offered(monkeypatch: pytest.MonkeyPatch, line: str) -> list[str]:
    """Complete the last word of a line as bash asks for it."""
    words = line.split(" ")
    shown: list[str] = []
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    monkeypatch.setenv("_DLCONTAINER_COMPLETE", "complete_bash")
    monkeypatch.setattr("typer._click.utils.echo", lambda text, **_: shown.append(text))
    monkeypatch.setattr("typer.completion._click.echo", lambda text, **_: shown.append(text))
    with pytest.raises(SystemExit):
        main._run([], as_json=False)
    return shown[0].split()


@pytest.mark.parametrize(
    ("line", "some", "others"),
    [
        ("dlcontainer plan --site su", ["summit"], ["pytorch", "local"]),
        ("dlcontainer site show summit@", ["summit@2021"], ["summit"]),
        ("dlcontainer plan --site summit --epoch ", ["2021", "2024"], ["summit"]),
        ("dlcontainer plan --site stampede2 --node-type ", ["knl", "skx"], []),
        ("dlcontainer build ", ["pytorch", "horovod"], ["local"]),
        ("dlcontainer plan pytorch --variant ", ["cuda", "wheels", "debian"], ["cuda-openmpi"]),
        ("dlcontainer plan --variant cuda-o", ["cuda-openmpi"], ["cuda"]),
        ("dlcontainer plan --site ascent --epoch ", ["2021"], []),
        ("dlcontainer plan --site nowhere --epoch ", [], []),
        ("dlcontainer plan /no/such --variant q", [], []),
        ("dlcontainer val", ["validate"], ["plan"]),
        ("dlcontainer render --format d", ["dockerfile"], ["job"]),
    ],
)
def test_names(
    line: str, some: list[str], others: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = offered(monkeypatch, line)
    assert set(some) <= set(names)
    assert not set(others) & set(names)
    if not some:
        assert names == []


def test_the_same_names_as_the_program_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "it's mine/dlcontainer"
    (own / "recipes/mine").mkdir(parents=True)
    (own / "recipes/mine/recipe.yaml").write_text("name: mine\nvariants:\n  'one': {}\n")
    (own / "site-configs").mkdir()
    (own / "site-configs/here.yaml").write_text("name: here\nepochs:\n  y1: {}\n\nother: 1\n")
    centre = tmp_path / "centre's"
    (centre / "site-configs").mkdir(parents=True)
    (centre / "site-configs/ours.yaml").write_text("name: ours\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(own.parent))
    monkeypatch.setenv("DLCONTAINER_PATH", str(centre))
    known = resources.locate(own, centre=[resources.Root(origin="centre", path=centre)])
    assert "ours" in completion.names("site-configs")
    for kind in ("recipes", "site-configs"):
        assert completion.names(kind) == known.names(kind)
    assert "mine" in completion.names("recipes")
    assert offered(monkeypatch, "dlcontainer plan mine --variant ") == ["one"]
    (own / "recipes/over").mkdir()
    (own / "recipes/over/recipe.yaml").write_text("name: over\nextends: mine\n")
    assert offered(monkeypatch, "dlcontainer plan over --variant ") == ["one"]
    assert offered(monkeypatch, "dlcontainer plan --site here@") == ["here@y1"]


def test_what_can_not_be_read_offers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "dlcontainer/site-configs").mkdir(parents=True)
    (tmp_path / "dlcontainer/site-configs/bad.yaml").write_bytes(b"\xff\xfe epochs:")
    assert offered(monkeypatch, "dlcontainer plan --site bad@") == []


def test_a_tab_loads_no_parser(real_processes: None) -> None:
    program = (
        "import sys\nfrom dlcontainer.cli import completion\n"
        "assert completion.sites('') and completion.recipes('')\n"
        "print(*sorted({'yaml', 'pydantic', 'rich', 'jinja2'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_a_tab_behind_a_group_loads_no_command(real_processes: None, tmp_path: Path) -> None:
    program = (
        "import sys\nfrom dlcontainer.cli.main import app\n"
        "try:\n    app(prog_name='dlcontainer')\n"
        "finally:\n    print(*sorted(name for name in sys.modules if 'dlcontainer' in name))"
    )
    line = {"COMP_WORDS": "dlcontainer export ", "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"HOME": str(tmp_path), "_DLCONTAINER_COMPLETE": "complete_bash", **line},
        capture_output=True,
        text=True,
        check=True,
    )
    *offer, modules = done.stdout.splitlines()
    assert offer == [entry.name for entry in command_list.EXPORT]
    loaded = {name.removeprefix("dlcontainer.cli.") for name in modules.split()}
    listed = (*command_list.TOP, *command_list.EXPORT)
    places = {str(entry.place).partition(":")[0] for entry in listed}
    assert loaded & places == {"export"}
