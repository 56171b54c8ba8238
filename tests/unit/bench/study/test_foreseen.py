"""What a study's first points foretell of its later ones."""

from pathlib import Path

from dlcontainer.bench.study import foreseen, study_reader
from tests import studies
from tests.studies import Planted


def test_any_network_whose_parameters_were_counted(tmp_path: Path) -> None:
    """A study of `residual`, of which no publication says how large it is."""
    says = Planted(attested={"parameters": 78_042})
    study = study_reader.read(studies.write(tmp_path / "study", studies.plan(), says))
    assert study.parameters == 78_042
    outlook = foreseen.of(study, "container")
    assert (outlook.reason, outlook.ranks) == ("", (1, 2))
    assert [(point.strategy, point.ranks) for point in outlook.points] == [("dp4", 4)]


def test_a_network_of_unknown_size(tmp_path: Path) -> None:
    study = study_reader.read(studies.write(tmp_path / "study", studies.plan()))
    assert study.parameters is None
    outlook = foreseen.of(study, "container")
    assert outlook.points == ()
    assert outlook.reason == "the sessions don't say how many parameters the network has"
