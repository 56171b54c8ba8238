"""The stand-in without a mount: the protocol's bytes, what is counted, the queue, the profiles."""

import errno
import os
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.errors import ChecksFailedError, UsageError
from dlcontainer.lab.slowfs import fuse_protocol, mounting
from dlcontainer.lab.slowfs.cache_profiles import PROFILES
from dlcontainer.lab.slowfs.counters import Counters
from dlcontainer.lab.slowfs.fuse_protocol import Opcode, Request
from dlcontainer.lab.slowfs.passthrough import Delay, PassThrough
from dlcontainer.lab.slowfs.server import StandIn
from dlcontainer.lab.slowfs.server_queue import ServerQueue, ServerRates
from dlcontainer.system.process import ProcessRunner

HEAD = 16  # of a reply


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/a.pyc").write_bytes(b"x" * 100)
    (tmp_path / "link").symlink_to("pkg/a.pyc")
    return tmp_path


class Client:
    """Asks as the kernel would."""

    def __init__(self, root: int, profile: str) -> None:
        self.counters = Counters()
        queue = ServerQueue.alone(ServerRates())
        self.files = PassThrough(root, PROFILES[profile], Delay(), queue, self.counters)

    def ask(
        self, opcode: int, node: int = fuse_protocol.ROOT, body: bytes = b""
    ) -> tuple[int, bytes]:
        asked = Request(opcode=opcode, unique=9, node=node, client=77, body=body)
        reply = self.files.answer(asked)
        assert reply is not None
        size, error, unique = struct.unpack_from("<IiQ", reply)
        assert (size, unique) == (len(reply), 9)
        return -error, reply[HEAD:]

    def node(self, *names: str) -> int:
        node = fuse_protocol.ROOT
        for name in names:
            error, body = self.ask(Opcode.LOOKUP, node, name.encode() + b"\0")
            assert error == 0
            node = struct.unpack_from("<Q", body)[0]
        return node


@pytest.fixture
def client(tree: Path, request: pytest.FixtureRequest) -> Iterator[Client]:
    root = os.open(tree, os.O_RDONLY)
    yield Client(root, getattr(request, "param", "lustre"))
    os.close(root)


def test_sizes_are_the_kernels(client: Client) -> None:
    # include/uapi/linux/fuse.h: fuse_entry_out, fuse_attr_out, fuse_open_out, fuse_init_out.
    assert len(client.ask(Opcode.LOOKUP, body=b"pkg\0")[1]) == 128
    assert len(client.ask(Opcode.GETATTR)[1]) == 104
    assert len(client.ask(Opcode.OPEN, client.node("pkg", "a.pyc"), bytes(8))[1]) == 16
    assert len(client.ask(Opcode.STATFS)[1]) == 80
    init = struct.pack("<IIII", 7, 41, 131072, 0xFFFFFFFF)
    assert len(client.ask(Opcode.INIT, 0, init)[1]) == 64


def test_an_old_kernel_is_refused(client: Client) -> None:
    error, _ = client.ask(Opcode.INIT, 0, struct.pack("<IIII", 7, 12, 0, 0))
    assert error == errno.EPROTO


def test_every_operation_is_counted_once(client: Client) -> None:
    node = client.node("pkg", "a.pyc")
    _, handle = client.ask(Opcode.OPEN, node, bytes(8))
    number = handle[:8]
    _, data = client.ask(Opcode.READ, node, number + struct.pack("<QIIQII", 40, 4096, 0, 0, 0, 0))
    assert data == b"x" * 60
    client.ask(Opcode.RELEASE, node, number + bytes(16))
    assert client.ask(Opcode.READLINK, client.node("link"))[1] == b"pkg/a.pyc"
    client.ask(Opcode.LOOKUP, body=b"nothing\0")
    seen = client.counters.counted()
    assert {name: number for name, number in seen.operations.items() if number} == {
        "lookup": 3,
        "failed_lookup": 1,
        "open": 1,
        "readlink": 1,
        "read": 1,
    }
    assert (seen.metadata, seen.reads, seen.bytes) == (6, 1, 60)
    assert seen.files == ("pkg/a.pyc",)
    snapshot = client.counters.snapshot()
    assert snapshot["clients"] == {"77": {"metadata": 6, "read": 1}}
    assert snapshot["suffixes"] == {".pyc": 1}


def test_the_last_empty_readdir_is_fuses_own(client: Client) -> None:
    _, handle = client.ask(Opcode.OPENDIR)
    names, offset = [], 0
    while True:
        body = handle[:8] + struct.pack("<QIIQII", offset, 4096, 0, 0, 0, 0)
        _, packed = client.ask(Opcode.READDIR, body=body)
        if not packed:
            break
        while packed:
            _, offset, length, _ = struct.unpack_from("<QQII", packed)
            names.append(packed[24 : 24 + length].decode())
            packed = packed[24 + length + -(24 + length) % 8 :]
    assert sorted(names) == ["link", "pkg"]
    operations = client.counters.counted().operations
    assert (operations["opendir"], operations["readdir"]) == (1, 1)


def test_it_is_read_only(client: Client) -> None:
    flags = struct.pack("<II", os.O_RDWR, 0)
    assert client.ask(Opcode.OPEN, client.node("pkg", "a.pyc"), flags)[0] == errno.EROFS
    mkdir = 9
    assert client.ask(mkdir, body=bytes(8) + b"new\0")[0] == errno.ENOSYS


