"""`dlcontainer evidence`: signatures and signed files about an image."""

from dlcontainer.cli import command_list
from dlcontainer.cli.app import App

app = App(help="Evidence about an image: sign it, attest files about it, verify both.")


@app.callback()
def root() -> None:
    """Evidence about an image: sign it, attest files about it, verify both."""


app.add(*command_list.EVIDENCE)
