"""`bench trace` to its end, by a real job whose ranks leave made traces."""

import json
from collections.abc import Mapping
from pathlib import Path

from tests import madewatches
from tests.faults.stage import Subject
from tests.madetraces import MadeRank, leave

_FOLDER, _MADE = "traced", "made"
_SPANS = [("aten::mm", 0, 60), ("gloo:all_reduce", 60, 80), ("aten::add", 80, 100)]
_COMMAND = ("sh", "-c", f'cp "$PWD/{_MADE}"/* "$DLCONTAINER_EVENTS/../trace"')


def _made(state: Path) -> None:
    leave(state / _MADE, [MadeRank(spans=_SPANS), MadeRank(spans=_SPANS)])
    madewatches.leave(state / _MADE, 0, [(0, 90, 5, "running", None), (95, 95, 1, "asleep", None)])
    (state / "native/bin").mkdir(parents=True)
    (state / "native/bin/python").touch()


def _whole(state: Path) -> object:
    """Read what is said of a trace, and its archive to the end where that is named."""
    path = state / _FOLDER / "trace.json"
    if not path.exists():
        return None
    traced = json.loads(path.read_text())
    (side,) = traced["sides"]
    if side["archive"] is not None:
        assert _events(state / _FOLDER / "native" / side["archive"]) == 4 * len(_SPANS)
    return {**traced, "created": "", "sides": [side]}


def _events(archive: Path) -> int:
    import otf2.reader

    # Those of ranks: a process's group holds looks.
    with otf2.reader.open(str(archive)) as trace:
        return sum(of.group.name.startswith("rank ") for of, _ in trace.events)


TRACES: Mapping[str, Subject] = {
    "bench trace": Subject(
        prepare=_made,
        argv=(
            *("bench", "trace", "--site", "local", "--native", "native", "--ranks", "1"),
            *("-o", _FOLDER, "--", *_COMMAND),
        ),
        view=_whole,
        entry="tests.faults.entries:trace",
        # An archive that the disk did not take is a note; trace.json is there all the same.
        many=True,
        # Of real looks at processes, which go with the folder: a short command may have none.
        ours=lambda path: path.startswith(f"{_FOLDER}/native/trace/watch-0-*"),
    ),
}
