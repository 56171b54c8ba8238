"""Whatever ends a build with Docker or Podman: no container is left, and the next one goes on."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from dlcontainer import ocibench
from dlcontainer.engines.oci import ContainerSpec
from dlcontainer.engines.oci_client import SdkClient
from dlcontainer.errors import EngineError
from tests.integration.oci.conftest import Builder
from tests.integration.world import write_bare
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
    plain: Builder, client: SdkClient, tmp_path: Path, how: signal.Signals
) -> None:
    # The number of seconds tells this test's process from all others.
    seconds = str(100_000 + os.getpid() * 10 + int(how == signal.SIGINT))
    recipe = write_bare(tmp_path / "recipe", f"[ -e /mnt/none ] || sleep {seconds}")
    argv = plain.argv(recipe, tmp_path / "out")
    with subprocess.Popen(
        argv, env=plain.environ(), cwd=tmp_path, stderr=subprocess.DEVNULL
    ) as build:
        try:
            assert poll(lambda: bool(asleep(seconds)) or build.poll() is not None, READY_S)
            assert client.containers("dlcontainer-")
            build.send_signal(how)
            assert build.wait(LIMIT_S) != 0
        finally:
            build.kill()
    assert poll(lambda: not asleep(seconds) and not client.containers("dlcontainer-"), LIMIT_S)
    # The first step was kept; the second is another now, and goes on from there.
    write_bare(recipe, f": {seconds}")
    body = plain.build(recipe, tmp_path / "out", outcome="image")
    assert (body["kept"], body["ran"]) == (["note"], ["work", "image"])
    client.untag(body["name"])


def test_a_failed_step_says_what_it_said(plain: Builder, client: SdkClient, tmp_path: Path) -> None:
    recipe = write_bare(tmp_path / "recipe", "echo the-last-word; exit 7")
    done = subprocess.run(
        plain.argv(recipe, tmp_path / "out"),
        env=plain.environ(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "`'step work'` ended with exit code 7" in done.stderr
    assert "the-last-word" in (tmp_path / "out/bare-1.0-local.log").read_text()
    assert client.containers("dlcontainer-") == []


def test_containers_of_processes_that_are_no_more_go(
    plain: Builder, client: SdkClient, tmp_path: Path
) -> None:
    body = plain.build(write_bare(tmp_path / "recipe"), tmp_path, outcome="image")
    image = client.image(body["name"])
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
    client.untag(body["name"])


def test_what_the_engine_can_not_do_is_said(client: SdkClient) -> None:
    with pytest.raises(EngineError, match=f"{client.daemon.kind} could not save no/such:image"):
        client.save("no/such:image", Path("/dev/null"))
    assert client.image("no/such:image") is None
    client.untag("no/such:image")
    client.remove("no-such-container")
