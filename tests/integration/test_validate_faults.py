"""`validate` says FAILED, in the right line, for each promise that an image breaks."""

import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import BUILD_MODES, Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from tests.integration.world import Built, World

PACKAGES = "/opt/tiny/lib/python3*/site-packages"
MODULE = f"{PACKAGES}/dlctiny.py"
VERIFY = "/opt/dlcontainer/verify.py"

# what is done to the image -> (the check that fails, what its line says)
FAULTS = {
    "leftover pip.conf": ("echo '[global]' > /etc/pip.conf", "no leftovers", "/etc/pip.conf"),
    "leftover cache": ("mkdir -p /root/.cache/pip", "no leftovers", "/root/.cache"),
    "leftover in /mnt": ("touch /mnt/routing.sh", "no leftovers", "/mnt/routing.sh"),
    "wrong version": (
        f"sed -i s/1.0/0.9/ {MODULE}; rm -rf {PACKAGES}/__pycache__",
        "import dlctiny",
        "0.9",
    ),
    "module missing": (
        f"rm {MODULE}; rm -rf {PACKAGES}/__pycache__",
        "import dlctiny",
        "ModuleNotFoundError",
    ),
    "module from elsewhere": (
        f"mkdir /srv/e; cd {PACKAGES}; mv dlctiny.py /srv/e; echo /srv/e > e.pth",
        "import dlctiny",
        "/srv/e/dlctiny.py",
    ),
    "verify fails": (f"echo 'raise SystemExit(\"no luck\")' > {VERIFY}", "verify", "no luck"),
    "verify says no": (
        f"""echo 'print("{{\\\\"ok\\\\": false, \\\\"what\\\\": \\\\"sum\\\\"}}")' > {VERIFY}""",
        "verify",
        "sum",
    ),
    "verify prints garbage": (f"echo 'print(\"all is well\")' > {VERIFY}", "verify", "no JSON"),
    "verify prints nothing": (f": > {VERIFY}", "verify", "no JSON"),
    "no Python": ("rm /opt/tiny/bin/python*", "runs", "/opt/tiny/bin/python"),
    "no manifest": ("rm /opt/dlcontainer/manifest.json", "runs", "manifest.json"),
    "another plan's manifest": (
        "sed -i '/\"digest\"/s/[0-9a-f]\\{64\\}/0123456789abcdef/' /opt/dlcontainer/manifest.json",
        "manifest",
        "0123456789ab",
    ),
    "chatty Python": (
        f"cd {PACKAGES}; echo 'import sys; print(\"hello\")' > hello.pth",
        "runs",
        "",
    ),
}
SHORT = {
    "leftover pip.conf",
    "wrong version",
    "module from elsewhere",
    "verify fails",
    "verify prints garbage",
    "no Python",
}


def spoil(
    built: Built,
    snippet: str,
    world: World,
    engine: Apptainer,
    tried: EngineCapabilities,
    folder: Path,
) -> Path:
    """Make the same image with one thing changed, and a record that fits its bytes."""
    (folder / "spoilt.def").write_text(
        f"Bootstrap: localimage\nFrom: {built.image.name}\n%post\n    {snippet}\n"
    )
    image = folder / "spoilt.sif"
    argv = [str(engine.program), "build", *BUILD_MODES[str(tried.build_mode)]]
    if tried.takes_squash:
        argv += ["--mksquashfs-args", "-comp lz4"]
    environ = {**world.environ, "APPTAINER_TMPDIR": world.environ["TMPDIR"]}
    done = subprocess.run(
        [*argv, image.name, "spoilt.def"],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    recorded = built.recorded()
    recorded["image"]["sha256"] = hashlib.sha256(image.read_bytes()).hexdigest()
    image.with_suffix(".json").write_text(json.dumps(recorded))
    return image


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(name, marks=[] if name in SHORT else [pytest.mark.long], id=name)
        for name in FAULTS
    ],
)
def test_broken_promise_is_found(
    fault: str,
    as_built: Built,
    world: World,
    engine: Apptainer,
    tried: EngineCapabilities,
    tmp_path: Path,
) -> None:
    snippet, name, says = FAULTS[fault]
    image = spoil(as_built, snippet, world, engine, tried, tmp_path)
    done = world.run("validate", image, code=1)
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    (line,) = [line for line in failed if line.startswith(f"FAILED  {name}: ")]
    assert says in line
    assert "record" not in "".join(failed)
    assert name in done.stderr
    assert "Traceback" not in done.stderr


def test_whole_image_passes(as_built: Built, world: World) -> None:
    checks = world.checks(as_built.image)
    assert all(ok for ok, _ in checks.values())
    assert checks["verify"] == (True, "answer: answer 42")
    assert checks["import dlctiny"][0]


def test_record_of_another_image(as_built: Built, pytorch_image: Built, world: World) -> None:
    as_built.record.write_bytes(pytorch_image.record.read_bytes())
    checks = world.checks(as_built.image, code=1)
    assert {name for name, (ok, _) in checks.items() if not ok} == {"record", "labels", "manifest"}
    assert "is not the record's" in checks["record"][1]


def test_one_byte_changed(as_built: Built, world: World) -> None:
    with as_built.image.open("r+b") as file:
        file.seek(-1, 2)
        last = file.read(1)[0]
        file.seek(-1, 2)
        file.write(bytes([last ^ 1]))
    checks = world.checks(as_built.image, code=1)
    assert not checks["record"][0]


def test_no_record(as_built: Built, world: World) -> None:
    as_built.record.unlink()
    checks = world.checks(as_built.image, code=1)
    assert checks["record"] == (False, f"no {as_built.record.name} beside the image")
    assert checks["verify"][0]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"schema": "dlcontainer/record/1"}', '{"schema": "dlcontainer/x/9"}'],
)
def test_record_cut(as_built: Built, world: World, text: str) -> None:
    as_built.record.write_text(text)
    done = world.run("validate", as_built.image, code=1)
    assert str(as_built.record) in done.stderr
    assert "Traceback" not in done.stderr
