"""A delaying proxy on loopback: each connection talks to a program of its own, late both ways."""

import contextlib
import queue
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence

_CHUNK = 1 << 18


def _carry(read: Callable[[int], bytes], write: Callable[[bytes], object], delay_s: float) -> None:
    """Carry bytes in order, each as late as the delay says; returns at the end of the stream."""
    waiting: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

    def deliver() -> None:
        while True:
            due, data = waiting.get()
            time.sleep(max(0.0, due - time.monotonic()))
            if not data:
                return
            try:
                write(data)
            except OSError:
                return

    sender = threading.Thread(target=deliver, daemon=True)
    sender.start()
    data = b"-"
    while data:
        try:
            data = read(_CHUNK)
        except OSError:
            data = b""
        waiting.put((time.monotonic() + delay_s, data))
    sender.join()


def _serve(client: socket.socket, argv: Sequence[str], delay_s: float) -> None:
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with (
        client,
        subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as server,
    ):
        assert server.stdin is not None
        assert server.stdout is not None
        there = threading.Thread(
            target=_carry, args=(client.recv, server.stdin.write, delay_s), daemon=True
        )
        there.start()
        _carry(server.stdout.read, client.sendall, delay_s)
        server.kill()


@contextlib.contextmanager
def proxy(argv: Sequence[str], round_trip_s: float) -> Iterator[int]:
    """Listen on a port of loopback; each connection gets a program, half the delay each way."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(
                    target=_serve, args=(client, argv, round_trip_s / 2), daemon=True
                ).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            # Wakes who waits in accept; closing alone does not.
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
