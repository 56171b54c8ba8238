"""`bench forecast --script` in a real image: its torch tells the memory of the page's network."""

import json

import pytest

from tests.integration.world import Built, World
from tests.values import ROOT

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.long,  # the image of PyTorch: the memory probe has tests of its own
]

DOCS = ROOT / "docs/measure"


@pytest.fixture
def user(launching: World) -> World:
    return launching


def test_the_build_of_the_page_fits_or_does_not(user: World, pytorch_image: Built) -> None:
    words = (
        "bench", "forecast", str(DOCS / "forecast-facts.yaml"), "--nodes", "1",
        "--image", str(pytorch_image.image), "--script", f"{DOCS / 'forecast_build.py'}:build",
    )  # fmt: skip
    body = json.loads(user.run(*words, "--memory", "40GB", "--json").stdout)
    rows = {(row["strategy"], row["ranks"]): row for row in body["fit"]["rows"]}
    assert {row["word"] for row in rows.values()} == {"fits"}
    # 4,239,370 parameters in fp32; fsdp holds a share of them.
    assert rows["dp2", 2]["parts"]["parameters"] == pytest.approx(4 * 4_239_370, rel=0.03)
    assert rows["fsdp4", 4]["parts"]["parameters"] < rows["dp2", 2]["parts"]["parameters"]
    assert body["speed"]["rows"]
    tight = json.loads(user.run(*words, "--memory", "0.5GB", "--json").stdout)
    assert {row["word"] for row in tight["fit"]["rows"]} == {"does not fit"}
    assert tight["speed"]["unknown"] == "no strategy fits"
