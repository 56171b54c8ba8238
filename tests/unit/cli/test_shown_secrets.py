"""No command prints a password or token of a site's routing, or of what was typed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.cli import main
from tests.values import write_yaml

SECRET = "PASSWORD7x"
ROUTING: dict[str, Any] = {
    "proxy": f"http://u1:{SECRET}@proxy.example:3128",
    "pip": {
        "index": f"https://u2:{SECRET}@pkg.example/simple",
        "extra_indexes": [f"https://token-0{SECRET}@pkg.example/more"],
    },
    "apt": [f"deb https://u4:{SECRET}@deb.example/debian bookworm main"],
    "upstreams": {"https://conda.example/a": f"https://u5:{SECRET}@mirror.example/a"},
}
# Each of them wrong in its own way, so that an error repeats it.
WRONG: list[dict[str, Any]] = [
    {"proxy": f"socks://u1:{SECRET}@proxy.example"},
    {"proxy": [f"http://u1:{SECRET}@proxy.example"]},
    {"pip": {"index": f"ftp://u2:{SECRET}@pkg.example/simple"}},
    {"pip": {"index": f"https://u2:{SECRET}@pkg.example/a b"}},
    {"pip": {"extra_indexes": [f"http://u2:{SECRET}@pkg.example/x"]}},
    {"pip": f"https://u2:{SECRET}@pkg.example"},
    {"apt": [f"debb https://u4:{SECRET}@deb.example/debian bookworm main"]},
    {"upstreams": {f"https://u5:{SECRET}@conda.example": "maybe"}},
    {"plain_http": [f"http://u6:{SECRET}@registry.example"]},
    {f"https://u7:{SECRET}@x.example": 1},
]


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Run a command; give all that it printed."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/no/such")
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TMPDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.executable", "/no/such/python")
    monkeypatch.chdir(tmp_path)

    def run(*argv: str) -> str:
        main._run(list(argv), as_json="--json" in argv)
        return "".join(capsys.readouterr())

    return run


def lab(folder: Path, routing: dict[str, Any]) -> None:
    data = {
        "schema": 1,
        "name": "lab",
        "summary": "a lab",
        "facts": "host",
        "default_recipe": "pytorch",
        "routing": routing,
    }
    write_yaml(folder / ".config/dlcontainer/site-configs/lab.yaml", data)


@pytest.mark.parametrize("more", [(), ("--json",)])
@pytest.mark.parametrize(
    "argv",
    [
        ("site", "show", "lab"),
        ("site", "diff", "lab", "local"),
        ("site", "diff", "local", "lab"),
        ("plan", "pytorch", "--site", "lab"),
        ("doctor", "--site", "lab"),
        ("build", "pytorch", "--site", "lab", "--dry-run"),
        ("fetch", "pytorch", "--site", "lab", "-o", "bundle"),
        ("lock", "pytorch", "--site", "lab", "-o", "x.lock"),
    ],
)
def test_a_sites_routing(
    tmp_path: Path, run: Callable[..., str], argv: tuple[str, ...], more: tuple[str, ...]
) -> None:
    lab(tmp_path, ROUTING)
    said = run(*argv, *more)
    assert SECRET not in said
    if argv[0] == "site":
        assert "u2:***@pkg.example/simple" in said
        assert "u4:***@deb.example/debian" in said


@pytest.mark.parametrize("more", [(), ("--json",)])
@pytest.mark.parametrize("routing", WRONG)
def test_an_error_that_quotes_a_value(
    tmp_path: Path, run: Callable[..., str], routing: dict[str, Any], more: tuple[str, ...]
) -> None:
    lab(tmp_path, routing)
    said = run("site", "show", "lab", *more)
    assert "lab.yaml:" in said
    assert SECRET not in said


@pytest.mark.parametrize("scheme", ["oras", "docker", "http"])
@pytest.mark.parametrize(
    "argv",
    [
        ("pull", "{}", "-o", "x.sif"),
        ("push", "x.sif", "{}"),
        ("adopt", "{}", "--site", "local"),
        ("adopt", "{}@sha256:12", "--site", "local"),
        ("plan", "pytorch", "--set", "base.image={}"),
        ("recipe", "show", "{}"),
        ("base", "pin", "{}"),
        ("verify", "{}"),
        ("publish", "{}", "--site", "local"),
    ],
)
def test_a_reference_that_was_typed(
    run: Callable[..., str], argv: tuple[str, ...], scheme: str
) -> None:
    place = f"{scheme}://u:{SECRET}@registry.example/name:1"
    said = run(*(word.format(place) for word in argv))
    assert said
    assert SECRET not in said
