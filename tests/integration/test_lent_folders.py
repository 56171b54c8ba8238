"""Folders of the host that a build shows to its steps: to be read, not to be written."""

from pathlib import Path

from tests.integration.world import World, write_bare, write_wheel

WORK = """\
[ -r /mnt/folder-0/dlctiny-1.0-py3-none-any.whl ] || exit 7
if touch /mnt/folder-0/planted; then exit 8; fi
if rm /mnt/folder-0/dlctiny-1.0-py3-none-any.whl; then exit 9; fi
echo ok > /opt/bare/done.txt
"""


def test_a_step_can_not_write_the_hosts_wheels(alone: World, tmp_path: Path) -> None:
    wheels = write_wheel(tmp_path / "wheels").parent
    recipe = write_bare(tmp_path / "recipe", WORK)
    world = alone.having(PIP_FIND_LINKS=wheels, PIP_CONFIG_FILE="/dev/null")
    world.build(recipe, tmp_path / "out")
    assert [path.name for path in wheels.iterdir()] == ["dlctiny-1.0-py3-none-any.whl"]
