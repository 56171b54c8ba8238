"""Wheels that come while the base is made, over a network of the tests' own."""

import http.server
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_interrupt import LIMIT, READY, Site, mounts, site  # noqa: F401
from tests.integration.world import World, write_tiny, write_wheel
from tests.processes import poll


@dataclass
class Index:
    """An index with one wheel: who asked for what; `slow` holds the wheel back until it is set."""

    url: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list)
    wheel: bytes = b""
    broken: bool = False
    free: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    made = Index(wheel=write_wheel(tmp_path / "made").read_bytes())
    made.free.set()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append((self.path, self.headers.get("User-Agent", "")))
            name = "dlctiny-1.0-py3-none-any.whl"
            body = f'<a href="/files/{name}">{name}</a>'.encode()
            if self.path.endswith(".whl"):
                made.free.wait(READY)
                body = made.wheel
            # The first to ask is the host's pip; the step's own comes later.
            code = 500 if made.broken and len(made.asked) == 1 else 200
            self.send_response(code)
            self.send_header("Content-Type", "text/html")
            self.send_header("Cache-Control", "max-age=3600")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_request(self, *_: object) -> None: ...

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    made.url = f"http://127.0.0.1:{httpd.server_port}/simple"
    yield made
    made.free.set()
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def using(world: World, index: Index, **more: Any) -> World:
    """Give a user whose pip knows this index alone, without retries."""
    found = {"PIP_INDEX_URL": index.url, "PIP_RETRIES": "0", "PIP_TRUSTED_HOST": "127.0.0.1"}
    environ = {name: value for name, value in world.environ.items() if "FIND_LINKS" not in name}
    alone = World(environ=environ, folder=world.folder, program=world.program)
    return alone.having(no_proxy="127.0.0.1", PIP_EXTRA_INDEX_URL="", **found, **more)


def of_wheels(index: Index) -> int:
    return sum(path.endswith(".whl") for path, _ in index.asked)


@pytest.mark.long  # a whole build; the tests below fetch beside a step too
def test_a_wheel_is_fetched_once_and_never_again(
    world: World, index: Index, tmp_path: Path
) -> None:
    user, recipe = using(world, index), write_tiny(tmp_path / "a recipe")
    built = user.build(recipe, tmp_path / "one", "--no-cache")
    assert of_wheels(index) == 1
    (wheel,) = built.recorded()["python_packages"]
    assert (wheel["name"], len(wheel["sha256"])) == ("dlctiny", 64)
    # In the image nobody asked: the wheel lay there.
    assert "Looking in links: /mnt/wheels/wheel" in built.log.read_text()
    index.asked.clear()
    again = user.build(recipe, tmp_path / "two", "--no-cache")
    assert of_wheels(index) == 0
    assert again.recorded()["python_packages"] == [wheel]


def test_where_it_does_not_come_the_step_fetches_it(
    world: World, index: Index, tmp_path: Path
) -> None:
    index.broken = True
    user = using(world, index, XDG_CACHE_HOME=world.environ["XDG_CACHE_HOME"])
    built = user.build(write_tiny(tmp_path / "a recipe"), tmp_path / "out", "--no-cache")
    assert of_wheels(index) == 1
    assert f"Looking in indexes: {index.url}" in built.log.read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nobody_fetches_on_when_the_build_is_ended(
    site: Site,  # noqa: F811
    index: Index,
    number: signal.Signals,
) -> None:
    index.free.clear()
    user = using(site.world, index, XDG_CACHE_HOME=site.folder / "cache")
    running = site.start(write_tiny(site.folder / "a recipe"), user)
    assert poll(lambda: of_wheels(index) == 1, READY), running.lines
    seen = running.descendants()
    assert any(" pip download " in text for text in seen.values()), seen
    os.kill(running.process.pid, number)
    assert poll(lambda: not running.alive(seen), LIMIT), running.alive(seen)
    assert mounts(site.mark) == []
    if number == signal.SIGINT:
        assert running.process.wait() == 130
        assert site.left() == []
