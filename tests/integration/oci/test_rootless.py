"""Docker and Podman of an ordinary user with subordinate ids; and what a user without is told."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.engines import oci_socket
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.oci import OCI_KINDS, OciKind
from dlcontainer.system.machine import find_program
from tests.integration import accounts
from tests.integration.accounts import NOBODY, Account
from tests.integration.oci import daemons
from tests.integration.world import World, missing, write_tiny, write_wheel

NAME = "dlcontainer-test"
# slirp4netns, rootless Docker's network, needs it; distributions let everybody write to it.
TUN = Path("/dev/net/tun")


@pytest.fixture(scope="module")
def account() -> Iterator[Account]:
    with accounts.with_ids(NAME) as made:
        yield made


@contextlib.contextmanager
def writable(device: Path) -> Iterator[None]:
    mode = device.stat().st_mode
    device.chmod(0o666)
    try:
        yield
    finally:
        device.chmod(mode)


@pytest.mark.long
@pytest.mark.parametrize("kind", OCI_KINDS)
def test_an_ordinary_user_builds_and_validates(
    kind: OciKind, account: Account, engine: Apptainer
) -> None:
    with contextlib.ExitStack() as stack:
        if kind == "docker":
            stack.enter_context(writable(TUN))
        user = stack.enter_context(accounts.world_of(account, engine))
        service = stack.enter_context(daemons.running(kind, account))
        client = oci_socket.connect(kind, service.variables, account.uid)
        assert client.daemon.rootless is True
        assert client.daemon.owner == NAME
        client.close()
        user = user.having(**service.variables)
        lines = doctor(user, kind)
        assert f"without root; images in {client.daemon.storage}" in lines[kind]
        assert lines[kind].startswith("ok ")
        assert f"{kind} ids" not in lines
        build(user, account, kind)


def build(user: World, account: Account, kind: OciKind) -> None:
    recipe = accounts.given(account, write_tiny(user.folder / "a tiny recipe"))
    wheels = accounts.given(account, write_wheel(user.folder / "wheels").parent)
    found = f"{user.environ.get('PIP_FIND_LINKS', '')} {wheels}".strip()
    user = user.having(PIP_FIND_LINKS=found)
    built = user.build(recipe, user.folder / "out", "--engine", kind)
    assert built.recorded()["oci"]["engine"].startswith(f"{kind} ")
    checks = user.checks(built.image)
    assert all(ok for ok, _ in checks.values())
    assert checks["verify"] == (True, "answer: answer 42")
    assert list(Path(user.environ["TMPDIR"]).iterdir()) == []
    assert built.image.stat().st_uid == account.uid


def doctor(user: World, kind: OciKind) -> dict[str, str]:
    """Give doctor's lines by name, each with what to type."""
    found: dict[str, str] = {}
    name = ""
    for line in user.run("doctor", "--engine", kind, code=None).stdout.splitlines():
        if line[:9].strip() in {"ok", "warning", "error"}:
            name = line[9:].partition(": ")[0]
        found[name] = found.get(name, "") + line + "\n"
    return found


def test_who_has_no_subordinate_ids_is_told_what_to_type(engine: Apptainer) -> None:
    with accounts.world_of(NOBODY, engine) as user, daemons.running("podman", NOBODY) as service:
        lines = doctor(user.having(**service.variables), "podman")
    assert lines["podman ids"].startswith("warning ")
    assert "usermod --add-subuids 100000-165535 --add-subgids 100000-165535" in lines["podman ids"]
    assert "podman system migrate" in lines["podman ids"]


def test_whose_podman_does_not_run_is_told_what_to_type(engine: Apptainer) -> None:
    if find_program("podman", os.environ) is None:
        missing("podman")
    with accounts.world_of(NOBODY, engine) as user:
        lines = doctor(user.having(XDG_RUNTIME_DIR=user.folder), "podman")
    assert "podman is not running here" in lines["podman"]
    assert "systemctl --user start podman.socket" in lines["podman"]
