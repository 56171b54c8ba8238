"""A registry that drips: each part of its answer has an end, and a layer a least rate."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.config.image_names import ImageReference
from dlcontainer.errors import DlcontainerError
from dlcontainer.registry.artifacts import ArtifactClient
from dlcontainer.registry.connection import RegistryAccess
from dlcontainer.registry.patience import Rate, TimeAllowance, TooSlowError
from dlcontainer.registry.upload import Upload

DIGEST = f"sha256:{'ab' * 32}"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n"


@dataclass
class Clock:
    """A clock that the waits of a test move."""

    now: float = 0.0
    timeouts: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now


def patience(clock: Clock, *, silence_s: float = 20) -> TimeAllowance:
    return TimeAllowance(silence_s=silence_s, clock=clock)


def drips(clock: Clock, every_s: float, asked: TimeAllowance, size: int = 1) -> int:
    """Count the reads until it is too slow: a few bytes come now and then."""

    def receive() -> int:
        if every_s > clock.timeouts[-1]:
            clock.now += clock.timeouts[-1]
            raise TimeoutError
        clock.now += every_s
        return size

    for count in range(100_000):
        try:
            asked.read(receive, clock.timeouts.append)
        except TimeoutError:
            return count
    return -1


def test_an_answer_has_an_end_whatever_drips() -> None:
    clock = Clock()
    asked = patience(clock)
    asked.begin(120)
    assert drips(clock, 2, asked) == 60
    assert (clock.now, asked.over) == (120, "did not send everything within 120 s")
    # The next question has its own time.
    asked.begin(120)
    assert drips(clock, 3, asked) == 40


def test_silence_is_not_longer_than_it_was() -> None:
    clock = Clock()
    asked = patience(clock)
    asked.begin(120)
    assert drips(clock, 21, asked) == 0
    assert (clock.now, asked.over) == (20, None)


def test_a_layer_has_a_rate_and_no_end() -> None:
    clock = Clock()
    asked = patience(clock)
    asked.begin(120)
    asked.flow(Rate(least=1000, over_s=300), None)
    # 2 kB each second, for 100,000 s.
    assert drips(clock, 1, asked, size=2000) == -1
    asked.begin(120)
    asked.flow(Rate(least=1000, over_s=300), None)
    assert drips(clock, 1, asked, size=999) == 299
    assert asked.over == "sends less than 1000 bytes a second: 299700 bytes in 300 s"
    # In a block that has an end, the layer has it too.
    asked.begin(120)
    asked.flow(Rate(least=1000, over_s=300), 50)
    assert drips(clock, 1, asked, size=2000) == 50


def test_what_is_done_with_the_bytes_is_no_waiting() -> None:
    clock = Clock()
    asked = patience(clock)
    asked.begin(10)
    for _ in range(100):
        asked.read(lambda: 1, clock.timeouts.append)
        clock.now += 3600


class Dripping:
    """A registry that sends `head`, then a byte of `drop` each time the other side may wait."""

    def __init__(self, head: bytes, drop: bytes) -> None:
        self.head, self.drop = head, drop
        self.ended = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"

    def serve(self) -> None:
        while not self.ended.is_set():
            with contextlib.suppress(OSError):
                self._answer()

    def _answer(self) -> None:
        with self.listener.accept()[0] as link:
            request = link.recv(65536)
            if request.startswith(b"GET /v2/ "):
                link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                request = link.recv(65536)
            link.sendall(self.head)
            while not self.ended.wait(0.02):
                link.sendall(self.drop)


@contextlib.contextmanager
def dripping(head: bytes, drop: bytes) -> Iterator[Dripping]:
    server = Dripping(head, drop)
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield server
    finally:
        server.ended.set()
        # Wakes an accept.
        with contextlib.suppress(OSError), socket.create_connection(server.listener.getsockname()):
            pass
        thread.join()
        server.listener.close()


def client(server: Dripping, **times: Any) -> ArtifactClient:
    reference = ImageReference(name=f"{server.address}/site/demo", tag="1", digest=None)
    return ArtifactClient(reference=reference, access=RegistryAccess(**times))


@pytest.mark.parametrize(
    ("head", "drop"),
    [
        (b"", b"H"),  # the status line
        (b"HTTP/1.1 200 OK\r\n", b"X"),  # a header
        (b"HTTP/1.1 302 Found\r\nLocation: /v2/else\r\n", b"X"),  # a redirect's
        (HEAD + b"\r\n", b"X"),  # the body
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),  # a chunk's length
        (b"HTTP/1.1 100 Continue\r\n", b"X"),
    ],
)
def test_a_registry_that_drips_lets_go(head: bytes, drop: bytes) -> None:
    with (
        dripping(head, drop) as server,
        client(server, answer_s=0.5) as asking,
        pytest.raises(DlcontainerError) as caught,
    ):
        asking.manifest("1")
    assert "did not send everything within 0.5 s" in str(caught.value) or "no HTTP answer" in str(
        caught.value
    )
    if head:
        assert "did not send everything within 0.5 s" in str(caught.value)


def test_a_layer_that_drips_ends(tmp_path: Path) -> None:
    times = {"least_rate": 1e6, "least_over_s": 0.5}
    with dripping(HEAD + b"\r\n", b"X" * 10) as server, client(server, **times) as asking:
        asking._greet()
        with pytest.raises(DlcontainerError) as caught:
            asking.save_blob(DIGEST, 5_000_000, tmp_path / "layer")
    assert "sends less than 1e+06 bytes a second" in str(caught.value)


def too_slow(sent: Upload, clock: Clock) -> None:
    for _ in range(30):
        sent.read(16_384)
        clock.now += 17


def test_an_upload_that_nobody_takes_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("dlcontainer.registry.upload.time.monotonic", clock)
    path = tmp_path / "x"
    path.write_bytes(bytes(1_000_000))
    with path.open("rb") as file:
        sent = Upload(file=file, size=1_000_000, rate=Rate(least=1000, over_s=300))
        for _ in range(30):
            assert len(sent.read(16_384)) == 16_384
            clock.now += 16  # just over 1 kB a second
        with pytest.raises(TooSlowError):
            too_slow(sent, clock)
        assert "takes less than 1000 bytes a second" in str(sent.over)


def test_a_block_of_questions_has_an_end() -> None:
    with dripping(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", b"") as server:
        with (
            client(server) as asking,
            asking.within(0),
            pytest.raises(DlcontainerError, match="took too long to answer"),
        ):
            asking.manifest("1")
        with client(server) as asking:
            assert asking.manifest("1") is None
