"""Validate without a run: every rule over an image's files."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from dlcontainer.errors import ChecksFailedError
from dlcontainer.sites.site import Site
from dlcontainer.system.process import Runner
from dlcontainer.validate.static import image_source
from dlcontainer.validate.static.finding import LEVELS, StaticFinding
from dlcontainer.validate.static.questions import StaticQuestions
from dlcontainer.validate.static.rules import RULES


def validate(
    image: Path,
    site: Site,
    environ: Mapping[str, str],
    runner: Runner,
    on_begin: Callable[[str], None] = lambda _: None,
) -> list[StaticFinding]:
    """Hold an image's files against a site; the worst findings first.

    Raises what `image_source.opened` and `findings_of` raise.
    """
    with image_source.opened(image, site, environ, runner) as source:
        questions = StaticQuestions(source=source, site=site, environ=environ, runner=runner)
        return findings_of(questions, on_begin)


def findings_of(
    questions: StaticQuestions, on_begin: Callable[[str], None] = lambda _: None
) -> list[StaticFinding]:
    """Ask all rules; the worst findings first. Raises ChecksFailedError for an unreadable tree."""
    try:
        findings = list(_findings(questions, on_begin))
    except OSError as error:
        raise ChecksFailedError(
            f"the image's files can't be read: {error}",
            next_step="copy the image to a local disk; TMPDIR must have room for its libraries",
        ) from None
    return sorted(findings, key=lambda finding: LEVELS.index(finding.level))


def _findings(
    questions: StaticQuestions, on_begin: Callable[[str], None]
) -> Iterator[StaticFinding]:
    for name, rule in RULES.items():
        on_begin(name)
        is_over = False
        for finding in rule.find(questions):
            is_over = is_over or (rule.ends and finding.level == "error")
            yield StaticFinding(
                rule=name,
                level=finding.level,
                file=finding.file,
                what=finding.what,
                why=finding.why,
                fix=finding.fix,
            )
        if is_over:
            return


def counted(findings: Sequence[StaticFinding]) -> str:
    """Count findings by level: 1 error, 0 warnings, 2 not decided, 3 notes."""
    parts = []
    for level in LEVELS:
        count = sum(finding.level == level for finding in findings)
        parts.append(f"{count} {level}{'' if level == 'not decided' or count == 1 else 's'}")
    return ", ".join(parts)


def require_ok(findings: Sequence[StaticFinding]) -> None:
    """Raise ChecksFailedError that names the rules that found errors, if there are any."""
    errors = [finding for finding in findings if finding.level == "error"]
    if errors:
        rules = ", ".join(dict.fromkeys(finding.rule for finding in errors))
        raise ChecksFailedError(
            f"it will not run there: {counted(findings)}; errors of {rules}",
            next_step=errors[0].fix or "read the lines marked error above",
        )
