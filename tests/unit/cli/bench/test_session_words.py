"""A session's options as words: read again by the command they are the same options."""

from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.probes import PROBES
from dlcontainer.cli.app import Entry
from dlcontainer.cli.bench import probe_command, session_words
from dlcontainer.cli.bench.session_options import SessionOptions


@pytest.mark.parametrize("probe", ["train", "collectives"])
def test_words_are_read_as_the_options_that_they_say(probe: str) -> None:
    read: list[SessionOptions] = []

    def run(_probe: Any, typed: SessionOptions) -> None:
        read.append(typed)

    make = partial(probe_command.make, PROBES[probe], PROBES, run)
    command = Entry(name=probe, summary="", read=make).made()
    values: dict[str, Any] = {option.name: None for option in PROBES[probe].options}
    values |= {"operations": "barrier", "quick": True} if probe == "collectives" else {"steps": 5}
    written = SessionOptions(
        site="it's", image=Path("/a b/x.sif"), ranks=4, per_node=2, nodes=2, looks="8,16",
        controls="0", target=Path("/o.jsonl"), threads=1, timeout=60.0, margin="3%",
        settings=["a=b c", "d=e"], launcher="mpirun --oversubscribe", values=values,
    )  # fmt: skip
    bench, *words = session_words.words(PROBES[probe], written)
    assert bench == "bench"
    assert words.pop(0) == probe
    command(words, standalone_mode=False)
    (again,) = read
    for one in fields(SessionOptions):
        assert getattr(again, one.name) == getattr(written, one.name), one.name
