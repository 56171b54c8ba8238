"""The module pack in recipes, plans and texts; tests/integration/packs has what it does."""

import json
from pathlib import Path
from typing import Any

import pytest

from dlcontainer import config
from dlcontainer.build import step_errors
from dlcontainer.build.build_steps import work
from dlcontainer.config.resources import probe_files
from dlcontainer.errors import ConfigError
from dlcontainer.formats import pack_commands, step_commands, texts
from dlcontainer.image import bill_file, layout, sbom
from dlcontainer.planning.plan import Plan
from dlcontainer.system.progress import StepProgress
from tests.fakes import Quiet
from tests.unit.image.test_sbom import CONTENTS, SUBJECT
from tests.unit.recipes.test_recipe import recipe_of
from tests.values import ROOT, TEMPLATES, folder_of, plan_of

OFF = "image.pack=false"
TRAINING = "image.pack=training"
PACKED = {"file": "/x.bin", "sha256": "ab" * 32, "bytes": 5, "modules": 2, "folders": 1}


def planned(tmp_path: Path, *settings: str, **changes: Any) -> Plan:
    changed = [config.from_settings([text]) for text in settings]
    return plan_of(folder_of(tmp_path, **changes), changes=changed, probe=probe_files())


def steps(plan: Plan) -> list[str]:
    return [block.name for block in step_commands.image_blocks(plan)]


def test_a_recipe_that_promises_imports_has_one(tmp_path: Path) -> None:
    assert steps(planned(tmp_path / "on", mount_points=["/lustre"])) == [
        *("system", "pack", "mount-points", "clean")
    ]
    assert "pack" not in steps(planned(tmp_path / "off", OFF))
    assert "pack" not in steps(planned(tmp_path / "none", verify={"script": "verify.py"}))
    assert "pack" not in [one.name for one in step_commands.native_blocks(planned(tmp_path / "n"))]


def test_its_time_and_that_of_the_image_have_two_names(tmp_path: Path) -> None:
    plan, times = planned(tmp_path), StepProgress(Quiet())
    for number, name in enumerate(steps(plan), start=1):
        times.line(f"==> step {number}/9 {name}")
    with step_errors.packing(step_errors.StepFailure(plan=plan, output=tmp_path), times):
        pass
    times.end()
    names = [name for name, _ in times.times]
    assert names == ["system", "pack", "clean", "pack-image"]


def test_it_is_part_of_the_plan(tmp_path: Path) -> None:
    on, off = planned(tmp_path / "on"), planned(tmp_path / "off", OFF)
    assert on.content["recipe"]["image"] == {"pack": True}  # type: ignore[index]
    assert "image" not in off.content["recipe"]  # type: ignore[operator]
    assert on.digest != off.digest
    assert planned(tmp_path / "said", "image.pack=true").digest == on.digest
    trained = planned(tmp_path / "trained", TRAINING)
    assert trained.content["recipe"]["image"] == {"pack": "training"}  # type: ignore[index]
    assert trained.digest not in {on.digest, off.digest}


def test_another_compression_is_another_image(tmp_path: Path) -> None:
    usual, said = planned(tmp_path / "a"), planned(tmp_path / "b", "image.compression=zstd")
    assert said.digest == usual.digest
    lz4 = planned(tmp_path / "c", "image.compression=lz4")
    assert lz4.content["recipe"]["image"] == {"pack": True, "compression": "lz4"}  # type: ignore[index]
    plain = planned(tmp_path / "d", OFF, "image.compression=lz4")
    assert plain.content["recipe"]["image"] == {"compression": "lz4"}  # type: ignore[index]
    with pytest.raises(ConfigError, match="raw-libraries needs a module pack"):
        planned(tmp_path / "e", OFF, "image.compression=raw-libraries")
    with pytest.raises(ConfigError, match=r"image\.compression"):
        planned(tmp_path / "f", "image.compression=none")


def test_what_does_not_fit() -> None:
    with pytest.raises(ConfigError, match=r"verify\.imports is empty"):
        recipe_of(image={"pack": True}, verify={"script": "verify.py"})
    with pytest.raises(ConfigError, match=r"verify\.imports is empty"):
        recipe_of(image={"pack": "training"}, verify={"script": "verify.py"})
    step = {"name": "pack", "os_packages": ["python3"]}
    with pytest.raises(ConfigError, match="rename your step"):
        recipe_of(steps=[step], verify={"script": "verify.py", "imports": {"a": "1"}})
    assert recipe_of(steps=[step], image={"pack": False}).has_pack is False
    with pytest.raises(ConfigError, match=r"image\.pack"):
        recipe_of(image={"pack": "perhaps"})


def test_the_probe_goes_in_with_the_step_that_runs_it(tmp_path: Path) -> None:
    files = {step.name: [target for _, target in step.files] for step in work(
        planned(tmp_path / "on"), tmp_path, {}
    )}  # fmt: skip
    assert files["pack"] == [layout.PROBE]
    assert files["image"] == [layout.MANIFEST, layout.VERIFY]
    last = work(planned(tmp_path / "off", OFF), tmp_path, {})[-1]
    assert layout.PROBE in [target for _, target in last.files]


@pytest.mark.parametrize("form", ["apptainer", "dockerfile"])
def test_texts_pack_by_the_same_line(tmp_path: Path, form: texts.Format) -> None:
    line = (
        "/opt/demo/bin/python -IB /opt/dlcontainer/probe/pack_modules.py "
        "--report /opt/dlcontainer/pack.json --trace /opt/dlcontainer/import.trace "
        "--stamp / {}tool"
    )
    usual, trained = planned(tmp_path / "a"), planned(tmp_path / "b", TRAINING)
    assert line.format("") in texts.text(usual, form, [TEMPLATES])
    assert line.format("--step ") in texts.text(trained, form, [TEMPLATES])
    assert {"pack_modules.py", "pack_imports.py", "pack_trace.py", "module_pack.py"} <= {
        path.name for path in probe_files()
    }


@pytest.mark.parametrize(
    ("recipe", "modules"),
    [
        ("pytorch", {"torch"}),
        ("tensorflow", {"tensorflow"}),
        ("mxnet", {"mxnet", "numpy"}),
        ("horovod", {"horovod", "torch"}),
        ("caffe", None),  # it promises no import
    ],
)
def test_what_the_shipped_recipes_pack(recipe: str, modules: set[str] | None) -> None:
    made = sorted((ROOT / "tests" / "golden").glob(f"{recipe}-*/apptainer.def"))
    assert made
    for text in map(Path.read_text, made):
        lines = [line for line in text.splitlines() if pack_commands.WRITER in line]
        if modules is None:
            assert lines == []
        else:
            [line] = lines
            assert modules <= set(line.split())


def test_a_report_is_read() -> None:
    packed = pack_commands.read(json.dumps({**PACKED, "failed": {"a": "no GPU"}, "left": []}))
    assert (packed.modules, packed.failed) == (2, {"a": "no GPU"})
    for text in ("[]", "{}", json.dumps(PACKED), "x"):
        with pytest.raises((ValueError, KeyError, TypeError)):
            pack_commands.read(text)


def test_the_bill_lists_the_file_and_counts_packages_alone() -> None:
    plain, text = sbom.render(SUBJECT, CONTENTS), sbom.render(SUBJECT, CONTENTS, {"/x": "ab" * 32})
    assert bill_file.count(text) == bill_file.count(plain)
    (file,) = [one for one in json.loads(text)["components"] if one["type"] == "file"]
    assert (file["name"], file["hashes"][0]["content"]) == ("/x", "ab" * 32)
