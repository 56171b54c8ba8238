"""Releases of one version in real module systems: pins, the newest, and no load that fails."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dlcontainer.publish.tree import changes
from dlcontainer.publish.tree.numbers import Succession
from tests.integration.publish.test_modules import (
    environment_modules,  # noqa: F401  a fixture
    system,  # noqa: F401  a fixture
)
from tests.integration.publish.tools import Shelf, clean_home, in_shell, program
from tests.processes import poll
from tests.trees import DAY, Clock, act, hand, image_file, put, put_release

_SHOW = 'module load {name}; echo "$LOADEDMODULES $DLCONTAINER_RELEASE"'


@pytest.fixture
def tree(tmp_path: Path) -> Shelf:
    """Publish a first release, for a user with an empty home."""
    root = tmp_path / "root"
    root.mkdir()
    put_release(root, image(tmp_path, 1))
    return Shelf(root=root, name="demo", version="1.0", environ=clean_home(tmp_path))


def image(folder: Path, number: int) -> Path:
    return image_file(folder / "images", f"image {number}".encode())


def next_release(tree: Shelf, number: int, days: int | None = None) -> None:
    file = image(tree.root.parent, number)
    assert put_release(tree.root, file, succession=Succession(days=days)) == number


def loaded(tree: Shelf, system: tuple[str, str], name: str) -> list[str]:  # noqa: F811
    return in_shell(tree, system, _SHOW.format(name=name)).splitlines()


def available(tree: Shelf, system: tuple[str, str]) -> list[str]:  # noqa: F811
    said = in_shell(tree, system, "module -t avail demo")
    return [line.split("(")[0] for line in said.splitlines() if line.startswith("demo/")]


def test_a_pin_holds_from_the_first_release(tree: Shelf, system: tuple[str, str]) -> None:  # noqa: F811
    assert available(tree, system) == ["demo/1.0"]
    assert loaded(tree, system, "demo/1.0-1") == ["demo/1.0-1 demo/1.0-1"]
    assert loaded(tree, system, "demo") == ["demo/1.0 demo/1.0-1"]
    next_release(tree, 2)
    assert available(tree, system) == ["demo/1.0", "demo/1.0-1", "demo/1.0-2"]
    assert loaded(tree, system, "demo/1.0-1") == ["demo/1.0-1 demo/1.0-1"]
    assert loaded(tree, system, "demo/1.0") == ["demo/1.0 demo/1.0-2"]
    act(tree.root, changes.rollback)
    assert loaded(tree, system, "demo/1.0-1") == ["demo/1.0-1 demo/1.0-1"]
    assert loaded(tree, system, "demo/1.0") == ["demo/1.0 demo/1.0-1"]


def test_help_and_whatis_name_the_release(tree: Shelf, system: tuple[str, str]) -> None:  # noqa: F811
    next_release(tree, 2)
    said = in_shell(tree, system, "module help demo/1.0; module whatis demo/1.0")
    assert "Release 2: module load demo/1.0-2 loads just this one later, too." in said
    assert "Release: demo/1.0-2" in said
    script = 'module load demo/1.0; module unload demo; echo "<${DLCONTAINER_RELEASE-none}>"'
    assert in_shell(tree, system, script) == "<none>\n"


def test_the_second_comes_before_the_tenth(tree: Shelf, system: tuple[str, str]) -> None:  # noqa: F811
    for number in range(2, 11):
        next_release(tree, number)
    numbers = [f"demo/1.0-{number}" for number in range(1, 11)]
    assert available(tree, system) == ["demo/1.0", *numbers]
    # Without a default the highest: it is the newest, as is the version.
    assert loaded(tree, system, "demo") == ["demo/1.0-10 demo/1.0-10"]
    act(tree.root, lambda held: changes.set_default(held, "demo/1.0"))
    act(tree.root, lambda held: changes.set_alias(held, "demo/1.0", "stable"))
    next_release(tree, 11)
    for name in ("demo", "demo/stable", "demo/1.0"):
        assert loaded(tree, system, name) == ["demo/1.0 demo/1.0-11"]


def test_a_tree_of_an_earlier_version_goes_on(tree: Shelf, system: tuple[str, str]) -> None:  # noqa: F811
    """Its version has no number, and a job may have its path."""
    put(tree.root, image(tree.root.parent, 8), "2.0")
    (before,) = {path.resolve() for path in tree.root.glob("modules/lmod/demo/2.0.lua")}
    assert put_release(tree.root, image(tree.root.parent, 9), "2.0") == 2
    assert loaded(tree, system, "demo/2.0") == ["demo/2.0 demo/2.0-2"]
    script = "module load demo/2.0-1; type -P tool"
    assert in_shell(tree, system, script) == f"{before.parent}/bin/tool\n"


def test_an_older_release_says_how_long_it_stays(tree: Shelf, system: tuple[str, str]) -> None:  # noqa: F811
    next_release(tree, 2, days=30)
    said = " ".join(in_shell(tree, system, "module load demo/1.0-1; type -P tool").split())
    assert "demo/1.0-1 was replaced by demo/1.0-2, and can be loaded until 2027-02-14" in said
    assert f"{tree.root}/releases/" in said
    assert loaded(tree, system, "demo/1.0") == ["demo/1.0 demo/1.0-2"]
    late = hand(Clock(Clock().now + 31 * DAY))
    act(tree.root, changes.expire, late)
    # The only one again, which no list shows.
    assert available(tree, system) == ["demo/1.0"]
    assert loaded(tree, system, "demo/1.0-2") == ["demo/1.0-2 demo/1.0-2"]


def test_a_shell_keeps_the_release_that_it_loaded(tree: Shelf, system: tuple[str, str]) -> None:  # noqa: F811
    """A running job: its commands are of the release that it loaded, through each switch."""
    waiting, going = tree.root.parent / "waiting", tree.root.parent / "going"
    script = """
