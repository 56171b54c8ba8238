"""Records as fields, and back."""

from dlcontainer.bench.samples.encoding import declared_sha256, to_fields
from dlcontainer.bench.samples.records import AttestedStack, End, SessionHeader
from tests import benchseries
from tests.benchseries import Plan
from tests.unit.bench.samples.test_writer import sample


def test_the_same_declaration_has_the_same_hash() -> None:
    def hashed(plan: Plan) -> str:
        return declared_sha256(benchseries.session(plan).declared)

    assert hashed(Plan()) == hashed(Plan(ratio=1.5))
    assert hashed(Plan()) != hashed(Plan(margin=0.03))
    assert hashed(Plan()) != hashed(Plan(pairs=16))


def test_every_kind_round_trips_through_its_fields() -> None:
    for record in (
        benchseries.session(Plan()),
        AttestedStack(arm="native", facts={"a": {"b": [1, None, "x"]}}),
        sample(3),
        End(complete=False, samples=2, reason="x"),
    ):
        kind = to_fields(record)
        assert kind["kind"] in {"session", "stack", "sample", "end"}
        assert isinstance(record, SessionHeader) == ("schema" in kind)