@pytest.mark.parametrize("client", ["lustre", "nfs", "gpfs"], indirect=True)
def test_profiles_are_what_clients_are_told(client: Client, request: pytest.FixtureRequest) -> None:
    profile = PROFILES[request.node.callspec.params["client"]]
    _, found = client.ask(Opcode.LOOKUP, client.node("pkg"), b"a.pyc\0")
    _, _, entry_s, attr_s, *_ = struct.unpack_from("<QQQQII", found)
    assert (entry_s, attr_s) == (profile.entry_s, profile.attr_s)
    error, missing = client.ask(Opcode.LOOKUP, body=b"nothing\0")
    if profile.negative_s:
        assert error == 0
        node, _, kept_s, *_ = struct.unpack_from("<QQQQII", missing)
        assert (node, kept_s) == (0, profile.negative_s)
    else:
        assert error == errno.ENOENT


def test_a_queue_serves_one_after_the_other() -> None:
    queue = ServerQueue.alone(ServerRates(rate=100, service="constant"), clock=lambda: 50.0)
    assert [queue.operation() for _ in range(3)] == pytest.approx([50.01, 50.02, 50.03])
    # Reads have a queue of their own.
    bandwidth = ServerQueue.alone(ServerRates(rate=100, bandwidth=1e6), clock=lambda: 50.0)
    assert bandwidth.transfer(500_000) == pytest.approx(50.5)


def test_a_queue_that_was_idle_serves_at_once() -> None:
    moment = [0.0]
    queue = ServerQueue.alone(ServerRates(rate=10, service="constant"), clock=lambda: moment[0])
    assert queue.operation() == pytest.approx(0.1)
    moment[0] = 5.0
    assert queue.operation() == pytest.approx(5.1)


def test_exponential_service_keeps_the_rate() -> None:
    queue = ServerQueue.alone(ServerRates(rate=1000), clock=lambda: 0.0)
    last = [queue.operation() for _ in range(20_000)][-1]
    assert last == pytest.approx(20.0, rel=0.05)


def test_mounts_share_a_server_through_a_file(tmp_path: Path) -> None:
    speed = ServerRates(rate=1, service="constant")
    one, two = (ServerQueue.shared(speed, tmp_path / "server") for _ in range(2))
    first = one.operation()
    assert two.operation() == pytest.approx(first + 1, abs=0.5)
    assert one.operation() == pytest.approx(first + 2, abs=0.5)


def test_no_booking_is_lost_between_threads(tmp_path: Path) -> None:
    speed = ServerRates(rate=1, service="constant")
    queues = [ServerQueue.shared(speed, tmp_path / "server") for _ in range(4)]
    start = queues[0].operation()
    threads = [
        threading.Thread(target=lambda queue=queue: [queue.operation() for _ in range(50)])
        for queue in queues
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert queues[0].operation() == pytest.approx(start + 201, abs=0.01)


def test_a_server_file_of_another_kind_speed_or_boot(tmp_path: Path) -> None:
    path = tmp_path / "server"
    path.write_text("my notes, longer than any state of a server's would ever have to be\n" * 4)
    with pytest.raises(UsageError, match="not the file of a server"):
        ServerQueue.shared(ServerRates(rate=5), path)
    path.unlink()
    ServerQueue.shared(ServerRates(rate=5), path).operation()
    with pytest.raises(UsageError, match="5 operations/s"):
        ServerQueue.shared(ServerRates(rate=6), path)
    raw = bytearray(path.read_bytes())
    raw[8:44] = b"0" * 36
    path.write_bytes(raw)
    # Of another boot: its clock says nothing any more, and its speed binds nobody.
    ServerQueue.shared(ServerRates(rate=6), path).operation()
    with pytest.raises(UsageError, match="--server"):
        ServerQueue.shared(ServerRates(), tmp_path / "no/folder")


def test_no_fuse_here(tmp_path: Path) -> None:
    with pytest.raises(ChecksFailedError, match="no FUSE here") as caught:
        mounting.helper({"PATH": "/usr/bin"}, tmp_path / "fuse")
    assert "--with strace" in str(caught.value)


def test_no_fusermount_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounting, "find_program", lambda name, environ: None)
    with pytest.raises(ChecksFailedError, match="no fusermount3 here"):
        mounting.helper({"PATH": ""}, tmp_path)


@pytest.mark.parametrize("point", ["inside", "missing"])
def test_places_that_make_no_sense(tree: Path, point: str) -> None:
    if point == "inside":
        (tree / point).mkdir()
    stand_in, runner = StandIn(source=tree), ProcessRunner(environ={})
    with pytest.raises(UsageError), stand_in.mounted(tree / point, runner):
        pass


def test_reads_that_are_under_way_together_are_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, now = Counters(), [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    for _ in range(4):
        counts.add("read", 1, b"x", 10)
    # Two one after the other, then two at once: three turns of a second.
    for _ in range(2):
        with counts.reading():
            now[0] += 1
    with counts.reading(), counts.reading():
        now[0] += 1
    assert counts.counted().read_turns == pytest.approx(3)
    assert Counters().counted().read_turns == 0
