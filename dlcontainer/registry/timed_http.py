"""HTTP whose every read waits no longer than a `TimeAllowance` says: status, headers, body alike.

The library below gives each read of a socket the same time again. Here all reads of an answer go
through one place: that of a proxy's answer to CONNECT too.
"""

import http.client
import io
import socket
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from dlcontainer.registry.patience import TimeAllowance


class _TimedReader(io.RawIOBase):
    """A socket's reading end; closing it lets the socket go."""

    def __init__(self, inner: socket.SocketIO, patience: TimeAllowance) -> None:
        super().__init__()
        self._inner, self._patience = inner, patience
        self._socket: socket.socket = inner._sock  # type: ignore[attr-defined]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._patience.read(lambda: self._socket.recv_into(buffer), self._socket.settimeout)

    def close(self) -> None:
        if not self.closed:
            self._inner.close()
        super().close()


def adapter(patience: TimeAllowance) -> HTTPAdapter:
    """Return a way to send whose answers are waited for with this patience."""

    class Response(http.client.HTTPResponse):
        def __init__(self, sock: socket.socket, *args: Any, **more: Any) -> None:
            super().__init__(sock, *args, **more)
            raw: Any = self.fp.detach()
            self.fp = io.BufferedReader(_TimedReader(raw, patience))

    class Plain(HTTPConnection):
        response_class = Response

    class Tls(HTTPSConnection):
        response_class = Response

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class TlsPool(HTTPSConnectionPool):
        ConnectionCls = Tls

    pools = {"http": PlainPool, "https": TlsPool}

    class Adapter(HTTPAdapter):
        def init_poolmanager(self, *args: Any, **more: Any) -> None:
            super().init_poolmanager(*args, **more)
            self.poolmanager.pool_classes_by_scheme = pools

        def proxy_manager_for(self, proxy: str, **more: Any) -> Any:
            manager = super().proxy_manager_for(proxy, **more)
            if not proxy.lower().startswith("socks"):
                manager.pool_classes_by_scheme = pools
            return manager

    return Adapter()
