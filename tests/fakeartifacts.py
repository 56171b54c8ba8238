"""A registry in this process that takes blobs and manifests, as docker-registry 2.8 does."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from dlcontainer.config.image_names import ImageReference
from tests.fakeregistry import sha256

NAME = "site/demo"


@dataclass(kw_only=True)
class FakeArtifacts:
    """Its blobs by digest, its manifests by tag and digest; `lists` where it lists referrers."""

    address: str = ""
    lists: bool = False
    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, bytes] = field(default_factory=dict)
    # called before a manifest is put: another may come first
    before_put: Callable[[str], None] = lambda _: None
    # called after a manifest was put
    after_put: Callable[[str], None] = lambda _: None
    asked: list[str] = field(default_factory=list)
    # the logins and tokens that came with them
    shown: list[str | None] = field(default_factory=list)

    def reference(self, tag: str = "1") -> ImageReference:
        return ImageReference(name=f"{self.address}/{NAME}", tag=tag, digest=None)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        url = urlsplit(handler.path)
        self.asked.append(f"{handler.command} {url.path}")
        self.shown.append(handler.headers.get("Authorization"))
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        path = url.path.removeprefix(f"/v2/{NAME}/")
        kind, _, name = path.partition("/")
        status, data, headers = 404, b"{}", {}
        if url.path == "/v2/":
            status = 200
        elif handler.command == "POST":
            status, headers = 202, {"Location": f"/v2/{NAME}/upload/1?_state=x"}
        elif handler.command == "PUT":
            status, headers = self._put(kind, name, body, parse_qs(url.query))
        elif kind == "tags":
            tags = [one for one in self.manifests if not one.startswith("sha256:")]
            status, data = 200, json.dumps({"name": NAME, "tags": tags}).encode()
        elif kind == "referrers" and self.lists:
            status, data = 200, self._referrers(name)
        elif kind in ("blobs", "manifests"):
            found = (self.blobs if kind == "blobs" else self.manifests).get(name)
            status, data = (404, b"{}") if found is None else (200, found)
        with contextlib.suppress(OSError):
            self._write(handler, status, data, headers)

    def _put(
        self, kind: str, name: str, body: bytes, query: dict[str, list[str]]
    ) -> tuple[int, dict[str, str]]:
        if kind == "upload":
            (digest,) = query["digest"]
            if sha256(body) != digest:
                return 400, {}
            self.blobs[digest] = body
            return 201, {}
        self.before_put(name)
        self.manifests[name] = self.manifests[sha256(body)] = body
        self.after_put(name)
        subject = json.loads(body).get("subject")
        return 201, {"OCI-Subject": subject["digest"]} if subject and self.lists else {}

    def _referrers(self, subject: str) -> bytes:
        entries = []
        for name, body in self.manifests.items():
            said = json.loads(body)
            if name.startswith("sha256:") and (said.get("subject") or {}).get("digest") == subject:
                kind = said["artifactType"]
                entries.append({"digest": name, "size": len(body), "artifactType": kind})
        return json.dumps({"manifests": entries}).encode()

    def _write(
        self, handler: BaseHTTPRequestHandler, status: int, data: bytes, headers: dict[str, str]
    ) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(data)


@contextlib.contextmanager
def serving() -> Iterator[FakeArtifacts]:
    """Serve until the end of the block."""
    fake = FakeArtifacts()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fake.answer(self)

        do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        fake.address = f"127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield fake
        finally:
            server.shutdown()
            thread.join()
