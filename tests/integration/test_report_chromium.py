"""The report in a real browser: nothing on its console, both colour schemes, print."""

import base64
import json
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.report import html_report, inputs
from dlcontainer.bench.report.inputs import InputFinding
from dlcontainer.bench.samples import reader
from tests import findings as made
from tests import planted_studies
from tests.judging import analyse
from tests.planted_studies import StudyCase
from tests.skips import skip
from tests.unit.bench.report import test_traces as traces
from tests.unit.bench.scale import test_analysis as matrices

CHECKOUT = Path(__file__).parents[2]
RECORDINGS = CHECKOUT / "tests" / "recorded" / "bench"
NAMES = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True, kw_only=True)
class Browser:
    program: str
    home: Path

    def show(self, page: Path, *flags: str) -> tuple[str, list[str]]:
        """Open a page; give what it printed and what stands on its console."""
        argv = [
            self.program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", f"--user-data-dir={self.home}",
            "--enable-logging=stderr", "--hide-scrollbars", *flags, page.as_uri(),
        ]  # fmt: skip
        # A group of its own: a browser that hangs is ended with all its children.
        with subprocess.Popen(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home)},
        ) as process:
            try:
                out, err = process.communicate(timeout=300)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        assert process.returncode == 0, err
        return out, [line for line in err.splitlines() if "CONSOLE" in line]


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        skip("no Chromium: apt-get install chromium")
    return Browser(program=program, home=tmp_path / "home")


@pytest.fixture
def scale(tmp_path: Path) -> Path:
    """A matrix's page."""
    path = tmp_path / "scale.html"
    found = inputs.read(matrices.write(tmp_path / "matrix.jsonl"))
    path.write_text(html_report.html([], [CHECKOUT / "templates"], [found]))
    return path


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Two studies' page, one of them with two strategies."""
    cases = (
        StudyCase(strategies=("dp", "tp2"), baseline=True),
        StudyCase(folder="other", site="another site's name that is long", seed=2),
    )
    found = [
        InputFinding(path=each.study.folder, sha256=each.study.digest, finding=each)
        for each in (planted_studies.judged(tmp_path, case) for case in cases)
    ]
    path = tmp_path / "study.html"
    path.write_text(html_report.html([], [CHECKOUT / "templates"], found))
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A trace's page, of both sides."""
    path = tmp_path / "trace.html"
    finding = inputs.read(traces.written(tmp_path))
    path.write_text(html_report.html([], [CHECKOUT / "templates"], [finding]))
    return path


@pytest.fixture
def page(tmp_path: Path) -> Path:
    analyses = [analyse(reader.read(path)) for path in sorted(RECORDINGS.glob("*.jsonl"))]
    path = tmp_path / "a report's <page> & #1.html"
    found = [inputs.read(one) for one in made.all_of(tmp_path)]
    path.write_text(html_report.html(analyses, [CHECKOUT / "templates"], found))
    return path


def test_the_page_loads_without_a_word_on_the_console(browser: Browser, page: Path) -> None:
    dom, console = browser.show(page, "--dump-dom")
    assert console == []
    assert dom.count('class="session"') == len(list(RECORDINGS.glob("*.jsonl")))
    assert dom.count('class="session exhibit"') == 4
    for name in ("When are they ready?", "Break-even", "Predicted and measured", "Import tree",
                 "Where the seconds go", "Operations", "Claims of the literature"):  # fmt: skip
        assert name in dom
    assert dom.count("<figure>") == dom.count("</svg>") == page.read_text().count("<figure>")


# What a person does, done by a script that is not of the page: a click on a mark.
_CLICK = """<script>
const mark = document.querySelector("svg a[href^='#raw-']");
mark.dispatchEvent(new MouseEvent("click", {bubbles: true, cancelable: true}));
setTimeout(() => {
  const row = document.querySelector(":target");
  const folded = row && row.closest("details");
  const link = mark.getAttribute("href").slice(1);
  document.title = [row && row.id === link, folded && folded.open, row && row.tagName].join();
}, 500);
</script>"""


