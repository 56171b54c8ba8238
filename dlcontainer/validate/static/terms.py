"""The rule of what may not be passed on: vendors' products, by the texts of their licences."""

from collections.abc import Iterator

from dlcontainer.image.licensing import redistribution
from dlcontainer.validate.static.finding import RuleFinding
from dlcontainer.validate.static.questions import StaticQuestions


def redistribution_terms(image: StaticQuestions) -> Iterator[RuleFinding]:
    """Name the products that are not free to pass on, those of a verdict together."""
    by_verdict: dict[str, list[redistribution.TermsFinding]] = {}
    for finding in redistribution.findings(image.contents):
        by_verdict.setdefault(finding.verdict, []).append(finding)
    for verdict, findings in by_verdict.items():
        products = ", ".join(finding.product for finding in findings)
        holder = f" ({findings[0].holder})" if len(findings) == 1 else ""
        yield RuleFinding(
            level="not decided" if verdict == "not decided" else "note",
            file=next((finding.files[0] for finding in findings if finding.files), ""),
            what=f"holds {products}{holder}, {verdict}",
            why=findings[0].terms
            if len(findings) == 1
            else "who passes the image on accepts their terms: `dlcontainer inspect` has each",
        )
