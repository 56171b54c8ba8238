"""Images of another architecture, built and checked under qemu with the real engine."""

import functools
import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dlcontainer.config.field_types import ARCHES, DEBIAN_ARCH, Arch
from dlcontainer.engines import emulation
from dlcontainer.image import sif
from dlcontainer.system.machine import find_program
from tests import mirrors
from tests.integration.world import Built, World, missing
from tests.skips import skip
from tests.values import write_yaml

SITE = """\
schema: 1
name: elsewhere-{arch}
summary: A machine of another architecture, for tests
arch: {arch}
default_recipe: pytorch
routing: {{apt: {sources}}}
"""

# A Python and nothing else (Debian 12's minimal one lacks json); its environment is made by hand.
SMALL = """\
schema: 1
name: small
version: "1.0"
summary: A Python of another architecture, for tests
space_mb: 300
base: {distribution: debian, release: RELEASE}
prefix: /opt/small
steps:
  - name: system
    os_packages: [python3]
  - name: environment
    shell: |
      test "$(uname -m)" = {{ site.arch }}
      mkdir -p "$prefix/bin"
      ln -s /usr/bin/python3 "$prefix/bin/python"
      printf 'home = /usr/bin\\ninclude-system-site-packages = false\\n' > "$prefix/pyvenv.cfg"
exposes: [python]
verify: {script: verify.py}
"""
VERIFY = """\
import json
print(json.dumps({"ok": sum(range(10)) == 45, "what": "a sum"}))
"""

# The variant that is the same for every architecture, where a centre would have it.
DEBIAN = {"x86_64": "generic-slurm", "ppc64le": "summit", "aarch64": "vista"}


RELEASES = ("trixie", "bookworm")
# Builds where the mirror lacked a package, and has it when it is asked.
ATTEMPTS = 3


def sources(release: str) -> list[str]:
    """Give the archive of the host's own release as a source of another; none: the defaults.

    A mirror may have the updates of the rarer architectures late: the release itself is whole,
    but for the days after a point release.
    """
    get = find_program("apt-get", os.environ)
    if get is None:
        return []
    form = "$(CREATED_BY)\t$(REPO_URI)\t$(RELEASE)\t$(COMPONENT)\t$(SIGNED_BY)"
    listed = subprocess.run(
        [str(get), "indextargets", "--no-release-info", "--format", form],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for line in listed.splitlines():
        kind, uri, suite, component, key = line.split("\t")
        if (kind, component) == ("Packages", "main") and suite in RELEASES:
            option = f"[signed-by={key}] " if key.startswith("/") else ""
            return [f"deb {option}{uri.rstrip('/')} {release} main"]
    return []


@functools.cache
def whole_release(arch: Arch) -> str:
    """Name the newest release that the mirror holds whole, as far as the small recipe needs it."""
    found: dict[str, str] = {}
    for release in RELEASES:
        of = mirrors.suites(sources(release), DEBIAN_ARCH[arch])
        found[release] = "; ".join(filter(None, (mirrors.hole(suite, ["python3"]) for suite in of)))
        if not found[release]:
            return release
    said = "; ".join(found.values())
    return skip(
        f"no release is whole: {said}", elsewhere="a mirror that holds what its index names"
    )


@pytest.fixture(scope="session")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Arch], Path]:
    """Give site configs of other architectures, of which programs run here."""
    folder = tmp_path_factory.mktemp("sites")

    def write(arch: Arch) -> Path:
        if arch != os.uname().machine and emulation.obstacle(arch):
            missing(f"emulation of {arch} (`make setup-tests` as root)")
        path = folder / f"elsewhere-{arch}.yaml"
        listed = sources(whole_release(arch)) or "auto"
        path.write_text(SITE.format(arch=arch, sources=json.dumps(listed)))
        return path

    return write


def small(arch: Arch) -> str:
    """Give the small recipe on a base that can be had for an architecture."""
    return SMALL.replace("RELEASE", whole_release(arch))


def write_recipe(folder: Path, text: str, verify: str) -> Path:
    folder.mkdir()
    (folder / "recipe.yaml").write_text(text)
    (folder / "verify.py").write_text(verify)
    return folder


