"""Threads that answer the kernel, and the end of their service: no request waits after it.

The kernel aborts a connection, and with it every request that still waits, once nobody holds its
descriptor any more. A thread in a blocking read holds it, whoever closes it meanwhile, and so does
each process that inherited it. Hence nobody blocks in a read: threads wait on an epoll, which
holds nothing, and nobody inherits.
"""

import os
import select
import threading
import time
from contextlib import suppress

from dlcontainer.lab.slowfs import fuse_protocol
from dlcontainer.lab.slowfs.passthrough import PassThrough

# As many requests can wait at a time: ranks of a node, and what is read ahead for them.
_THREADS = 96
_BUFFER = fuse_protocol.MAX_READ + 65_536
_DRAIN_S = 1.0


class Service:
    """Answers the requests of one device, which it owns, until the mount or `end` ends it."""

    def __init__(self, files: PassThrough, device: int, ended: threading.Event) -> None:
        self._files = files
        self._device = device
        self._ended = ended
        self._wake = os.eventfd(0)
        self._epoll = select.epoll()
        os.set_blocking(device, False)
        # One thread is woken for each request: an epoll's waiters stand in a line.
        self._epoll.register(device, select.EPOLLIN)
        self._epoll.register(self._wake, select.EPOLLIN)
        self._threads = [
            threading.Thread(target=self._answer, name="dlcontainer-slowfs", daemon=True)
            for _ in range(_THREADS)
        ]

    def start(self) -> None:
        """Begin to answer."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Abort the connection: whoever waits for an answer, now or later, gets an error."""
        self._ended.set()
        self._files.hurry()
        os.eventfd_write(self._wake, 1)
        # Not closed: a thread that is slow may still write its answer, and the number must not
        # come to mean another file.
        nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        os.dup2(nowhere, self._device, inheritable=False)
        os.close(nowhere)
        if self._drained():
            self._epoll.close()
            os.close(self._wake)
            os.close(self._device)
            self._files.close()

    def _drained(self) -> bool:
        """Wait for threads that answer; tell whether all have ended."""
        until = time.monotonic() + _DRAIN_S
        for thread in self._threads:
            if thread.ident is not None:  # `start` was interrupted before it
                thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _answer(self) -> None:
        """Answer requests until the mount is gone (ENODEV) or `end` took the device away."""
        while not self._ended.is_set():
            try:
                message = os.read(self._device, _BUFFER)
            except BlockingIOError:
                self._epoll.poll(maxevents=1)
                continue
            except FileNotFoundError:
                continue  # the client took its request back
            except OSError:
                self._ended.set()
                return
            if not message:
                return
            reply = self._files.answer(fuse_protocol.request(message))
            if reply is not None:
                with suppress(OSError):  # nobody waits for it any more
                    os.write(self._device, reply)
