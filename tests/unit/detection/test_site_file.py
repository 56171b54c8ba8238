"""The first site file of a machine: `plan` takes it, nothing in it is guessed or obeyed."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from dlcontainer.cli import main
from dlcontainer.detection import node_report, site_file
from dlcontainer.detection.evidence import NodeEvidence
from dlcontainer.detection.fact import known, unknown
from dlcontainer.detection.node_report import Detection
from dlcontainer.errors import ConfigError
from tests.unit.detection.machines import BARE, BASE, H100, MI300, answer

Run = Callable[..., tuple[int, str, str]]
TAKEN = "2026-11-27T20:00:00Z"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line as a user with an empty home."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "DLCONTAINER_PATH"):
        monkeypatch.delenv(name, raising=False)

    def run(*argv: object) -> tuple[int, str, str]:
        words = [str(word) for word in argv]
        code = main._run(words, as_json="--json" in words)
        out, err = capsys.readouterr()
        return code, out, err

    return run


def detected(node: NodeEvidence, job: NodeEvidence | None = None) -> Detection:
    facts = node_report.facts(job) if job else None
    return Detection(taken=TAKEN, here=node_report.facts(node), job=facts)


def written(path: Path, detection: Detection) -> Path:
    path.write_text(json.dumps({"schema": node_report.SCHEMA, **detection.body()}))
    return path


def own(tmp_path: Path, name: str = "mysite") -> Path:
    return tmp_path / f".config/dlcontainer/site-configs/{name}.yaml"


@pytest.mark.parametrize(
    ("node", "variant"),
    [(H100, "cuda"), (MI300, "rocm"), (BASE, "wheels")],
    ids=["h100", "mi300", "cpu"],
)
def test_plan_takes_it_without_an_edit(
    run: Run, tmp_path: Path, node: NodeEvidence, variant: str
) -> None:
    machine = written(tmp_path / "machine.json", detected(BASE, node))
    code, out, err = run("site", "new", "mysite", "--from-machine", "--detected", machine)
    assert (code, err) == (0, ""), err
    assert str(own(tmp_path)) in out
    code, out, err = run("plan", "pytorch", "--site", "mysite", "--json")
    assert code == 0, err
    plan = json.loads(out)
    assert variant in json.dumps(plan)
    assert run("site", "show", "mysite")[0] == 0


def test_each_value_is_the_machines(tmp_path: Path) -> None:
    text = site_file.text("mysite", detected(BASE, H100))
    site = yaml.safe_load(text)
    assert site["accelerator"] == {
        "vendor": "nvidia",
        "model": "H100 80GB HBM3",
        "per_node": 4,
        "memory_gb": 80,
        "target": "sm_90",
        "driver": "565.57.01",
        "toolkit": "12.7",
    }
    assert site["os"] == {
        "distribution": "rocky",
        "release": "9.4",
        "glibc": "2.34",
        "kernel": "5.14.0-427.13.1.el9_4.x86_64",
    }
    assert site["scheduler"] == {"kind": "slurm", "launcher": ["srun"]}
    assert site["engine"] == {"runtime": "apptainer", "version": "1.3.6"}
    assert site["network"]["kind"] == "infiniband"
    assert site["filesystems"] == [
        {"path": "/home", "kind": "nfs4", "purpose": "home"},
        {"path": "/lus/scratch", "kind": "lustre", "purpose": "scratch"},
    ]
    lines = [line for line in text.splitlines() if line.startswith("  ") and ": " in line]
    grouped = [line for line in lines if not line.startswith(("  machine:", '  - "'))]
    assert [line for line in grouped if "  # " not in line] == []


def test_what_is_unknown_is_left_out(run: Run, tmp_path: Path) -> None:
    machine = written(tmp_path / "machine.json", detected(BARE))
    code, out, err = run("site", "new", "mysite", "--from-machine", "--detected", machine)
    assert code == 0, err
    site = yaml.safe_load(own(tmp_path).read_text())
    assert set(site) == {
        *("schema", "name", "summary", "sources", "source", "unknown", "arch", "scheduler"),
        "default_recipe",
    }
    assert "the kernel shows no PCI devices" in out
    assert run("plan", "--site", "mysite")[0] == 0


def test_nothing_is_overwritten(run: Run, tmp_path: Path) -> None:
    machine = written(tmp_path / "machine.json", detected(BASE))
    words = ("site", "new", "mysite", "--from-machine", "--detected", machine)
    assert run(*words)[0] == 0
    before = own(tmp_path).read_text()
    code, _, err = run(*words)
    assert code == 2
    assert "exists already" in err
    assert own(tmp_path).read_text() == before
    for name, why in (("frontier", "there is a site named"), ("../x", "not a site's name")):
        code, _, err = run("site", "new", name, "--from-machine", "--detected", machine)
        assert (code, why in err) == (2, True), err
    code, _, err = run("site", "new", "other")
    assert (code, "--from-machine" in err) == (2, True)


def test_a_machine_s_words_stay_words(run: Run, tmp_path: Path) -> None:
    evil = 'x"\n  per_node: 99 # \x1b[31m'
    facts = [
        known("host", "n\nschema: 2", "uname\nname: other"),
        known("arch", "x86_64", "uname\nsource: other"),
        known("cpu.model", 'a"b\\ {{ 7*7 }} # not a comment', evil),
        known("cpu.cores", 4, evil),
        known("os.distribution", "Debian; rm -rf /", "x"),
        known("os.release", "12", "x"),
        known("accelerator.vendor", "acme", "x"),
        known("mpi.name", "x\nrouting: {ca: /etc/passwd}", "x"),
        unknown("network.kind", "x", "y\nrouting: {ca: /x}"),
    ]
    detection = Detection(taken=TAKEN, here=tuple(facts))
    machine = written(tmp_path / "machine.json", detection)
    code, _, err = run("site", "new", "mysite", "--from-machine", "--detected", machine)
    assert code == 0, err
    text = own(tmp_path).read_text()
    assert "\x1b" not in text
    site = yaml.safe_load(text)
    assert (site["name"], site["schema"], site["source"]) == ("mysite", 1, "machine")
    assert site["cpu"] == {"model": 'a"b\\ {{ 7*7 }} # not a comment', "cores": 4}
    # What no site can hold is unknown, with the reason.
    assert "accelerator" not in site
    assert "os" not in site
    assert "routing" not in site


def test_a_machine_that_no_site_can_be() -> None:
    node = replace(BASE, process=replace(BASE.process, machine="riscv64"))
    with pytest.raises(ConfigError, match="a site's arch is one of"):
        site_file.text("mysite", detected(node))


def test_an_engine_without_a_suffix() -> None:
    node = replace(BASE, answers={"apptainer --version": answer("apptainer version 1.4.5+8-dev\n")})
    assert '  version: "1.4.5"' in site_file.text("mysite", detected(node))
