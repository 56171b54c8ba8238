"""A recipe over another, built on the real engine: cached steps below, own steps, both proofs."""

import json
from pathlib import Path

from tests.integration.world import Built, World, write_wheel

OVER = """\
name: over
extends: {below}
wishes: [dlctiny]
changed_pins: [dlctiny]
steps:
  - {{name: newer, python_packages: {{packages: [dlctiny==2.0]}}}}
  - {{name: note, files: {{note.txt: /opt/note.txt}}}}
verify: {{script: mine.py, imports: {{dlctiny: "2.0"}}}}
"""
MINE = """\
import json
import dlctiny
note = open("/opt/note.txt").read().strip()
print(json.dumps({"ok": note == "of over", "what": note, "version": dlctiny.__version__}))
"""


def test_the_steps_below_come_from_the_cache_and_both_proofs_hold(
    world: World, tiny: Path, tiny_image: Built, wheels: Path, tmp_path: Path
) -> None:
    over = tmp_path / "over"
    over.mkdir()
    (over / "recipe.yaml").write_text(OVER.format(below=json.dumps(str(tiny))))
    (over / "mine.py").write_text(MINE)
    (over / "note.txt").write_text("of over\n")
    newer = write_wheel(tmp_path / "newer", "2.0").parent
    found = f"{world.environ.get('PIP_FIND_LINKS', '')} {wheels} {newer}".strip()
    routed = world.having(PIP_FIND_LINKS=found)
    below = {step["name"]: step for step in tiny_image.recorded()["work"]}
    built = routed.build(over, tmp_path / "images")
    mine = {step["name"]: step for step in built.recorded()["work"]}
    for name in ("system", "wheel"):
        assert mine[name]["key"] == below[name]["key"], name
        assert mine[name]["seconds"] is None, name
    assert mine["newer"]["seconds"] is not None
    checks = world.checks(built.image)
    assert checks["import dlctiny"][1].startswith("2.0 from /opt/tiny/")
    assert checks["verify tiny"] == (True, "answer: answer 42")
    assert checks["verify"] == (True, "of over: version 2.0")
    assert list(checks).index("verify tiny") < list(checks).index("verify")
    assert built.recorded()["content"]["recipe"]["name"] == "over"
    # A text of the same plan, with both proofs beside it.
    text = routed.run("render", over, "--site", "local", "-o", f"{tmp_path}/text/").stdout
    assert "verify-tiny.py" in (tmp_path / "text" / "apptainer.def").read_text(), text
    assert len(list((tmp_path / "text" / "files").glob("*-verify*.py"))) == 2
