"""`dlcontainer lab`: a file system's load foreseen, and stand-ins to try on."""

from dlcontainer.cli import command_list
from dlcontainer.cli.app import App

app = App(help="Foresee what an image does to a file system; stand-ins for it and for a network.")


@app.callback()
def root() -> None:
    """Foresee what an image does to a file system; stand-ins for it and for a network."""


app.add(*command_list.LAB)
