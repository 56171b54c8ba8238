"""The book's pages: each on a shelf, its links lead somewhere, each command has its page."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from tests.values import ROOT
from tools.book import checks, commands, links, markdown, reference, schemas, shelves, source

Write = Callable[[str, str], Path]
FRONT = "".join(f"- [{shelf}]({shelf}/index.md)\n" for shelf in shelves.SHELVES)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a page of a checkout that has each shelf with its index."""

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    write("docs/index.md", f"# Book\n\n{FRONT}")
    for shelf in shelves.SHELVES:
        write(f"docs/{shelf}/index.md", f"# Shelf {shelf}\n")
    return write


def shelf_problems(root: Path) -> list[str]:
    return [str(problem) for problem in shelves.problems(shelves.read(root))]


def link_problems(root: Path) -> list[str]:
    texts = links.texts(root, shelves.read(root).texts)
    return [str(problem) for problem in links.problems(root, texts)]


def test_this_book() -> None:
    assert [str(problem) for problem in checks.check(ROOT).problems] == []


def test_pages_and_shelves_keep_the_order_of_their_indexes(tmp_path: Path, write: Write) -> None:
    write(
        "docs/use/index.md", "# Use\n\n- [B](b.md)\n- [A](a.md#x), [B](b.md)\n- [D](d/index.md)\n"
    )
    for name in ("use/a", "use/b", "use/d/index", "use/d/c"):
        write(f"docs/{name}.md", f"# {name}\n")
    write("docs/use/d/index.md", "# D\n\n- [C](c.md), [above](../a.md)\n")
    assert shelf_problems(tmp_path) == []
    book = shelves.read(tmp_path)
    assert book.listed("use/index.md") == ["use/b.md", "use/a.md", "use/d/index.md"]
    assert book.listed("use/d/index.md") == ["use/d/c.md"]
    assert book.listed("index.md") == [f"{shelf}/index.md" for shelf in shelves.SHELVES]


@pytest.mark.parametrize("name", ["stray.md", "attic/old.md", "attic/index.md"])
def test_a_page_without_a_shelf(tmp_path: Path, write: Write, name: str) -> None:
    write(f"docs/{name}", "# Old\n")
    (line,) = shelf_problems(tmp_path)
    assert line.startswith(f"docs/{name}:1: a page without a shelf\n  next: git mv it to one of ")
    assert "start,use,image" in line


def test_a_page_that_its_index_leaves_out(tmp_path: Path, write: Write) -> None:
    write("docs/use/jobs.md", "# Jobs\n")
    write("docs/start/index.md", "# Start\n\n[jobs](../use/jobs.md)\n")
    (line,) = shelf_problems(tmp_path)
    assert line == (
        "docs/use/jobs.md:1: a page that no index lists\n"
        "  next: add a line to docs/use/index.md: - [Jobs](jobs.md): TASK"
    )


def test_a_shelf_without_its_index(tmp_path: Path, write: Write) -> None:
    write("docs/use/jobs.md", "# Jobs\n")
    (tmp_path / "docs/use/index.md").unlink()
    (line,) = shelf_problems(tmp_path)
    assert line.startswith("docs/use/index.md:1: a shelf without its index\n")


def test_a_page_without_a_title(tmp_path: Path, write: Write) -> None:
    write("docs/use/index.md", "# Use\n\n- [Jobs](jobs.md)\n")
    write("docs/use/jobs.md", "No heading.\n")
    (line,) = shelf_problems(tmp_path)
    assert line.startswith("docs/use/jobs.md:1: a page without a title\n")


BROKEN = {
    "../jobs.md": ("docs/jobs.md"[5:], "did it move? write jobs.md"),
    "jobs.md#submitt": ("docs/use/jobs.md has no heading #submitt", "write #submit"),
    "#nowhere": ("docs/use/a.md has no heading #nowhere", "take one of: a"),
    "../../tools/gone.py": ("../../tools/gone.py is not there", "remove the link, or name"),
    "../../../etc/passwd": ("leads out of the checkout", "name a file of the checkout"),
}


@pytest.mark.parametrize("target", BROKEN)
def test_a_link_that_leads_nowhere(tmp_path: Path, write: Write, target: str) -> None:
    what, step = BROKEN[target]
    write("docs/use/jobs.md", "# Jobs\n\n## Submit\n\n## Submit\n")
    write("docs/use/a.md", f"# A\n\n- a list\n  that goes on,\n  and [here]({target}) too\n")
    (line,) = link_problems(tmp_path)
    assert line.startswith("docs/use/a.md:5: ")
    head, _, next_step = line.partition("\n  next: ")
    assert what in head
    assert next_step.startswith(step)


