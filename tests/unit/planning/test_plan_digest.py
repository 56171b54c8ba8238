"""The digest: all that is content changes it, nothing else does."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer import config
from tests.values import (
    HOST,
    IMAGE_BASE,
    RECIPE,
    ROOT,
    TRIAL,
    folder_of,
    host,
    plan_of,
    site_of,
    write_yaml,
)


def digest(tmp_path: Path, name: str = "one", /, **recipe: Any) -> str:
    return plan_of(folder_of(tmp_path / name, **recipe)).digest


def test_the_same_inputs_give_the_same_digest_wherever_they_stand(tmp_path: Path) -> None:
    assert digest(tmp_path, "it's here") == digest(tmp_path, "or there")
    folder = tmp_path / "third"
    folder.mkdir()
    write_yaml(folder / "recipe.yaml", {key: RECIPE[key] for key in reversed(list(RECIPE))})
    (folder / "verify.py").write_text("print('{}')\n")
    assert plan_of(folder).digest == digest(tmp_path)


STEP = RECIPE["steps"][0]


@pytest.mark.parametrize(
    "changes",
    [
        {"version": "1.1"},
        {"summary": "Another"},
        {"homepage": "https://example.org"},
        {"license": "MIT"},
        {"base": {"distribution": "debian", "release": "trixie"}},
        {"base": IMAGE_BASE},
        {"prefix": "/opt/other"},
        {"versions": {"tool": "2.1"}},
        {"steps": [{**STEP, "name": "other"}]},
        {"steps": [{**STEP, "os_packages": ["python3-venv"]}]},
        {"steps": [STEP, {"name": "more", "shell": "true"}]},
        {"steps": [STEP, {"name": "more", "environment": {"A": "1"}}]},
        {"steps": [{**STEP, "files": {}}, {"name": "more", "files": {"verify.py": "/opt/a"}}]},
        {"environment": {"A": "1"}},
        {"mount_points": ["/lustre"]},
        {"exposes": ["python3"]},
        {"verify": {"script": "verify.py"}},
        {"upstreams": {"up": {"url": "https://example.org", "source": "a page"}}},
    ],
)
def test_content_of_a_recipe_changes_it(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert digest(tmp_path, "changed", **changes) != digest(tmp_path)


def test_a_files_bytes_change_it(tmp_path: Path) -> None:
    before = digest(tmp_path)
    folder = folder_of(tmp_path / "one")
    with (folder / "verify.py").open("a") as file:
        file.write("#")
    assert plan_of(folder).digest != before


@pytest.mark.parametrize(
    "changes",
    [{"name": "other"}, {"arch": "aarch64"}, {"environment": {"A": "1"}}, {"base": IMAGE_BASE}],
)
def test_content_of_a_site_changes_it(tmp_path: Path, changes: dict[str, Any]) -> None:
    folder = folder_of(tmp_path)
    assert plan_of(folder, site=site_of(**changes)).digest != plan_of(folder).digest


def test_templates_and_settings_change_it(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    digests = {
        plan_of(folder).digest,
        plan_of(folder, templates={"a.j2": "0"}).digest,
        plan_of(folder, templates={"a.j2": "1"}).digest,
        plan_of(folder, changes=[config.from_settings(["versions.tool=9"])]).digest,
    }
    assert len(digests) == 4


@pytest.mark.parametrize(
    "changes",
    [
        {"routing": {"apt": "default", "pip": "default", "proxy": "none", "ca": "default"}},
        {"routing": {"proxy": "http://proxy.example:3128", "wheels": ["/srv/wheels"]}},
        {"routing": {"pip": {"index": "https://mirror.example/simple"}}},
        {"routing": {"upstreams": {"https://example.org": "https://mirror.example/whl"}}},
        {"engine": {"tmpdir": "/fast", "module": "singularity/3.8"}},
        {"summary": "Another summary of the site"},
        {"status": "example"},
        {"scheduler": {"kind": "slurm", "launcher": ["srun"]}},
        {"filesystems": [{"path": "/home", "kind": "nfs", "purpose": "home"}]},
    ],
)
def test_what_is_no_content_leaves_it(tmp_path: Path, changes: dict[str, Any]) -> None:
    folder = folder_of(tmp_path)
    assert plan_of(folder, site=site_of(**changes)).digest == plan_of(folder).digest


def test_the_host_and_its_engine_leave_it(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    environ = {
        "https_proxy": "http://proxy.example:3128",
        "PIP_INDEX_URL": "https://mirror.example",
    }
    other = host(kernel="9.9", cores=1, user="eve", home=Path("/x"), environ=environ)
    trial = replace(TRIAL, build_mode="fakeroot")
    assert plan_of(folder, on=other, trial=trial).digest == plan_of(folder, on=HOST).digest


def test_the_space_that_a_build_needs_leaves_it(tmp_path: Path) -> None:
    assert digest(tmp_path, "changed", space_mb=9) == digest(tmp_path)


@pytest.fixture
def in_process(real_processes: None) -> Callable[[str], str]:
    def run(seed: str) -> str:
        program = (
            "from tests.values import shipped_plan\n"
            "from dlcontainer.formats import texts\n"
            "from tests.values import TEMPLATES\n"
            "for site in ('local', 'example-slurm'):\n"
            "    plan = shipped_plan(site)\n"
            "    print(plan.digest, plan.origins, plan.notes)\n"
            "    for form in texts.formats_of(plan): print(texts.text(plan, form, [TEMPLATES]))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={"PATH": os.environ["PATH"], "PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    return run


def test_another_process_gives_the_same_bytes(in_process: Callable[[str], str]) -> None:
    first = in_process("1")
    assert first.count("plan: sha256:") == 8
    assert in_process("4242") == first
