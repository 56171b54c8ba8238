"""The book, built: its pages, its search, its schemas; and faults, which end the build."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.test_report_chromium import (
    Browser,
    browser,  # noqa: F401  a fixture
    widths,
)
from tests.values import ROOT
from tools.book import commands

DOCS = ROOT / "docs"
PAGES = ("index", "start/index", "reference/commands", "reference/commands/bench")


def build(out: Path, *options: object) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "tools.book", "-o", str(out), *map(str, options)]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("book") / "it's a book"
    run = build(out)
    assert (run.returncode, run.stderr) == (0, "")
    assert f"{out}/index.html" in run.stdout
    return out


def test_the_site_has_each_page_and_fetches_nothing(book: Path) -> None:
    pages = [path.relative_to(DOCS).with_suffix("") for path in DOCS.rglob("*.md")]
    made = {Path("reference/commands", command.words[0]) for command in commands.every()}
    assert [name for name in (*pages, *made) if not (book / f"{name}.html").is_file()] == []
    for page in book.rglob("*.html"):
        text = page.read_text()
        assert (
            re.findall(r'<(?:script|link|img|iframe)[^>]*(?:src|href)="(?:https?:)?//', text) == []
        )
        assert str(ROOT) not in text
    sheets = [path.read_text() for path in book.rglob("*.css")]
    assert [text for text in sheets if re.search(r"url\(['\"]?(?:https?:)?//", text)] == []
    assert any("prefers-color-scheme" in text for text in sheets)


def test_the_sidebar_has_the_shelves_in_order(book: Path) -> None:
    text = (book / "index.html").read_text()
    tree = text.partition('class="sidebar-tree"')[2].partition("</aside>")[0]
    links = re.findall(r'toctree-l1[^>]*><a class="reference internal" href="(\w+)/index', tree)
    assert links[:2] + links[-1:] == ["start", "use", "measurements"]
    assert len(links) == 9


def test_schemas_are_files_of_the_site(book: Path) -> None:
    page = book / "reference/schemas.html"
    files = re.findall(r'href="([^"]+\.schema\.json)"', page.read_text())
    assert len(files) >= 7
    for name in files:
        assert json.loads((page.parent / name).read_text())["$schema"].endswith("2020-12/schema")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_telephone_and_a_desk(browser: Browser, book: Path, name: str) -> None:  # noqa: F811
    page = book / f"{name}.html"
    for size in (420, 1400):
        over, _, _ = widths(browser, page, size)
        assert over == 0


_FRAME = """<iframe src="search.html?q=rollback" style="width:900px;height:900px"></iframe>
<script>setTimeout(() => { const shown = document.querySelector("iframe").contentDocument;
const links = [...shown.querySelectorAll("#search-results li a")];
document.title = links.map((link) => link.href).join();
}, 15000);</script>"""


def test_the_search_finds_a_word_from_the_disk(browser: Browser, book: Path) -> None:  # noqa: F811
    frame = book / "frame.html"
    frame.write_text(_FRAME)
    flags = ("--dump-dom", "--virtual-time-budget=30000", "--allow-file-access-from-files")
    dom, _ = browser.show(frame, *flags)
    assert "reference/commands/modules.html" in dom.partition("<title>")[2].partition("<")[0]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose pages may be changed."""
    root = tmp_path / "check out"
    shutil.copytree(DOCS, root / "docs")
    for path in ROOT.iterdir():
        if path.name != "docs" and not path.name.startswith("."):
            (root / path.name).symlink_to(path)
    return root


def plant(root: Path, text: str) -> int:
    """Add lines to a page; give the number of the first of them."""
    page = root / "docs/reference/schemas.md"
    before = page.read_text()
    page.write_text(f"{before}{text}")
    return before.count("\n") + 1


def test_links_that_lead_nowhere_end_the_build(tmp_path: Path, checkout: Path) -> None:
    line = plant(checkout, "\n[a](../jobs.md) and\n[b](commands.md#no-such-heading).\n")
    run = build(tmp_path / "out", "--root", checkout)
    assert run.returncode == 1
    assert f"docs/reference/schemas.md:{line + 1}: ../jobs.md is not there" in run.stderr
    assert f"docs/reference/schemas.md:{line + 2}: docs/reference/commands.md has no" in run.stderr
    assert not (tmp_path / "out").exists()


_SITE = """import sys; from pathlib import Path; from tools.book import site
print(*site.build(*map(Path, sys.argv[1:])), sep="\\n")"""


def tiny(folder: Path, **pages: str) -> list[str]:
    """Build a site of a few pages in FOLDER/html; give what Sphinx warns of."""
    source = folder / "prepared/source"
    (source / "use").mkdir(parents=True)
    for name, text in pages.items():
        (source / f"{name.replace('_', '/')}.md").write_text(text)
    argv = [sys.executable, "-c", _SITE, *map(str, (source, folder / "html", folder / "docs"))]
    run = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in run.stdout.splitlines() if line]


def test_what_sphinx_alone_sees_is_told_at_its_line_of_docs(tmp_path: Path) -> None:
    index = "# Book\n\nA line.\n\n##### Too deep\n\n[a](gone.md)\n"
    lines = tiny(tmp_path, index=index, lost="# In no list\n")
    assert {line.partition(": WARNING")[0] for line in lines} == {
        "docs/index.md:5", "docs/index.md:7", "docs/lost.md",
    }  # fmt: skip


def test_a_file_outside_docs_is_shown_as_its_path(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/x.py").touch()
    index = "# Book\n\n[A](use/a.md)\n\n```{toctree}\nuse/a\n```\n"
    page = "# A\n\n[the way](../../tools/x.py), [x.py](../../tools/x.py#L3)\n[tools](../../tools)\n"
    assert tiny(tmp_path, index=index, use_a=page) == []
    text = (tmp_path / "html/use/a.html").read_text()
    assert text.count('<span class="pre">tools/x.py</span>') == 2
    assert "the way (<code" in text
    assert '<span class="pre">tools</span>' in text
    assert 'x.py"' not in text


def test_a_folder_of_somebody_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("all of it")
    run = build(tmp_path)
    assert run.returncode == 2
    assert "is no book: give another folder with -o" in run.stderr
    assert (tmp_path / "thesis.tex").read_text() == "all of it"
