"""A barrier of all ranks, on sockets: what it needs is said in ranks.py. Python >= 3.6."""

import os
import time

# Python's `socket` would import half of what an import probe is to measure.
import _socket
import ranks

_GREETING = 40  # bytes: 32 of the token, 8 of the rank's number
_GREETING_S = 10.0
_PAUSE_S = 0.005
_LOOK_S = 0.5


class Meeting(object):
    """A barrier: rank 0 waits for all others, then lets all go.

    Raises RanksError when a rank is gone or does not come in time.
    """

    def __init__(self, own, environ=os.environ):
        self.own, self.others, self.token = own, {}, environ.get("DLC_RANKS_TOKEN", "")
        host, _, port = environ.get("DLC_RANKS_MEET", "").rpartition(":")
        self.end = time.time() + (ranks.number(environ, "DLC_RANKS_PATIENCE") or 600)
        self._folder = environ.get("DLC_RANKS_RESULTS", "")
        self._next = time.time() + _LOOK_S
        try:
            if own.size > 1:
                self._gather(host, int(port)) if own.rank == 0 else self._join(host, int(port))
        except (OSError, ValueError) as problem:
            self.close()
            raise ranks.RanksError("waiting for the other ranks: {}".format(problem))

    def _gather(self, host, port):
        listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        try:
            listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
            # One node's ranks need no other's way in.
            listener.bind((host if host.startswith("127.") else "", port))
            listener.listen(self.own.size)
            while len(self.others) < self.own.size - 1:
                listener.settimeout(max(0.1, min(_LOOK_S, self.end - time.time())))
                try:
                    number = listener._accept()[0]
                except _socket.timeout:
                    if time.time() > self.end:
                        raise
                    self._look()
                else:
                    self._welcome(number)
        finally:
            listener.close()

    def _look(self):
        """Raise RanksError where a rank has ended without a result; looks now and then only."""
        if time.time() < self._next:
            return
        self._next = time.time() + _LOOK_S
        ended = gone(self._folder)
        if ended:
            self.close()
            raise ranks.RanksError("waiting for rank {}: it has ended".format(ended[0]))

    def _welcome(self, number):
        one = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM, 0, number)
        one.settimeout(_GREETING_S)
        try:
            said = _received(one, _GREETING)
        except OSError:
            said = b""
        rank = said[32:].strip()
        if said[:32] == self._word() and rank.isdigit() and 0 < int(rank) < self.own.size:
            one.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
            self.others[int(rank)] = one
        else:
            one.close()

    def _join(self, host, port):
        while True:
            one = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
            one.settimeout(max(0.1, self.end - time.time()))
            try:
                one.connect((host, port))
                break
            except _socket.gaierror as problem:
                one.close()
                if problem.errno == _socket.EAI_NONAME:
                    # No wait will make it known.
                    raise ranks.RanksError("rank 0 can't be found: no host {}".format(host))
                if time.time() > self.end:
                    raise
                time.sleep(_LOOK_S)
            except OSError:
                one.close()
                if time.time() > self.end:
                    raise
                self._look()
                time.sleep(_PAUSE_S)
        one.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        one.send(self._word() + "{:8d}".format(self.own.rank).encode())
        self.others[0] = one

    def _word(self):
        return self.token.ljust(32)[:32].encode()

    def wait(self):
        """Wait until every rank is here."""
        for rank in sorted(self.others):
            if self.own.rank:
                self._with(rank, self._send)
            if not self._with(rank, self._receive):
                self.close()
                raise ranks.RanksError("waiting for rank {}: it is gone".format(rank))
        if self.own.rank == 0:
            for rank in sorted(self.others):
                self._with(rank, self._send)

    def exchange(self, text):
        """Give what each rank says here, by rank; one line each."""
        if self.own.rank:
            self._with(0, lambda other: _tell(other, text))
            said = self._with(0, _told)
        else:
            lines = [text] + [self._with(rank, _told) for rank in sorted(self.others)]
            said = "\n".join(lines)
            for rank in sorted(self.others):
                self._with(rank, lambda other: _tell(other, said))
        lines = said.split("\n")
        if len(lines) != self.own.size:
            self.close()
            raise ranks.RanksError("waiting for other ranks: one is gone")
        return lines

    def _with(self, rank, act):
        other = self.others[rank]
        try:
            other.settimeout(max(0.1, self.end - time.time()))
            return act(other)
        except OSError as problem:
            self.close()
            raise ranks.RanksError("waiting for rank {}: {}".format(rank, problem))

    def _send(self, other):
        other.send(b".")

    def _receive(self, other):
        return _received(other, 1)

    def close(self):
        """End it."""
        for other in self.others.values():
            other.close()


def gone(folder):
    """Name the ranks of a launch that have ended without a result."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return [name[5:-5].lstrip("0") or "0" for name in sorted(names)
            if name.startswith("rank-") and name.endswith(".exit")]  # fmt: skip


def _tell(one, text):
    said = text.encode()
    one.sendall("{:8d}".format(len(said)).encode() + said)


def _told(one):
    length = _received(one, 8).strip()
    return _received(one, int(length)).decode() if length.isdigit() else ""


def _received(one, count):
    said = b""
    while len(said) < count:
        part = one.recv(count - len(said))
        if not part:
            return b""
        said += part
    return said