def build(
    world: World,
    recipe: str | Path,
    site: str | Path,
    output: Path,
    mirror: list[mirrors.Suite],
    *more: str,
) -> Built:
    """Build; what the mirror lacks is a skip, once the mirror itself has said that it lacks it."""
    argv = ("build", recipe, "--site", site, "-o", output, "--json", *more)
    for _ in range(ATTEMPTS):
        done = world.run(*argv, code=None, timeout=3000)
        if done.returncode == 0:
            break
        logs = "".join(path.read_text() for path in output.glob("*.failed.log"))
        verdict = mirrors.judge(mirror, logs)
        if verdict.mirror:
            skip(verdict.mirror, elsewhere="a mirror that holds what its index names")
        if not verdict.again:
            break
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    body = json.loads(done.stdout)
    return Built(body=body, **{key: Path(body[key]) for key in ("image", "record", "log", "sbom")})


def checks(world: World, image: Path, site: str | Path) -> dict[str, str]:
    done = world.run("validate", image, "--site", site, "--json", code=None, timeout=3000)
    found = json.loads(done.stdout)["checks"]
    assert [check for check in found if not check["ok"]] == []
    return {check["name"]: check["detail"] for check in found}


@pytest.mark.long  # 210 s; tests/unit/engines/test_emulation.py knows what is asked of it
@pytest.mark.timeout(5400)  # emulated, and beside others: each program takes 18 times as long
@pytest.mark.parametrize("arch", ["ppc64le"])
def test_a_small_image(
    world: World, elsewhere: Callable[[Arch], Path], arch: Arch, tmp_path: Path
) -> None:
    site = elsewhere(arch)
    recipe = write_recipe(tmp_path / "small", small(arch), VERIFY)
    mirror = mirrors.suites(sources(whole_release(arch)), DEBIAN_ARCH[arch])
    built = build(world, recipe, site, tmp_path / "images", mirror)
    assert sif.arch(built.image) == arch
    steps = [step["name"] for step in built.recorded()["steps"]]
    assert steps[:2] == ["base", "shortcuts"]
    found = checks(world, built.image, site)
    assert found["runs"].endswith(", emulated by qemu as power9")
    assert found["machine"] == "ppc64le inside"
    # Whoever builds it, the text is the same: neither qemu nor the native programs are in it.
    text = world.run("render", recipe, "--site", site).stdout
    assert hashlib.sha256(text.encode()).hexdigest() == built.recorded()["text_sha256"]
    assert "/mnt/native" not in text
    assert "QEMU" not in text
    log = built.log.read_text()
    assert "==> step 1/3 system" in log


@pytest.mark.long
@pytest.mark.timeout(5400)
def test_training_is_the_same_on_all(world: World, tmp_path: Path) -> None:
    """One script, three processors, two of them emulated: the losses agree to 5 digits."""
    losses: dict[str, list[float]] = {}
    for arch in ARCHES:
        if arch != os.uname().machine and emulation.obstacle(arch):
            missing(f"emulation of {arch} (`make setup-tests` as root)")
        site = DEBIAN[arch]
        mine = {"sites": {site: {"routing": {"apt": sources("trixie") or "auto"}}}}
        config = write_yaml(tmp_path / arch / "dlcontainer/overrides.yaml", mine).parent.parent
        user = world.having(XDG_CONFIG_HOME=config)
        mirror = mirrors.suites(sources("trixie"), DEBIAN_ARCH[arch])
        built = build(user, "pytorch", site, tmp_path / arch, mirror, "--variant", "debian")
        assert sif.arch(built.image) == arch
        said = checks(user, built.image, site)["verify"]
        pairs = dict(part.rsplit(" ", 1) for part in said.split(": ")[1].split(", ")[:2])
        losses[arch] = [float(pairs[name]) for name in ("loss_first", "loss_last")]
    for other in sorted(set(losses) - {"x86_64"}):
        assert losses[other] == pytest.approx(losses["x86_64"], abs=1e-5)
