"""`prove` and `site show --proof`: what is printed, and the exit codes."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dlcontainer.cli import main
from tests.unit.proof.cases import content, image, rank, write

Run = Callable[..., tuple[int, str, str]]
# A shipped site with four GPUs a node and a fabric.
SITE = "delta"
NODE_TYPE = "a100x4"
RECORDED = Path(__file__).parents[2] / "recorded"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line as a user with an empty home."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)

    def run(*argv: object) -> tuple[int, str, str]:
        words = [str(word) for word in argv]
        code = main._run(words, as_json="--json" in words)
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return write(tmp_path / "proof.json", content(image=image(site=SITE, node_type=NODE_TYPE)))


def test_a_good_proof_is_shown_and_is_0(run: Run, good: Path) -> None:
    code, out, _ = run("prove", good)
    assert code == 0
    rows = [line.split() for line in out.splitlines()[1:]]
    assert ["ok", "ranks"] in [row[:2] for row in rows]
    assert ["ok", "network"] in [row[:2] for row in rows]


def test_a_proof_of_a_real_gpu_by_path(run: Run) -> None:
    """Recorded on one H100 (driver 580.159.04, torch 2.11.0+cu130), one rank, in no image."""
    code, out, _ = run("prove", RECORDED / "h100/proof.json", "--json", "--site", "local")
    assert code == 0
    findings = {finding["name"]: finding for finding in json.loads(out)["findings"]}
    states = {name: finding["state"] for name, finding in findings.items()}
    seen = ("ranks", "devices", "device a rank", "sums")
    assert {states.pop(name) for name in seen} == {"ok"}
    assert "H100" in findings["devices"]["detail"]
    # One node, no image, no all-reduce that was timed: nothing is concluded from what is not there.
    assert set(states.values()) <= {"seen", "not tried"}
    assert states["network"] == states["bandwidth"] == states["image"] == "not tried"


def test_a_proof_that_fails_is_1_and_says_what(run: Run, tmp_path: Path) -> None:
    # Delta says TCP; here NCCL has its own way over InfiniBand.
    ranks = [
        rank(number, nccl={"network": "socket", "networks": ["Socket"]}) for number in range(8)
    ]
    path = write(
        tmp_path / "proof.json", content(ranks, image=image(site="leonardo", node_type="booster"))
    )
    code, out, err = run("prove", path)
    assert code == 1
    assert "FAILED" in out
    assert "1 of 11 findings failed or are not shown: network" in err
    code, out, _ = run("prove", path, "--json")
    body = json.loads(out)
    assert (code, body["schema"], body["ok"]) == (1, "dlcontainer/prove/1", False)
    states = {finding["name"]: finding["state"] for finding in body["findings"]}
    assert states["network"] == "failed"


def test_no_line_of_nccl_is_against_it(run: Run, tmp_path: Path) -> None:
    ranks = [rank(number, nccl=None) for number in range(8)]
    path = write(
        tmp_path / "proof.json", content(ranks, image=image(site=SITE, node_type=NODE_TYPE))
    )
    code, out, _ = run("prove", path)
    assert (code, "NOT SHOWN" in out) == (1, True)


def test_an_edited_proof_is_1(run: Run, good: Path) -> None:
    good.write_text(good.read_text().replace("n2", "n9"))
    code, _, err = run("prove", good)
    assert (code, "changed after the job wrote it" in err) == (1, True)


def test_an_image_without_a_record_is_1(run: Run, good: Path, tmp_path: Path) -> None:
    code, _, err = run("prove", good, "--image", tmp_path / "demo.sif")
    assert (code, "no demo.json beside" in err) == (1, True)


def test_a_proof_of_another_image_is_1(run: Run, good: Path, tmp_path: Path) -> None:
    body = {
        "schema": "dlcontainer/record/1",
        "image": {"sha256": "cd" * 32, "size": 1},
        "digest": "ef" * 32,
        "content": {
            "site": SITE,
            "recipe": {
                "name": "demo", "version": "1.0", "summary": "s", "prefix": "/opt/demo",
                "exposes": ["python"],
            },
        },
    }  # fmt: skip
    (tmp_path / "demo.json").write_text(json.dumps(body))
    code, out, _ = run("prove", good, "--image", tmp_path / "demo.sif")
    assert (code, "the image of plan efefefefefef" in out) == (1, True)


def test_a_site_shows_how_far_it_got(run: Run, good: Path) -> None:
    target = f"{SITE}:{NODE_TYPE}"
    code, out, _ = run("site", "show", SITE, "--node-type", NODE_TYPE, "--proof", good)
    assert code == 0, target
    assert "ran on 2 nodes over its fabric: 2026-11-22" in out
    _, out, _ = run("site", "show", SITE, "--node-type", NODE_TYPE, "--proof", good, "--json")
    assert "validated: not shown" in json.loads(out)["reached"]
    _, out, _ = run("site", "show", SITE, "--node-type", NODE_TYPE)
    assert "how far it got" not in out
