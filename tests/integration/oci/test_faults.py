"""Whatever ends a build with Docker or Podman: no container is left, and the next one goes on."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.build.backends import oci_backend
from dlcontainer.build.cache.oci_layers import OciStore
from dlcontainer.engines.docker import SdkClient
from dlcontainer.engines.oci import ContainerSpec
from dlcontainer.errors import EngineError
from tests import fakeregistry
from tests.fakeregistry import Reply
from tests.integration.oci import daemons
from tests.integration.oci.conftest import Builder, one_engine
from tests.integration.oci.daemons import Service
from tests.integration.test_bad_input import mounted
from tests.integration.world import STEPPED, World, write_bare
from tests.processes import poll

READY_S, LIMIT_S = 120.0, 60.0
ARCHIVE = "docker-archive"


def asleep(seconds: str) -> list[int]:
    """Find the processes `sleep SECONDS`, wherever they run."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[:2] == [b"sleep", seconds.encode()]:
                found.append(int(folder.name))
    return found


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_build_leaves_no_container_and_goes_on(
    plain: Builder, client: SdkClient, stepped: Path, tmp_path: Path, how: signal.Signals
) -> None:
    # The number of seconds tells this test's process from all others.
    seconds = str(100_000 + os.getpid() * 10 + int(how == signal.SIGINT))
    text = STEPPED.replace("echo {{ versions.third }}", f"sleep {seconds}; echo")
    (stepped / "recipe.yaml").write_text(text)
    words = ("build", str(stepped), "--site", "local", "-o", str(tmp_path / "out"))
    fresh = ("--set", f"versions.first={seconds}")
    argv = [*plain.world.program, *words, *plain.options(*fresh)]
    with subprocess.Popen(
        argv, env=dict(plain.world.environ), cwd=tmp_path, stderr=subprocess.DEVNULL
    ) as build:
        try:
            assert poll(lambda: bool(asleep(seconds)) or build.poll() is not None, READY_S)
            assert client.containers("dlcontainer-")
            build.send_signal(how)
            assert build.wait(LIMIT_S) != 0
        finally:
            build.kill()
    assert poll(lambda: not asleep(seconds) and not client.containers("dlcontainer-"), LIMIT_S)
    # The first steps were kept; the third is another now, and goes on from there.
    (stepped / "recipe.yaml").write_text(STEPPED)
    made = plain.build(stepped, tmp_path / "out", "--to", "docker-archive", *fresh)
    assert made.steps(kept=True) == ["first", "second"]
    assert made.steps(kept=False) == ["third", "image"]


def test_a_failed_step_says_what_it_said(plain: Builder, client: SdkClient, tmp_path: Path) -> None:
    recipe = write_bare(tmp_path / "recipe", "echo the-last-word; exit 7")
    words = ("--site", "local", "-o", tmp_path / "out")
    said = plain.world.run("build", recipe, *words, *plain.options(), code=5).stderr
    assert "the build failed in step 'work'" in said
    assert "the-last-word" in said
    assert "the-last-word" in (tmp_path / "out/bare-1.0-local.failed.log").read_text()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["bare-1.0-local.failed.log"]
    assert client.containers("dlcontainer-") == []


def test_containers_of_processes_that_are_no_more_go(
    plain: Builder, client: SdkClient, tmp_path: Path
) -> None:
    made = plain.build(write_bare(tmp_path / "recipe"), tmp_path, "--to", "image")
    image = client.image(made.body["name"])
    assert image is not None
    mine = oci_backend.container_name()
    dead = mine.replace(f"-{os.getpid()}-", "-4194999-")
    others = f"dlcontainer-000000000000-{mine.split('-', 2)[2]}"
    for name in (mine, dead, others):
        client.start(ContainerSpec(image=image, name=name, binds=()))
    assert oci_backend.reap(client) == [dead]
    left = client.containers("dlcontainer-")
    assert {name for _, name in left} == {mine, others}
    for container, _ in left:
        client.remove(container)
    client.untag(made.body["name"])


def test_kept_steps_are_seen_and_pruned_but_not_what_a_container_uses(
    plain: Builder, client: SdkClient, stepped: Path, tmp_path: Path
) -> None:
    kind = plain.service.kind
    own = ("--set", f"versions.first=p{os.getpid()}")
    until = plain.options(*own, "--until", "second")
    plain.world.run("build", stepped, "--site", "local", "-o", tmp_path, *until)
    listed = json.loads(plain.world.run("cache", "list", "--json", "--kind", kind).stdout)
    entries = listed["entries"]
    assert {"base", "first", "second"} <= {entry["name"] for entry in entries}
    second = next(entry["key"] for entry in entries if entry["name"] == "second")
    store = OciStore(client=client, arch="x86_64")
    image = client.image(store.name(second))
    assert image is not None
    name = oci_backend.container_name()
    container = client.start(ContainerSpec(image=image, name=name, binds=()))
    argv = ("cache", "prune", "--max-size", "0", "--json", "--kind", kind)
    gone = [entry["key"] for entry in json.loads(plain.world.run(*argv).stdout)["removed"]]
    assert second not in gone
    assert len(gone) == len(entries) - 1
    client.remove(container)
    assert poll(lambda: not client.containers(name), LIMIT_S)
    gone = [entry["key"] for entry in json.loads(plain.world.run(*argv).stdout)["removed"]]
    assert gone == [second]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    yield from mounted(tmp_path / "small", "size=20m")


