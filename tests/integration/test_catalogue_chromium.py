"""The catalogue in a real browser: hostile texts of images stay inert, nothing is too wide."""

import hashlib
from pathlib import Path

import pytest

from dlcontainer.publish.catalogue import page
from dlcontainer.publish.tree import changes
from dlcontainer.publish.tree.generation import Deprecation
from tests.catalogues import HOSTILE, fill, hostile
from tests.integration.test_report_chromium import (
    Browser,
    browser,  # noqa: F401  a fixture
    widths,
)
from tests.trees import act, image_file, put


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root, images = tmp_path / "a root & <more>", tmp_path / "images"
    root.mkdir()
    versions = [f"1.{i}" for i in range(len(HOSTILE))]
    for version in versions:
        put(root, image_file(images, version.encode()), version)
    releases = {}
    for path in (root / "releases").iterdir():
        releases[hashlib.sha256((path / "image.sif").read_bytes()).hexdigest()] = path
    for version, text in zip(versions, HOSTILE, strict=True):
        hostile(releases[hashlib.sha256(version.encode()).hexdigest()], text)
    fill(releases[hashlib.sha256(b"1.0").hexdigest()], verdict="EQUIVALENT", text="w" * 5000)
    warning = Deprecation(message=HOSTILE[1], removal="2027-01-31")
    act(root, lambda tree: changes.deprecate(tree, "demo/1.1", warning))
    act(root, lambda tree: changes.set_default(tree, "demo/1.2"))
    return root


def test_hostile_texts_in_a_browser(browser: Browser, root: Path) -> None:  # noqa: F811
    shown = root / "current" / page.HTML
    # Without the page's own policy, which would refuse scripts and fetches: quoting alone must do.
    text = shown.read_text()
    bare = shown.resolve().with_name("bare.html")
    bare.write_text(
        text.replace(
            "default-src 'none'; style-src 'unsafe-inline'", "default-src * 'unsafe-inline'"
        )
    )
    for path in (shown, bare):
        dom, console = browser.show(path, "--dump-dom", "--virtual-time-budget=2000")
        assert console == []
        assert "taken" not in dom.partition("<title>")[2].partition("</title>")[0]
        assert dom.count("<script") == dom.count("<img") == 0
        assert dom.count("</section>") == len(HOSTILE) + 1


def test_nothing_is_wider_than_the_page(browser: Browser, root: Path) -> None:  # noqa: F811
    shown = (root / "current").resolve() / page.HTML
    assert widths(browser, shown, 1400) == [0, [], []]
    over, _, broken = widths(browser, shown, 420)
    assert (over, broken) == (0, [])


def test_links_of_the_live_page_lead_to_evidence(browser: Browser, root: Path) -> None:  # noqa: F811
    shown = root / "current" / page.HTML
    leads = """<script>document.title = [...document.querySelectorAll("details a")]
        .map((one) => new URL(one.href).pathname).join("|");</script></body>"""
    text = shown.read_text().replace("default-src 'none'", "default-src 'unsafe-inline'")
    own = shown.resolve().with_name("links.html")
    own.write_text(text.replace("</body>", leads))
    dom, _ = browser.show(root / "current/links.html", "--dump-dom")
    from urllib.parse import unquote

    paths = unquote(dom.partition("<title>")[2].partition("<")[0].replace("&amp;", "&"))
    found = paths.replace("&lt;", "<").replace("&gt;", ">").split("|")
    assert len(found) == 4 * len(HOSTILE)
    assert all(Path(path).is_file() for path in found), found
