"""Passwords and tokens of a user: in no command line, no child of ours, and nothing that stays."""

import base64
import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import Apptainer
from tests.integration.test_leaks import squashfs_offset
from tests.integration.world import World, write_bare, write_tiny, write_wheel

PROXY, INDEX, REGISTRY, TOKEN = (
    f"planted-{what}-1f7d" for what in ("proxy", "index", "registry", "token")
)
BASIC = base64.b64encode(f"someone:{PROXY}".encode()).decode()
SECRETS = tuple(word.encode() for word in (PROXY, INDEX, REGISTRY, TOKEN, BASIC))
ADDRESS = f"http://someone:{PROXY}@127.0.0.1:9"


def planted(world: World) -> World:
    """Give a user with secrets in all places that tools read; nobody listens at the addresses."""
    docker = Path(world.environ["HOME"]) / "docker"
    docker.mkdir(exist_ok=True)
    auth = base64.b64encode(f"someone:{REGISTRY}".encode()).decode()
    (docker / "config.json").write_text(f'{{"auths": {{"r.example": {{"auth": "{auth}"}}}}}}')
    return world.having(
        ftp_proxy=ADDRESS,
        PIP_INDEX_URL=f"https://someone:{INDEX}@127.0.0.1:9/simple",
        PIP_RETRIES="0",
        APPTAINER_DOCKER_PASSWORD=REGISTRY,
        SINGULARITY_DOCKER_PASSWORD=REGISTRY,
        APPTAINERENV_MINE=TOKEN,
        DOCKER_CONFIG=docker,
        GITHUB_TOKEN=TOKEN,
        HF_TOKEN=TOKEN,
        AWS_SECRET_ACCESS_KEY=TOKEN,
    )


@dataclass(kw_only=True, slots=True)
class Seen:
    """What stood in the list of processes; only this host's, not those inside an image."""

    programs: set[str] = field(default_factory=set)
    in_argv: set[bytes] = field(default_factory=set)
    in_environment: set[str] = field(default_factory=set)


def _look(seen: Seen, own: str) -> None:
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            argv = (folder / "cmdline").read_bytes()
            words = argv.split(b"\0")
            if any(secret in argv for secret in SECRETS):
                seen.in_argv.add(argv)
            environ = (folder / "environ").read_bytes()
            # A step is a recipe's: it sees the way out of its build. And the command is the user's.
            if b"dlcontainer" in b" ".join(words[:3]) and b"supervisor.py" not in argv:
                continue
            program = Path(os.fsdecode(words[0])).name
            if own in os.fsdecode(environ) and (folder / "ns/mnt").readlink() == _HERE:
                seen.programs.add(program)
                names = [line for line in environ.split(b"\0") if any(s in line for s in SECRETS)]
                # What goes out itself is told its way, in an environment that others can't read.
                out = program.startswith(("python", "pip")) and b"supervisor.py" not in argv
                if names and not (out and b"-m\0pip" in argv):
                    told = ", ".join(os.fsdecode(name.partition(b"=")[0]) for name in names)
                    seen.in_environment.add(f"{program}: {told}")


_HERE = Path("/proc/self/ns/mnt").readlink()


@contextlib.contextmanager
def watching(world: World) -> Iterator[Seen]:
    """Read command lines and environments of the world's processes again and again."""
    seen, done = Seen(), threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            _look(seen, world.environ["HOME"])

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def holding(*folders: Path) -> list[Path]:
    """Name the files that hold a secret."""
    found = []
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file() and not path.is_symlink():
                data = path.read_bytes()
                found += [path for secret in SECRETS if secret in data]
    return found


def test_a_build_leaves_no_secret(
    engine: Apptainer, world: World, unsquashfs: str, tmp_path: Path
) -> None:
    user = planted(world)
    recipe = write_bare(tmp_path / "recipe", "sleep 1; echo fine > /opt/bare/work")
    with watching(user) as seen:
        built = user.build(recipe, tmp_path / "out", "--no-cache")
    assert any("pptainer" in program for program in seen.programs)
    assert (seen.in_argv, seen.in_environment) == (set(), set())
    tree = unpacked(built.image, unsquashfs, tmp_path / "tree")
    assert (tree / "opt/bare/work").read_text() == "fine\n"
    assert holding(tmp_path, Path(user.environ["TMPDIR"]), cache(user)) == []


# Two cold bases; tests/unit/build/test_build.py has the same without an engine.
@pytest.mark.long
def test_a_recipe_that_writes_its_environment_down_makes_no_image(
    engine: Apptainer, world: World, tmp_path: Path
) -> None:
    user, out = planted(world), tmp_path / "out"
    # In one piece it would stand in the plan, which is refused before the first step.
    halves = f"{BASIC[:9]} {BASIC[9:]}"
    for number, work in enumerate(
        ("env > /opt/bare/config.log", f"printf %s {halves} > /opt/bare/config.log")
    ):
        recipe = write_bare(tmp_path / f"recipe {number}", f"env; {work}")
        done = user.run("build", recipe, "--site", "local", "-o", out, code=5)
        assert "a credential from ftp_proxy" in done.stderr
        assert "/opt/bare/config.log" in done.stderr
        assert not [secret for secret in SECRETS if secret.decode() in done.stdout + done.stderr]
        assert [path.name for path in out.iterdir()] == ["bare-1.0-local.failed.log"]
        assert "ftp_proxy=http://***@127.0.0.1:9" in next(out.iterdir()).read_text()
    assert holding(out, Path(user.environ["TMPDIR"]), cache(user)) == []


@pytest.mark.long
def test_no_command_shows_or_keeps_a_secret(
    engine: Apptainer, world: World, unsquashfs: str, tmp_path: Path
) -> None:
    """As the short test above, over all commands from a plan to a module, with pip and apt."""
    wheels = write_wheel(tmp_path / "wheels").parent
    found = f"{world.environ.get('PIP_FIND_LINKS', '')} {wheels}".strip()
    user = planted(world.having(PIP_FIND_LINKS=found))
    recipe, here = write_tiny(tmp_path / "recipe"), ("--site", "local")
    lock, bundle, root = (tmp_path / name for name in ("lock.json", "bundle", "modules"))
    said = []
    with watching(user) as seen:
        said.append(user.run("plan", recipe, *here))
        said.append(user.run("render", recipe, *here, "-o", f"{tmp_path / 'texts'}/"))
        said.append(user.run("lock", recipe, *here, "-o", lock))
        said.append(user.run("fetch", recipe, *here, "--locked", lock, "-o", bundle))
        built = user.build(recipe, tmp_path / "out", "--no-cache")
        said.append(user.run("validate", built.image))
        said.append(user.run("inspect", built.image))
        said.append(user.run("publish", built.image, *here, "--root", root))
    assert "apt-get" in seen.programs
    assert (seen.in_argv, seen.in_environment) == (set(), set())
    unpacked(built.image, unsquashfs, tmp_path / "tree")
    texts = "".join(done.stdout + done.stderr for done in said)
    assert not [secret for secret in SECRETS if secret.decode() in texts]
    assert holding(tmp_path, Path(user.environ["TMPDIR"]), cache(user)) == []


def cache(world: World) -> Path:
    return Path(world.environ["XDG_CACHE_HOME"])


def unpacked(image: Path, unsquashfs: str, folder: Path) -> Path:
    argv = [unsquashfs, "-no-progress", "-quiet", "-no-xattrs", "-dest", str(folder)]
    offset = str(squashfs_offset(image))
    subprocess.run([*argv, "-offset", offset, str(image)], check=True, capture_output=True)
    return folder
