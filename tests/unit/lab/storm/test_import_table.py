"""The table of docs/use/importing.md says what the storm model makes of the counts that exist."""

import pytest

from dlcontainer.lab.storm.storm_model import ImportLoad
from tests.values import ROOT

RANKS = (1, 4, 64)
# Metadata and reads of a cold import by one rank and by two, docs/measurements/import.md; with the
# pack one rank was counted, and a mount of a node is asked once, as without it.
COUNTED = {
    "native tree": (3631 + 2162, 4743 + 2428),
    "image, a mount for each rank": (7 + 735, 12 + 876),
    "image, one mount a node": (7 + 735, 7 + 735),
    "image with the pack, one mount a node": (659, 659),
    "image with the pack, its files in order, one mount a node": (570, 570),
}


@pytest.mark.parametrize("way", COUNTED)
def test_requests_of_a_node(way: str) -> None:
    one, two = COUNTED[way]
    own = two - one
    load = ImportLoad(shared_operations=one - own, own_operations=own, read_waits=0, mb=0, cpu_s=0)
    wanted = [f"{load.operations(ranks):,.0f}" for ranks in RANKS]
    text = (ROOT / "docs/use/importing.md").read_text()
    [line] = [line for line in text.splitlines() if line.startswith(f"| cold: {way} |")]
    assert [cell.strip() for cell in line.split("|")[2:5]] == wanted
