"""What is quoted for apt's configuration, read by apt itself."""

import shutil
import subprocess
from pathlib import Path

import pytest

from dlcontainer.errors import ConfigError
from dlcontainer.packages.apt import apt_syntax
from tests.integration.world import World, isolated, missing, write_bare

HOOK = 'http://127.0.0.1:9";APT::Update::Pre-Invoke {"touch CANARY";};Acquire::http::Proxy "DIRECT'


@pytest.mark.parametrize(
    "value",
    [
        *("http://u:p%40x@h:1/", "a;b{c}d", "a//b#c/*d*/e", r"a\ b\\", r"a\n", "$(x)`y`", "'"),
        *("", " a ", "<>|&", "ü漢", "%41%22", "x" * 1000),
    ],
)
def test_apt_reads_what_was_meant(value: str, tmp_path: Path) -> None:
    program = shutil.which("apt-config")
    if program is None:
        missing("apt-config")
    conf = tmp_path / "apt.conf"
    conf.write_text(apt_syntax.setting("Acquire::http::Proxy", value) + "\n")
    done = subprocess.run(
        [program, "dump", "Acquire::http::Proxy"],
        env={"APT_CONFIG": str(conf)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert dict(apt_syntax.dumped(done.stdout))["Acquire::http::Proxy"] == value
    hooks = subprocess.run(
        [program, "dump", "APT::Update"],
        env={"APT_CONFIG": str(conf)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Pre-Invoke" not in hooks.stdout


@pytest.mark.parametrize("how", ["site", "variable"])
def test_a_proxy_that_is_a_hook_is_refused(how: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        apt_syntax.setting("Acquire::http::Proxy", HOOK)
    world: World = isolated(tmp_path / "world", tmp_path / "cache")
    site = "local"
    if how == "site":
        site = str(tmp_path / "hostile.yaml")
        Path(site).write_text(
            f"schema: 1\nname: hostile\nextends: local\nsummary: s\nrouting: {{proxy: '{HOOK}'}}\n"
        )
    else:
        world = world.having(http_proxy=HOOK)
    recipe = write_bare(tmp_path / "recipe")
    done = world.run("build", recipe, "--site", site, "-o", tmp_path / "out", code=3)
    where = "hostile.yaml:5:" if how == "site" else "environment variable http_proxy: "
    assert where in done.stderr
    assert "CANARY" not in done.stderr
    assert not list(tmp_path.rglob("CANARY*"))
