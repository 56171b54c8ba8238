"""`dlcontainer build` with the real engine: what lies there afterwards, and that it is honest."""

import hashlib
import json
import os
import stat
import subprocess
from pathlib import Path

from dlcontainer.engines.apptainer import BUILD_MODES, RUN_MODES, Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.image import sif
from tests.integration.world import Built, World


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def test_image_record_and_log(pytorch_image: Built) -> None:
    built, body = pytorch_image, pytorch_image.body
    folder = built.image.parent
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        path.name for path in (built.image, built.record, built.log, built.sbom)
    )
    assert body["schema"] == "dlcontainer/build/1"
    recorded = built.recorded()
    assert recorded["schema"] == "dlcontainer/record/1"
    size = built.image.stat().st_size
    assert body["sha256"] == recorded["image"]["sha256"] == sha256(built.image)
    assert body["size"] == recorded["image"]["size"] == size
    assert recorded["image"]["file"] == built.image.name
    assert body["digest"] == recorded["digest"]
    assert [step["name"] for step in recorded["steps"]] == [
        "base",
        "unpack",
        "system",
        "compiler",
        "framework",
        "pack",
        "image",
        "pack-image",
    ]
    versions = {wheel["name"]: wheel["version"] for wheel in recorded["python_packages"]}
    assert versions["torch"].startswith("2.13.0")
    assert all(len(wheel["sha256"]) == 64 for wheel in recorded["python_packages"])
    log = built.log.read_text()
    assert "==> step 3/5 framework" in log
    os.umask(mask := os.umask(0))
    assert stat.S_IMODE(built.log.stat().st_mode) & 0o077 == 0o066 & ~mask


def test_labels_and_architecture(
    pytorch_image: Built, world: World, engine: Apptainer, tried: EngineCapabilities
) -> None:
    assert sif.arch(pytorch_image.image) == os.uname().machine
    done = subprocess.run(
        engine.inspect_argv(pytorch_image.image),
        env=dict(world.environ),
        capture_output=True,
        text=True,
        check=True,
    )
    attributes = json.loads(done.stdout)["data"]["attributes"]
    labels = attributes["labels"]
    assert labels["org.opencontainers.image.title"] == "pytorch"
    assert labels["org.opencontainers.image.version"] == "2.13.0"
    assert labels["org.dlcontainer.site"] == "local"
    assert labels["org.dlcontainer.digest"] == f"sha256:{pytorch_image.body['digest']}"
    text = world.run("render", "pytorch", "--site", "local").stdout
    assert attributes["deffile"] == text
    recorded = pytorch_image.recorded()
    assert recorded["text_sha256"] == hashlib.sha256(text.encode()).hexdigest()


def test_validate(pytorch_image: Built, world: World) -> None:
    done = world.run("validate", pytorch_image.image, "--site", "local")
    lines = done.stdout.splitlines()
    assert all(line.startswith("ok  ") for line in lines[:-1])
    assert lines[-1] == f"valid: {len(lines) - 1} checks"
    verified = "ok      verify: 30 training steps: devices not tried: torch sees no device, loss_"
    assert any(line.startswith(verified) for line in lines)
    assert any(line.startswith("ok      import torch: 2.13.0") for line in lines)


def test_dry_run_builds_nothing(world: World, bare: Path, tmp_path: Path) -> None:
    output, scratch = tmp_path / "out put", tmp_path / "scratch"
    scratch.mkdir()
    argv = ("build", bare, "--site", "local", "-o", output, "--tmpdir", scratch, "--dry-run")
    text = world.run(*argv).stdout
    assert "mmdebstrap" in text
    body = json.loads(world.run(*argv, "--json").stdout)
    assert body["schema"] == "dlcontainer/dry-run/1"
    assert body["image"] == str(output / "bare-1.0-local.sif")
    assert Path(body["commands"][0][0]).name == "mmdebstrap"
    assert not output.exists()
    assert list(scratch.iterdir()) == []


def test_second_build_replaces_the_first_whole(world: World, bare: Path, tmp_path: Path) -> None:
    first = world.build(bare, tmp_path)
    before = first.image.stat().st_ino
    seen: set[int] = set()
    argv = [*world.program, "build", str(bare), "--site", "local", "-o", str(tmp_path)]
    argv.append("--no-cache")
    environ = dict(world.environ)
    with subprocess.Popen(argv, env=environ, cwd=world.folder, stderr=subprocess.DEVNULL) as again:
        try:
            while again.poll() is None:
                # At every moment there is a whole image: the old one or the new one.
                with first.image.open("rb") as file:
                    seen.add(os.fstat(file.fileno()).st_ino)
                    assert file.read(42)[32:] == b"SIF_MAGIC\0"
        finally:
            again.kill()
        assert again.wait() == 0
    assert before in seen
    after = first.image.stat().st_ino
    assert seen <= {before, after}
    assert after != before
    assert first.recorded()["image"]["sha256"] == sha256(first.image)
    assert len(list(tmp_path.iterdir())) == 4


def test_rendered_text_builds_by_hand(
    world: World, bare: Path, engine: Apptainer, tried: EngineCapabilities, tmp_path: Path
) -> None:
    """The text and the base are all there is to an image: the engine alone makes the same.

    All but the account that a build gives of itself (docs/why/provenance.md).
    """
    by_tool = world.build(bare, tmp_path / "by tool")
    folder = tmp_path / "by hand"
    world.run("render", bare, "--site", "local", "--with-base", "-o", f"{folder}/")
    definition = folder / "apptainer.def"
    image = tmp_path / "by-hand.sif"
    environ = {**world.environ, "APPTAINER_TMPDIR": world.environ["TMPDIR"]}
    # --notest: this recipe has no Python, and %test would want one.
    build = [str(engine.program), "build", "--notest", *BUILD_MODES[str(tried.build_mode)]]
    done = subprocess.run(
        [*build, str(image), definition.name],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    account = " ".join(f"! -name '{name}'" for name in ("sbom.*", "provenance.*", "libraries.*"))
    find = f"find opt etc -xdev -type f {account}"
    listing = f"cd / && {find} | sort | xargs sha256sum; echo $BARE $PATH"
    texts = []
    for path in (image, by_tool.image):
        mode = RUN_MODES[str(tried.run_mode)]
        run = [str(engine.program), "exec", *mode, "--cleanenv", "--containall", "--no-home"]
        inside = subprocess.run(
            [*run, str(path), "/bin/sh", "-c", listing],
            env=environ,
            capture_output=True,
            text=True,
            check=True,
        )
        texts.append(inside.stdout)
    assert "opt/bare/note.txt" in texts[0]
    assert "a b'c /opt/bare/bin:" in texts[0]
    assert texts[0] == texts[1]
