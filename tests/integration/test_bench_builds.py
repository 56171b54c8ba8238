"""What a recipe compiles is built once, in the image; the native twin has the same files."""

import subprocess
from pathlib import Path

import pytest

from dlcontainer.bench.samples import reader
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from tests.integration.test_bench import options, user
from tests.integration.test_frameworks import Inside
from tests.integration.world import TINY, World, require_twin, write_tiny
from tests.judging import analyse

__all__ = ["user"]  # a fixture

# No two runs of this step make the same bits, as of a compiler in another place.
STEP = """\
  - name: own
    native: true
    shell: |
      site=$("$prefix/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
      mkdir "$site/own"
      printf '__version__ = "1.0"\\nBUILD = "%s"\\n' "$(cat /proc/sys/kernel/random/uuid)" \\
          > "$site/own/__init__.py"
      mkdir "$site/own-1.0.dist-info"
      printf 'Metadata-Version: 2.1\\nName: own\\nVersion: 1.0\\n' \\
          > "$site/own-1.0.dist-info/METADATA"
      printf 'own/__init__.py,,\\n../../../bin/own,,\\n' > "$site/own-1.0.dist-info/RECORD"
      printf '#!%s/bin/python3\\nimport own; print(own.BUILD)\\n' "$prefix" > "$prefix/bin/own"
      chmod 755 "$prefix/bin/own"
exposes:"""


@pytest.mark.long  # what it is made of: tests/unit/bench/measure/test_reference_arm.py
def test_both_sides_have_one_build(
    user: World, engine: Apptainer, tried: EngineCapabilities, tmp_path: Path
) -> None:
    require_twin()
    recipe = write_tiny(tmp_path / "compiling")
    text = TINY.replace("exposes:", STEP).replace("imports: {", 'imports: {own: "1.0", ')
    (recipe / "recipe.yaml").write_text(text)
    built = user.build(recipe, tmp_path / "image")
    output = tmp_path / "x.jsonl"
    more = ("--module", "own", "--arms", "native,container", "--pairs", 1, "--controls", 0)
    done = user.run("bench", "import", *options(built, recipe, output, *more))
    assert "the image's own build of own" in done.stderr
    series = reader.read(output)
    assert series.complete
    assert [item for item in analyse(series).differences if item.refuses] == []
    (native,) = (stack.facts for stack in series.stacks if stack.arm == "native")
    (file,) = Path(str(native["sys_prefix"])).glob("lib/python3*/site-packages/own/__init__.py")
    inside = Inside(user, engine, str(tried.run_mode))
    seen = inside.run(built, "/opt/tiny/bin/python", "-c", "import own; print(own.BUILD)")
    assert f'BUILD = "{seen.stdout.strip()}"' in file.read_text()
    # Its program is there too, and runs with the twin's Python.
    program = Path(str(native["sys_prefix"])) / "bin/own"
    assert program.read_text().startswith(f"#!{native['sys_prefix']}/bin/python\n")
    ran = subprocess.run([program], capture_output=True, text=True, check=True)
    assert ran.stdout == seen.stdout