def test_a_mark_leads_to_its_raw_line_and_unfolds_it(browser: Browser, page: Path) -> None:
    text = page.read_text().replace("default-src 'none'", "default-src 'unsafe-inline'")
    page.write_text(text.replace("</body>", f"{_CLICK}</body>"))
    dom, _ = browser.show(page, "--dump-dom", "--virtual-time-budget=3000")
    assert "<title>true,true,TR</title>" in dom


# What is wider than the page, the boxes that scroll, the lines of the narrowest cells.
_WIDTHS = """<script>addEventListener("load", () => {
  document.querySelectorAll("details.grounds").forEach((each) => { each.open = true; });
  const over = (box) => box.scrollWidth - box.clientWidth;
  const boxes = [...document.querySelectorAll(".block .scroll, figure .scroll")];
  const cells = [...document.querySelectorAll(".block td.short")];
  const broken = cells.filter((cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return new Set([...range.getClientRects()].map((one) => one.top)).size > 1;
  });
  const name = (box) => (box.querySelector("caption, svg").textContent || "").slice(0, 40);
  const scrolling = boxes.filter((box) => over(box) > 0).map(name);
  const found = [over(document.documentElement), scrolling, broken.map((one) => one.textContent)];
  document.title = btoa(unescape(encodeURIComponent(JSON.stringify(found))));
});</script>"""


def widths(browser: Browser, page: Path, size: int) -> list[Any]:
    """Give by how much a page is too wide, its boxes that scroll, its broken short cells."""
    text = page.read_text().replace("default-src 'none'", "default-src 'unsafe-inline'")
    own = page.with_name("widths.html")
    own.write_text(text.replace("</body>", f"{_WIDTHS}</body>"))
    # A window of Chromium's is at least 500 wide: a frame is not.
    frame = page.with_name("frame.html")
    frame.write_text(
        f'<iframe src="widths.html" style="border:0;width:{size}px;height:900px"></iframe>'
        "<script>addEventListener('load', () => { document.title = "
        "document.querySelector('iframe').contentDocument.title; });</script>"
    )
    dom, _ = browser.show(
        frame, "--dump-dom", f"--window-size={size + 100},1000", "--allow-file-access-from-files"
    )
    title = dom.partition("<title>")[2].partition("<")[0]
    found: list[Any] = json.loads(base64.b64decode(title))
    return found


@pytest.mark.parametrize("name", ["page", "scale", "study", "trace"])
def test_nothing_is_wider_than_the_page(
    browser: Browser, request: pytest.FixtureRequest, name: str
) -> None:
    shown: Path = request.getfixturevalue(name)
    # On a desk no table needs to scroll; on a telephone they do so in boxes of their own.
    assert widths(browser, shown, 1280) == [0, [], []]
    over, scrolling, broken = widths(browser, shown, 400)
    assert (over, broken) == (0, [])
    assert len(scrolling) > 3


def test_a_matrix_has_its_figures_and_a_quiet_console(browser: Browser, scale: Path) -> None:
    dom, console = browser.show(scale, "--dump-dom")
    assert console == []
    for name in ("How much longer, by ranks?", "When are they ready?", "Against the reference cell",
                 "Cold and mounts", "The words", "All 36 launches"):  # fmt: skip
        assert name in dom
    assert dom.count("<figure>") == dom.count("</svg>") == 3


def test_studies_have_their_figures_and_a_quiet_console(browser: Browser, study: Path) -> None:
    dom, console = browser.show(study, "--dump-dom")
    assert console == []
    for name in ("Efficiency, dp", "Efficiency, tp2", "What is lost at 8 ranks", "In short",
                 "Both studies by point", "What both attest alike"):  # fmt: skip
        assert name in dom
    assert dom.count("<figure>") == dom.count("</svg>") == 5


def test_a_trace_has_a_step_of_each_side_and_a_quiet_console(browser: Browser, trace: Path) -> None:
    drawn, console = browser.show(trace, "--dump-dom")
    assert console == []
    assert drawn.count("milliseconds of the step") == 2


