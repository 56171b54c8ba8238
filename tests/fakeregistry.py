"""A registry in this process, on loopback, that says what a test tells it to, also lies."""

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from dlcontainer.config.image_names import ImageReference
from dlcontainer.registry.client import MEDIA_TYPES

OCI_INDEX, DOCKER_LIST, OCI_MANIFEST, DOCKER_MANIFEST = MEDIA_TYPES
NAME = "base/os"


def sha256(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """One answer; `cut` bytes of the body are kept back, `silence_s` lies before the last one."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int = 0
    silence_s: float = 0.0
    chunked: bool = False


@dataclass(kw_only=True)
class FakeRegistry:
    """Replies by path; a path that is not there is a 404. What was asked is noted."""

    address: str = ""
    replies: dict[str, Reply] = field(default_factory=dict)
    # asked without this header value, it answers `challenge`
    token: str | None = None
    challenge: str = ""
    asked: list[tuple[str, str, Mapping[str, str]]] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def put(self, name: str, body: bytes, **more: str) -> str:
        """Put a manifest under a tag and its digest; give the digest."""
        digest = sha256(body)
        headers = {"Docker-Content-Digest": digest, **more}
        for key in (name, digest):
            path = f"/v2/{NAME}/manifests/{key}"
            self.replies[path] = Reply(body=body, headers=headers)
        return digest

    def put_image(self, arch: str, tag: str = "1", *, kind: str = OCI_MANIFEST) -> str:
        config = json.dumps({"architecture": arch, "os": "linux"}).encode()
        self.replies[f"/v2/{NAME}/blobs/{sha256(config)}"] = Reply(body=config)
        manifest = {"mediaType": kind, "config": {"digest": sha256(config)}, "layers": []}
        return self.put(tag, json.dumps(manifest).encode())

    def put_index(self, *arches: str, tag: str = "1", kind: str = OCI_INDEX) -> str:
        entries: list[object] = [
            {
                "digest": self.put_image(arch, f"only-{arch}"),
                "platform": {"os": "linux", "architecture": arch},
            }
            for arch in arches
        ]
        # An attestation, as build tools add them.
        unknown = {"os": "unknown", "architecture": "unknown"}
        entries.append({"digest": f"sha256:{'0' * 64}", "platform": unknown})
        return self.put(tag, json.dumps({"mediaType": kind, "manifests": entries}).encode())

    def reference(self, *, tag: str | None = "1", digest: str | None = None) -> ImageReference:
        return ImageReference(name=f"{self.address}/{NAME}", tag=tag, digest=digest)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        path = handler.path.split("?")[0]
        self.asked.append((handler.command, handler.path, dict(handler.headers)))
        reply = self.replies.get(path, Reply(status=404, body=b"{}"))
        needs = self.token is not None and path.startswith("/v2/")
        if needs and handler.headers.get("Authorization") != f"Bearer {self.token}":
            reply = Reply(status=401, headers={"WWW-Authenticate": self.challenge})
        with contextlib.suppress(OSError):  # who asked may be gone by now
            self._write(handler, reply)

    def _write(self, handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        handler.send_response(reply.status)
        for name, value in reply.headers.items():
            handler.send_header(name, value)
        if not reply.chunked:
            handler.send_header("Content-Length", str(len(reply.body)))
        handler.end_headers()
        if handler.command == "HEAD":
            return
        body = reply.body[: len(reply.body) - reply.cut]
        handler.wfile.write(body[:-1])
        handler.wfile.flush()
        self.ended.wait(reply.silence_s)
        handler.wfile.write(body[-1:])


@contextlib.contextmanager
def serving() -> Iterator[FakeRegistry]:
    """Serve until the end of the block."""
    fake = FakeRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fake.answer(self)

        do_HEAD = do_POST = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        fake.address = f"127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield fake
        finally:
            fake.ended.set()
            server.shutdown()
            thread.join()
