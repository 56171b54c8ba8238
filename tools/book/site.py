"""The site: Sphinx with MyST and Furo over the prepared tree; each of its warnings is an error."""

import io
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

from dlcontainer import __version__

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Deeper headings are nobody's targets.
_ANCHOR_DEPTH = 4


def settings(docs: Path) -> dict[str, Any]:
    """Return Sphinx's settings; what is no setting here is as Sphinx, MyST and Furo have it."""
    return {
        "project": "dlcontainer",
        "version": __version__,
        "release": __version__,
        "extensions": ["myst_parser", "tools.book.extension"],
        "dlcontainer_docs": str(docs),
        "exclude_patterns": [],
        "nitpicky": True,
        "myst_heading_anchors": _ANCHOR_DEPTH,
        # A block without a language is a drawing, a message or a command.
        "highlight_language": "none",
        # `--site` in a sentence is an option, and no dash.
        "smartquotes": False,
        "html_theme": "furo",
        "html_title": f"dlcontainer {__version__}",
        "html_show_sphinx": False,
        "html_copy_source": False,
        "html_show_copyright": False,
        "html_last_updated_fmt": None,
        "html_static_path": [],
    }


def build(source: Path, out: Path, docs: Path) -> list[str]:
    """Build the pages; return what Sphinx warns of, each at its file and line of docs/."""
    warnings = io.StringIO()
    with patch_docutils(), docutils_namespace():
        app = Sphinx(
            srcdir=source,
            confdir=None,
            outdir=out,
            doctreedir=out.with_name("doctrees"),
            buildername="html",
            confoverrides=settings(docs),
            status=None,
            warning=warnings,
            freshenv=True,
        )
        app.build(force_all=True)
    text = _COLOUR.sub("", warnings.getvalue()).replace(f"{source}/", "docs/")
    return [line for line in text.splitlines() if line.strip()]