def test_links_that_lead_somewhere(tmp_path: Path, write: Write) -> None:
    write("docs/use/jobs.md", "# Jobs\n\n## `render` & Submit, it's\n\n## Submit\n\n## Submit\n")
    write("tools/x.py", "pass\n")
    write("README.md", "# Top\n\n[a](docs/use/jobs.md#submit-1) [nothing](docs/gone.md)\n")
    write(
        "docs/use/a.md",
        "# A\n\n[1](jobs.md#render--submit-its) [2](#a) [3](../../tools/x.py) [4](../../tools)\n"
        "[5](https://example.org/x.md#y) [6](mailto:a@example.org) `[7](gone.md)`\n\n"
        "```\n[8](gone.md)\n```\n\n| a |\n|---|\n| [9](../index.md) |\n",
    )
    (line,) = link_problems(tmp_path)
    assert line.startswith("README.md:3: docs/gone.md is not there")


def test_the_line_of_a_link_in_a_table() -> None:
    page = markdown.read("# T\n\n| a |\n|---|\n| b |\n| ![c](c.png) |\n")
    assert [(link.line, link.target) for link in page.links] == [(6, "c.png")]


def test_the_reference_has_each_command_with_its_options() -> None:
    every = commands.every()
    names = {command.name for command in every}
    assert len(names) == len(every) > 60
    assert {"build", "bench import", "site schema", "modules rollback"} <= names
    texts = shelves.read(ROOT).texts
    pages = reference.pages(every, texts)
    listing = reference.listing(every)
    for command in every:
        page = pages[f"{reference.FOLDER}/{command.words[0]}.md"]
        assert all(f"`{row.name}`\n: " in page for row in command.rows)
        assert command.usage in page
        assert f"[`dlcontainer {command.name}`](commands/{command.words[0]}.md" in listing
    assert re.search(r"Default: \d+\.", pages[f"{reference.FOLDER}/bench.md"])
    assert "| 4 | No container engine, or none of its modes works here |" in listing
    codes = {int(line.split()[1]) for line in listing.splitlines() if line[2:3].isdigit()}
    assert codes == {0, 1, 2, 3, 4, 5, 6, 7, 8, 70, 130}


def test_a_help_text_is_no_markup() -> None:
    every = [command for command in commands.every() if command.name == "plan"]
    text = reference.pages(every, shelves.read(ROOT).texts)[f"{reference.FOLDER}/plan.md"]
    assert r":NODE\_TYPE" in text
    assert reference.escaped("a_b <c> `d_e` [f](g)") == r"a\_b \<c\> `d_e` \[f\](g)"


def test_a_command_without_a_page(tmp_path: Path) -> None:
    every = [command for command in commands.every() if command.name in ("plan", "site list")]
    only_listed = {commands.LIST: "`dlcontainer plan`, `site list`", "measurements/x.md": "`plan`"}
    told = [str(problem) for problem in commands.problems(every, only_listed)]
    assert [line.partition("\n")[0] for line in told] == [
        f"docs/{commands.LIST}:1: no page of docs/ names the command `dlcontainer plan`",
        f"docs/{commands.LIST}:1: no page of docs/ names the command `dlcontainer site list`",
    ]
    near = {**only_listed, "use/a.md": "`plan-b` and the plan; dlcontainer site listing"}
    assert len(list(commands.problems(every, near))) == 2
    there = {**near, "use/b.md": "`plan -v`\n```\n  dlcontainer site list\n```\n"}
    assert list(commands.problems(every, there)) == []
    assert "is missing" in str(next(iter(commands.problems(every, {}))))


def test_schemas_are_schemas() -> None:
    texts = schemas.texts()
    assert len(texts) == len(schemas.SCHEMAS) >= 7
    for name, text in texts.items():
        jsonschema.Draft202012Validator.check_schema(json.loads(text))
        assert f"({name})" in schemas.listing()


def test_what_the_site_adds_stands_below_the_pages_own_lines(tmp_path: Path, write: Write) -> None:
    write("docs/reference/commands.md", "# Commands\n\nAll.\n")
    write("docs/reference/schemas.md", "# Schemas\n")
    write("docs/reference/index.md", "# R\n\n- [C](commands.md)\n- [S](schemas.md)\n")
    write("docs/images/a.png", "")
    book = shelves.read(tmp_path)
    every = [command for command in commands.every() if command.words[0] == "site"]
    folder = tmp_path / "source"
    source.write(book, every, folder)
    for name, text in book.texts.items():
        assert (folder / name).read_text().startswith(text)
    assert "hidden:\n\ncommands\nschemas\n```" in (folder / "reference/index.md").read_text()
    assert "\nstart/index\nuse/index\n" in (folder / "index.md").read_text()
    assert "\n\ncommands/site\n```" in (folder / "reference/commands.md").read_text()
    assert (folder / "reference/commands/site.md").is_file()
    assert (folder / "reference/schemas/recipe.schema.json").is_file()
    assert (folder / "images/a.png").is_file()
