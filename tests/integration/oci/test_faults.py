"""Whatever ends a build with Docker or Podman: no container is left, and the next one goes on."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from dlcontainer import ocibench
from dlcontainer.engines.oci import ContainerSpec
from dlcontainer.engines.oci_client import SdkClient
from dlcontainer.errors import EngineError
from dlcontainer.ocistore import OciStore
from tests.integration.oci.conftest import Builder
from tests.integration.world import STEPPED, write_bare
from tests.processes import poll

READY_S, LIMIT_S = 120.0, 15.0


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
    mine = ocibench.container_name()
    dead = mine.replace(f"-{os.getpid()}-", "-4194999-")
    others = f"dlcontainer-000000000000-{mine.split('-', 2)[2]}"
    for name in (mine, dead, others):
        client.start(ContainerSpec(image=image, name=name, binds=()))
    assert ocibench.reap(client) == [dead]
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
    name = ocibench.container_name()
    container = client.start(ContainerSpec(image=image, name=name, binds=()))
    argv = ("cache", "prune", "--max-size", "0", "--json", "--kind", kind)
    gone = [entry["key"] for entry in json.loads(plain.world.run(*argv).stdout)["removed"]]
    assert second not in gone
    assert len(gone) == len(entries) - 1
    client.remove(container)
    assert poll(lambda: not client.containers(name), LIMIT_S)
    gone = [entry["key"] for entry in json.loads(plain.world.run(*argv).stdout)["removed"]]
    assert gone == [second]


def test_what_the_engine_can_not_do_is_said(client: SdkClient) -> None:
    with pytest.raises(EngineError, match=f"{client.daemon.kind} could not save no/such:image"):
        client.save("no/such:image", Path("/dev/null"))
    assert client.image("no/such:image") is None
    client.untag("no/such:image")
    client.remove("no-such-container")
