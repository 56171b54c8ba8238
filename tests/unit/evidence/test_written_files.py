"""Files as our own commands write them, read by who reads a few of their keys."""

import json
from pathlib import Path

from dlcontainer.bench.report import json_report
from dlcontainer.evidence import kinds
from dlcontainer.image import record
from dlcontainer.proof import proof
from dlcontainer.publish.catalogue import facts
from dlcontainer.publish.open_folder import Folder
from tests import benchseries
from tests.benchseries import Plan
from tests.unit.bench.analysis.test_session_analysis import analysed
from tests.unit.image import test_record
from tests.unit.proof import cases


def claims(kind: kinds.Kind, data: bytes) -> dict[str, object]:
    return dict(kinds.FORMS[kind].claims(data))


def test_a_session_names_its_plan_and_image(tmp_path: Path) -> None:
    path = benchseries.write(tmp_path / "s.jsonl", Plan(pairs=2, control_pairs=1))
    declared = benchseries.session(Plan()).declared
    wanted = {"plan": declared.plan_digest, "image": declared.image_sha256}
    assert all(wanted.values())
    assert claims("bench", path.read_bytes()) == wanted


def test_a_proof_names_its_plan_and_image(tmp_path: Path) -> None:
    ours = cases.image(sha256="c" * 64)
    path = cases.write(tmp_path / "proof.json", cases.content(image=ours))
    image = proof.read(path).content.image
    assert image is not None
    assert claims("proof", path.read_bytes()) == {"plan": image.plan, "image": "c" * 64}


def test_a_record_names_its_plan_and_image(tmp_path: Path) -> None:
    path = test_record.write(tmp_path, test_record.TREE)
    read = record.opened(path)
    assert read is not None
    wanted = {"plan": read.record.digest, "image": read.record.image.sha256}
    assert all(wanted.values())
    assert claims("record", path.read_bytes()) == wanted


def test_the_catalogue_shows_the_verdicts_of_a_report(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, Plan())
    release = tmp_path / "x"
    release.mkdir()
    body = json_report.report([analysis], [])
    (release / facts.VERDICTS).write_text(json.dumps(body))
    image = analysis.series.session.declared.image_sha256
    with Folder.at(release) as folder:
        shown = facts._verdicts(folder, facts.VERDICTS, {"image": image})
    assert shown["verdicts"] == ("train: EQUIVALENT. EQUIVALENT within 2 %, in this session",)
