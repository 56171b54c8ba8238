"""Which step compiles which files to byte code; integration/test_byte_code.py runs the commands."""

from pathlib import Path

from dlcontainer.formats import step_commands
from tests.values import folder_of, plan_of

NAMES = ("first", "second")
SYSTEM = {"name": "system", "os_packages": ["python3"]}
FIRST, SECOND = (
    {"name": name, "python_packages": {"packages": [f"{name}==1.0"]}} for name in NAMES
)


def test_a_step_after_the_first_compiles_what_it_brought(tmp_path: Path) -> None:
    plan = plan_of(folder_of(tmp_path, steps=[SYSTEM, FIRST, SECOND]))
    for blocks in (step_commands.image_blocks(plan), step_commands.native_blocks(plan)):
        compiling = {block.name: block.commands[-1] for block in blocks if block.name in NAMES}
        assert " -m compileall " in compiling["first"]
        assert "compile_file" in compiling["second"]