def test_a_round_leads_to_its_launch(browser: Browser, scale: Path) -> None:
    text = scale.read_text().replace("default-src 'none'", "default-src 'unsafe-inline'")
    scale.write_text(text.replace("</body>", f"{_CLICK}</body>"))
    dom, _ = browser.show(scale, "--dump-dom", "--virtual-time-budget=3000")
    assert "<title>true,true,TR</title>" in dom


@pytest.mark.parametrize(
    "content",
    ["<script>console.error('x')</script>", '<img src="http://127.0.0.1:9/x.png">'],
)
def test_this_test_would_see_a_script_and_a_fetch(
    browser: Browser, page: Path, content: str
) -> None:
    # The page's own policy refuses both, and says so on the console.
    page.write_text(page.read_text().replace("</main>", f"{content}</main>"))
    assert browser.show(page, "--dump-dom")[1]


# What of the page is laid out and seen, by the words that each part begins with.
_SEEN = """<script>setTimeout(() => {
  const seen = (one) => one.checkVisibility({contentVisibilityAuto: true});
  const folded = [...document.querySelectorAll("details.grounds > div, details .scroll")];
  document.title = [folded.length, folded.filter(seen).length, document.querySelectorAll(
    "details[open]").length, seen(document.querySelector(".answers dd"))].join();
}, 800);</script>"""


def seen(browser: Browser, page: Path, change: str = "", fragment: str = "") -> list[str]:
    """Count the folded parts, those seen, and what is open, after a change of the page."""
    text = page.read_text().replace("default-src 'none'", "default-src 'unsafe-inline'")
    own = page.with_name("seen.html")
    own.write_text(text.replace("</body>", f"{change}{_SEEN}</body>"))
    flags = ("--dump-dom", "--virtual-time-budget=4000")
    go = f"<script>location.replace('seen.html{fragment}')</script>"
    start = page.with_name("start.html")
    start.write_text(go)
    dom, _ = browser.show(start, *flags, "--allow-file-access-from-files")
    return dom.partition("<title>")[2].partition("<")[0].split(",")


def test_below_the_three_lines_all_is_folded_and_a_link_unfolds_one(
    browser: Browser, page: Path
) -> None:
    parts, shown, opened, answered = seen(browser, page)
    assert (shown, opened, answered) == ("0", "0", "true")
    assert int(parts) > 30
    _, shown, opened, _ = seen(browser, page, fragment="#session-2")
    assert opened == "1"
    assert 0 < int(shown) < int(parts)


def test_all_is_shown_without_a_script_by_one_box(browser: Browser, page: Path) -> None:
    # The box is ticked by its attribute, as a click would: no script of the page is asked.
    page.write_text(page.read_text().replace('id="all">', 'id="all" checked>'))
    parts, shown, opened, _ = seen(browser, page)
    assert (shown, opened) == (parts, "0")


def test_on_paper_nothing_is_folded(browser: Browser, page: Path, tmp_path: Path) -> None:
    def pages(name: str) -> int:
        paper = tmp_path / f"{name}.pdf"
        browser.show(page, "--no-pdf-header-footer", f"--print-to-pdf={paper}")
        return paper.read_bytes().count(b"/Type /Page\n")

    folded = pages("folded")
    text = page.read_text()
    page.write_text(text.replace("<details", "<details open"))
    assert folded == pages("open") > 10
    # It could fail: without the rule for paper what is folded stays so.
    page.write_text(text.replace("details::details-content", "details::nothing"))
    assert pages("unruled") < folded


def test_light_dark_and_print(browser: Browser, page: Path, tmp_path: Path) -> None:
    pictures = []
    for scheme in (0, 1):  # Blink's enumeration: 0 dark, 1 light
        target = tmp_path / f"{scheme}.png"
        setting = f"--blink-settings=preferredColorScheme={scheme}"
        browser.show(page, setting, "--window-size=1100,1400", f"--screenshot={target}")
        pictures.append(target.read_bytes())
    assert all(len(picture) > 30_000 for picture in pictures)  # a blank page has a few kB
    assert pictures[0] != pictures[1]
    paper = tmp_path / "report.pdf"
    browser.show(page, "--no-pdf-header-footer", f"--print-to-pdf={paper}")
    assert paper.read_bytes().startswith(b"%PDF")
    assert paper.stat().st_size > 30_000
