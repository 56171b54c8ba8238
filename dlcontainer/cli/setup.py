"""`dlcontainer setup`: what this machine needs, set up for this user."""

from dlcontainer.cli import command_list
from dlcontainer.cli.app import App

app = App(help="Set up what this machine needs: a container engine of your own, without root.")


@app.callback()
def root() -> None:
    """Set up what this machine needs: a container engine of your own, without root."""


app.add(*command_list.SETUP)
