"""The rule of what may not be passed on: vendors' products, by the texts of their licences."""

from collections.abc import Iterator

from dlcontainer.image.licensing import redistribution
from dlcontainer.validate.static.finding import RuleFinding
from dlcontainer.validate.static.questions import StaticQuestions


def redistribution_terms(image: StaticQuestions) -> Iterator[RuleFinding]:
    """Name each product that is not free to pass on, once."""
    for finding in redistribution.findings(image.contents):
        yield RuleFinding(
            level="not decided" if finding.verdict == "not decided" else "note",
            file=finding.files[0] if finding.files else "",
            what=f"holds {finding.product} ({finding.holder}), {finding.verdict}",
            why=finding.terms,
        )
