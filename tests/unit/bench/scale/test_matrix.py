"""The matrix file: what is refused, what becomes a cell, what is left out and why."""

from pathlib import Path

import pytest

from dlcontainer.bench.scale import cells, matrix
from dlcontainer.bench.scale.cells import MatrixCell
from dlcontainer.bench.scale.matrix import FACTORS, Matrix
from dlcontainer.errors import ConfigError
from tests.values import ROOT

HEAD = "schema: 1\nreference: {subject: native, open: files}\n"


def read(folder: Path, text: str) -> Matrix:
    path = folder / 'it\'s a "matrix" $(x).yaml'
    path.write_text(text)
    return matrix.read(path)


def test_the_example_is_read_and_leaves_nothing_out_silently() -> None:
    found = matrix.read(ROOT / "docs/measure/scale-laptop.yaml")
    expansion = cells.expand(found)
    assert len(expansion.cells) + len(expansion.left_out) == found.factors.size
    assert {cell.ranks for cell in expansion.cells} == {1, 4}
    assert all(gone.why for gone in expansion.left_out)


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("factors: {rank: [1]}\n", ":3:11", "did you mean 'ranks'"),
        ("factors: {ranks: [0]}\n", ":3:19", "factors.ranks[0]"),
        ("factors: {ranks: []}\n", ":3:11", "an empty list"),
        ("factors: {ranks: [2, 2]}\n", ":3:11", "is listed twice"),
        ("factors: {ranks: ['2']}\n", ":3:19", "remove the quotes"),
        ("factors: {open: [squashfuse-ll]}\n", ":3:18", "squashfuse_ll"),
        ("factors: {state: [hot]}\n", ":3:19", "'cold'"),
        ("factors: {subject: [nativ, native]}\n", "", "did you mean 'native'"),
        ('factors: {subject: ["a\'; rm -rf /"]}\n', ":3:21", "not a name"),
        ("factors: {subject: [image]}\n", "", "native is not among the factor's values"),
        ("factors: {}\nsubjects: {image: {image: x.sif}}\n", "", "is reserved for"),
        ("factors: {}\nsubjects: {a: {}}\n", ":4:12", "either image: FILE.sif or prefix: FOLDER"),
        ("factors: {}\nstand_in: {latency_ms: -1}\n", ":4:12", "stand_in.latency_ms"),
        ("factors: {}\nrounds: 0\n", ":4:1", "rounds"),
    ],
)
def test_mistakes_are_named_with_their_place(
    tmp_path: Path, text: str, place: str, says: str
) -> None:
    with pytest.raises(ConfigError) as error:
        read(tmp_path, HEAD + text)
    assert says in str(error.value)
    assert f".yaml{place}" in str(error.value)


def test_too_many_combinations_are_refused(tmp_path: Path) -> None:
    many = ", ".join(str(number) for number in range(1, 600))
    with pytest.raises(ConfigError, match="2396 combinations; at most 2048"):
        read(tmp_path, f"{HEAD}factors: {{ranks: [{many}]}}\n")


def test_every_combination_is_a_cell_or_left_out(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        HEAD + "factors:\n  where: [shared, local, tmpfs]\n"
        "  open: [files, engine, kernel, squashfuse, squashfuse_ll]\n  mount: [rank, node, kept]\n"
        "  state: [cold, warm]\n  start: [storm, natural]\n  ranks: [1, 3]\n  nodes: [1, 2]\n",
    )
    expansion = cells.expand(found)
    assert len(expansion.cells) + len(expansion.left_out) == found.factors.size
    assert len(set(expansion.cells)) == len(expansion.cells)
    assert not any(cells.senseless(cell, found) for cell in expansion.cells)
    why = {gone.why for gone in expansion.left_out}
    for words in (
        *("the engine opens images", "nothing in it is cold", "the same as: ", "this node"),
        *("mounts end with a launch", "kept is warm"),
    ):
        assert any(words in reason for reason in why), words


def cell(**changes: object) -> MatrixCell:
    values = dict(
        zip(FACTORS, ("image", "shared", "engine", "rank", "cold", "storm", 3, 1), strict=True)
    )
    return MatrixCell(**{**values, **changes})  # type: ignore[arg-type]


def test_what_can_not_be_had_here_is_left_out_with_its_reason(tmp_path: Path) -> None:
    everything = cells.expand(read(tmp_path, HEAD + "factors: {}\n"))
    left = everything.without(lambda own: "no engine" if own.open == "engine" else "")
    assert len(left.cells) + len(left.left_out) == len(everything.cells) + len(everything.left_out)
    assert "no engine" in {gone.why for gone in left.left_out}
    assert all(own.open != "engine" for own in left.cells)


def test_a_reference_is_the_cell_that_differs_in_nothing_else(tmp_path: Path) -> None:
    reference = read(tmp_path, HEAD + "factors: {}\n").reference
    native = cell(subject="native", open="files", mount="none")
    other = cell(subject="native", open="files", mount="none", ranks=1)
    assert cells.reference_of(cell(), reference, [other, cell(), native]) == native
    assert cells.reference_of(cell(mount="node"), reference, [native]) == native
    assert cells.reference_of(cell(), reference, [other]) is None
    assert cells.reference_of(native, reference, [native]) == native


def test_what_nobody_wants_is_skipped_and_said(tmp_path: Path) -> None:
    text = HEAD + "skip: [{subject: image, open: files}]\nfactors: {ranks: [1, 2]}\n"
    expansion = cells.expand(read(tmp_path, text))
    assert {(own.subject, own.open) for own in expansion.cells} == {
        ("native", "files"),
        ("image", "engine"),
    }
    assert [gone.why for gone in expansion.left_out].count("the matrix skips it") == 2
    with pytest.raises(ConfigError, match="skip"):
        read(tmp_path, HEAD + "skip: [{opened: files}]\nfactors: {}\n")