module load demo/1.0; type -P tool; : > "$1"; until [ -e "$2" ]; do sleep 0.1; done
type -P tool; tool && echo "$DLCONTAINER_RELEASE"
"""
    argv = [program("bash", "bash"), "--norc", "-c"]
    text = f'{system[0]}\nmodule use "$USE"\nexec 2>&1\n{script}'
    use = f"{tree.root}/modules/{system[1]}"
    with subprocess.Popen(
        [*argv, text, "bash", str(waiting), str(going)],
        env={**tree.environ, "USE": use},
        stdout=subprocess.PIPE,
        text=True,
    ) as shell:
        try:
            assert poll(waiting.exists, 60)
            next_release(tree, 2)
        finally:
            going.touch()
        first, second, release = shell.communicate(timeout=60)[0].splitlines()
    assert (first, release) == (second, "demo/1.0-1")


def _cycle(tree: Shelf) -> list[Callable[[], object]]:
    """List the changes of a round: published, taken back and rolled back, by either way."""
    files = [image(tree.root.parent, number) for number in (2, 3)]
    return [
        lambda: put_release(tree.root, files[0]),
        lambda: put_release(tree.root, files[1]),
        lambda: act(tree.root, lambda held: changes.unpublish(held, "demo/1.0-3")),
        lambda: act(tree.root, changes.rollback),
        lambda: act(tree.root, lambda held: changes.rollback(held, 2)),
    ]


@pytest.mark.parametrize("loads", [10, pytest.param(130, marks=pytest.mark.long)])
def test_no_load_fails_while_releases_switch(
    tree: Shelf,
    system: tuple[str, str],  # noqa: F811
    loads: int,
) -> None:
    """Four users load version, default and pin while releases come and go: 520 loads in the long
    set.
    """
    act(tree.root, lambda held: changes.set_default(held, "demo/1.0"))
    start, kind = system
    script = f"""{start}
module use "$USE"
for i in $(seq {loads}); do
    case $(( i % 3 )) in 0) m=demo ;; 1) m=demo/1.0 ;; 2) m=demo/1.0-1 ;; esac
    module load $m || echo "FAILED $m"
    [ -x "$(type -P tool)" ] && tool || echo "FAILED $m: no tool"
    case $m:$DLCONTAINER_RELEASE in
        demo/1.0-1:demo/1.0-1 | demo:demo/1.0-? | demo/1.0:demo/1.0-?) ;;
        *) echo "FAILED $m: $DLCONTAINER_RELEASE" ;;
    esac
    module unload demo
done
echo done"""
    environ = {**tree.environ, "USE": f"{tree.root}/modules/{kind}"}
    argv = [program("bash", "bash"), "--norc", "-c", script]
    users = [
        subprocess.Popen(
            argv, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for _ in range(4)
    ]
    steps, switches = _cycle(tree), 0
    while any(user.poll() is None for user in users) or switches < 50:
        steps[switches % len(steps)]()
        switches += 1
    said = [user.communicate(timeout=60)[0] for user in users]
    assert said == ["done\n"] * 4
    assert switches >= 50
