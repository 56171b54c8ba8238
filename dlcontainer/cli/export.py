"""`dlcontainer export`: files for other programs, and site files of what was measured."""

from dlcontainer.cli import command_list
from dlcontainer.cli.app import App

app = App(
    help="Export files: a ReFrame test, a Jupyter kernel, engine limits, a site's thread count."
)


@app.callback()
def root() -> None:
    """Export files: a ReFrame test, a Jupyter kernel, engine limits, a site's thread count."""


app.add(*command_list.EXPORT)