@one_engine("docker")
def test_the_archive_s_disk_is_full(
    plain: Builder, client: SdkClient, small: Path, tmp_path: Path
) -> None:
    recipe = write_bare(tmp_path / "recipe", space_mb=2)
    to = plain.options("--to", ARCHIVE)
    said = plain.world.run("build", recipe, "--site", "local", "-o", small, *to, code=5).stderr
    assert "No space left on device" in said
    assert {path.name for path in small.iterdir()} <= {"bare-1.0-local.failed.log"}
    assert client.containers("dlcontainer-") == []
    assert client.images(f"{prefix(plain)}dlcontainer/bare-1.0-local") == []


def prefix(builder: Builder) -> str:
    return "localhost/" if builder.service.kind == "podman" else ""


# Docker tries a push five times, each time later.
@one_engine("podman")
def test_a_registry_that_fails_takes_nothing(
    plain: Builder, client: SdkClient, tmp_path: Path
) -> None:
    recipe, output = write_bare(tmp_path / "recipe"), tmp_path / "out"
    with fakeregistry.serving() as fake:
        fake.replies["/v2/"] = Reply(body=b"{}")
        fake.replies["/v2/ns/bare-1.0-local/blobs/uploads/"] = Reply(status=500)
        to = plain.options("--registry", f"{fake.address}/ns")
        done = plain.world.run("build", recipe, "--site", "local", "-o", output, *to, code=4)
    assert f"{plain.service.kind} could not push" in done.stderr or "reported: " in done.stderr
    assert [path.name for path in output.iterdir()] == ["bare-1.0-local.failed.log"]
    assert client.containers("dlcontainer-") == []
    assert client.images(f"{prefix(plain)}dlcontainer/bare-1.0-local") == []


@pytest.mark.long
def test_the_engine_is_killed_in_a_step(
    service: Service, world: World, stepped: Path, tmp_path: Path
) -> None:
    """What it had kept is there when it runs again; the build that lost it says so and ends."""
    seconds = str(300_000 + os.getpid())
    text = STEPPED.replace("echo {{ versions.third }}", f"sleep {seconds}; echo")
    (stepped / "recipe.yaml").write_text(text)
    with daemons.running(service.kind) as own:
        user = world.having(**own.variables)
        words = ["build", str(stepped), "--site", "local", "-o", str(tmp_path / "out")]
        argv = [*user.program, *words, "--engine", own.kind]
        with subprocess.Popen(
            argv, env=dict(user.environ), cwd=tmp_path, stderr=subprocess.PIPE, text=True
        ) as build:
            assert build.stderr is not None
            next(line for line in build.stderr if "step third" in line)
            assert poll(lambda: bool(asleep(seconds)), READY_S)
            os.kill(own.pid, signal.SIGKILL)
            for pid in asleep(seconds):
                os.kill(pid, signal.SIGKILL)
            said = build.stderr.read()
            assert build.wait(60) == 4
        assert f"{own.kind} could not run a command in the container" in said or (
            f"{own.kind} ended the container" in said
        )
        assert [path.suffix for path in (tmp_path / "out").iterdir()] == [".log"]


@pytest.mark.long
def test_two_builders_at_once(plain: Builder, stepped: Path, tmp_path: Path) -> None:
    own = ("--set", f"versions.first=two{os.getpid()}")
    words = ["build", str(stepped), "--site", "local", "-o", str(tmp_path / "same"), *own]
    both = [
        subprocess.Popen(
            [*plain.world.program, *words, *plain.options()],
            env=dict(plain.world.environ),
            cwd=tmp_path,
            stderr=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    for process in both:
        _, said = process.communicate(timeout=500)
        assert process.returncode == 0, said.decode()
    names = sorted(path.suffix for path in (tmp_path / "same").iterdir())
    assert names == [".json", ".json", ".log", ".sif"]  # two: record and bill


def test_what_the_engine_can_not_do_is_said(client: SdkClient) -> None:
    with pytest.raises(EngineError, match=f"{client.daemon.kind} could not save no/such:image"):
        client.save("no/such:image", Path("/dev/null"))
    assert client.image("no/such:image") is None
    client.untag("no/such:image")
    client.remove("no-such-container")
