"""A mirror whose index names packages that it does not hold, with the real mmdebstrap and apt."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests

from dlcontainer.engines.apptainer import Apptainer
from tests.integration.test_emulation import RELEASES, sources
from tests.integration.world import World, isolated, write_bare
from tests.skips import skip

RELEASE = "bookworm"  # of the bare recipe
LACKED = "/libc6_"


@dataclass(kw_only=True)
class Mirror:
    """Forwards to a real mirror, signatures and all, and lacks a package so many times."""

    upstream: str
    line: str = ""
    lacks: int = 0
    # Cache-Control of each request for the package.
    asked: list[str] = field(default_factory=list)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        if LACKED in handler.path:
            self.asked.append(handler.headers.get("Cache-Control", ""))
            if len(self.asked) <= self.lacks:
                handler.send_error(404)
                return
        with requests.get(f"{self.upstream}{handler.path}", timeout=120) as got:
            handler.send_response(got.status_code)
            handler.send_header("Content-Length", str(len(got.content)))
            handler.end_headers()
            handler.wfile.write(got.content)

    def heal(self, *, lacks: int) -> None:
        self.asked.clear()
        self.lacks = lacks


@contextmanager
def forwarding(line: str) -> Iterator[Mirror]:
    words = line.split()
    uri = words[-3]
    mirror = Mirror(upstream=uri)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            mirror.answer(self)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        mirror.line = line.replace(uri, f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield mirror
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    listed = sources(RELEASE)
    if not listed or RELEASE not in RELEASES:
        skip("the host has no mirror of Debian's", elsewhere="Debian or Ubuntu")
    with forwarding(listed[0]) as forward:
        yield forward


@pytest.fixture
def user(tmp_path: Path, engine: Apptainer) -> World:
    return isolated(tmp_path / "user", tmp_path / "cache").having(no_proxy="127.0.0.1")


@pytest.mark.long  # tests/unit/packages/apt has what such a mirror says
def test_a_mirror_that_lacks_a_package(user: World, mirror: Mirror, tmp_path: Path) -> None:
    recipe, output = write_bare(tmp_path / "recipe"), tmp_path / "out"
    argv = ("build", recipe, "--site", "local", "--set", f'site.routing.apt=["{mirror.line}"]')

    def build(code: int) -> str:
        done = user.run(*argv, "-o", output, code=code)
        return " ".join(done.stderr.split())

    mirror.heal(lacks=99)
    said = build(5)
    assert "the mirror's index lists packages that the mirror does not have" in said
    assert "127.0.0.1 does not serve libc6_" in said
    assert [path.name for path in output.iterdir()] == ["bare-1.0-local.failed.log"]
    assert list(Path(user.environ["TMPDIR"]).iterdir()) == []
    assert not list((tmp_path / "cache").rglob("base.sqfs"))
    # Asked twice, the second time past all caches.
    assert [value for value in mirror.asked if "no-cache" in value] == mirror.asked[-1:]
    assert len(mirror.asked) == 2
    mirror.heal(lacks=1)
    said = build(0)
    assert "trying again with a fresh index" in said
    # The mirror lacks it once more, when a new base is due.
    (base,) = (tmp_path / "cache").rglob("base.sqfs")
    then = time.time() - 3 * 24 * 3600
    os.utime(base, (then, then))
    for path in output.iterdir():
        path.unlink()
    mirror.heal(lacks=99)
    said = build(0)
    assert ", without later security fixes" in said
