"""What Sphinx must know of this checkout: links to files outside docs/ are shown as their path."""

from pathlib import Path, PurePosixPath
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from tools.book.shelves import beside


class FilesOfTheCheckout(SphinxTransform):
    """Replace a link to a file outside docs/ by its words and its path: the site has no such file.

    There is no address to send a reader to: a copy of the project may lie anywhere.
    """

    # Before Sphinx looks for what a link may mean.
    default_priority = 5

    def apply(self, **_kwargs: Any) -> None:
        """Replace the links of one page."""
        docs = Path(self.config.dlcontainer_docs)
        for link in list(self.document.findall(addnodes.pending_xref)):
            path = beside(f"docs/{self.env.docname}.md", link["reftarget"].partition("#")[0])
            is_outside = not path.startswith(("docs/", "..", "/"))
            if link.get("refdomain") is None and is_outside and (docs.parent / path).exists():
                link.replace_self(_shown(link.astext(), path))


def _shown(words: str, path: str) -> list[nodes.Node]:
    code = nodes.literal(path, path, classes=["file"])
    if words in path or PurePosixPath(path).name in words:
        return [code]
    return [nodes.Text(f"{words} ("), code, nodes.Text(")")]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the setting and the transform."""
    app.add_config_value("dlcontainer_docs", "", "env")
    app.add_transform(FilesOfTheCheckout)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
