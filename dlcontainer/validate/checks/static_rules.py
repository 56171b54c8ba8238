"""The image's files against the site, by the static rules: what would fail before anything runs."""

from collections.abc import Iterator, Sequence

from dlcontainer.errors import BuildError, ChecksFailedError, EngineError
from dlcontainer.image.contents import SquashfsTree
from dlcontainer.planning import built_for
from dlcontainer.sites.site import Site
from dlcontainer.system.process import quote
from dlcontainer.validate.checks.check import CheckOutcome
from dlcontainer.validate.inspected import ImageInspection, MissingAnswer
from dlcontainer.validate.static import static
from dlcontainer.validate.static.finding import StaticFinding, and_more
from dlcontainer.validate.static.image_source import ImageSource
from dlcontainer.validate.static.questions import StaticQuestions

# Of an adopted image nobody promised that its MPI is used: it was only seen there.
_NOT_PROMISED = "mpi-library"


def files(image: ImageInspection) -> Iterator[CheckOutcome]:
    """Hold the files against the site's rules: a line for each rule with errors, or their count."""
    if image.site is None:
        return
    try:
        findings = static.findings_of(_questions(image, image.site))
    except (BuildError, ChecksFailedError, EngineError) as error:
        why = error.why.splitlines()[-1] if error.why else ""
        yield CheckOutcome(ok=None, detail=f"{error.what}{f': {why}' if why else ''}")
        return
    errors: dict[str, list[StaticFinding]] = {}
    for finding in findings:
        if finding.level == "error":
            errors.setdefault(finding.rule, []).append(finding)
    content = image.content
    is_foreign = not isinstance(content, MissingAnswer) and content.is_foreign
    for rule, of_rule in errors.items():
        is_open = is_foreign and rule == _NOT_PROMISED
        yield _error(rule, of_rule, is_open=is_open, image=image)
    if not errors:
        yield CheckOutcome(ok=True, detail=_summary(findings, image))


def _questions(image: ImageInspection, site: Site) -> StaticQuestions:
    execution = image.context.execution
    environ = execution.host.environ
    source = ImageSource(
        tree=SquashfsTree.of(image.image, environ, execution.runner),
        arch=image.arch,
        record=image.record,
    )
    return StaticQuestions(source=source, site=site, environ=environ, runner=execution.runner)


def _error(
    rule: str, findings: Sequence[StaticFinding], *, is_open: bool, image: ImageInspection
) -> CheckOutcome:
    first = findings[0]
    detail = f"{and_more([finding.what for finding in findings])}; {first.why}"
    if is_open:
        return CheckOutcome(ok=None, of=rule, detail=detail)
    return CheckOutcome(ok=False, of=rule, detail=detail, next_step=first.fix or _read(image))


def _summary(findings: Sequence[StaticFinding], image: ImageInspection) -> str:
    warned = dict.fromkeys(finding.rule for finding in findings if finding.level == "warning")
    of_rules = f"; warnings of {', '.join(warned)}: {_read(image)}" if warned else ""
    return f"{static.counted(findings)} by the static rules{of_rules}"


def _read(image: ImageInspection) -> str:
    """Return the line that shows all findings."""
    site = built_for.named(image.site) if image.site else ""
    return quote(["dlcontainer", "validate", str(image.image), "--site", site, "--static"])
