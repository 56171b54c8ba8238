"""`dlcontainer lab`: a file system's load foreseen, and stand-ins to try on."""

from dlcontainer.cli import command_list
from dlcontainer.cli.app import App

app = App(help="Predict an image's load on a file system; emulate slow file systems and networks.")


@app.callback()
def root() -> None:
    """Predict an image's load on a file system; emulate slow file systems and networks."""


app.add(*command_list.LAB)
