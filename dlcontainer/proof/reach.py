"""How far a site got, by the files that show it: rendered, built, validated, ran, ran over nodes.

Only proofs count, and what `validate --json` printed. Nothing is remembered, and a stage that no
file shows is said not to be shown. The lines are the same for `site show`, a module's help and the
report: `lines` gives them.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.errors import ChecksFailedError
from dlcontainer.image import checks_file
from dlcontainer.planning import built_for
from dlcontainer.proof import judge, proof
from dlcontainer.proof.judge import ProofCase, ProofFinding
from dlcontainer.proof.proof import Proof
from dlcontainer.sites.site import Site
from dlcontainer.system import foreign_files, guarded_files

NOT_SHOWN = "not shown"
# Root's word counts everywhere.
_TRUSTED = frozenset({0})
_MOST_BYTES = 1_000_000
_MOST_REFUSED = 5
# A job leaves a folder of its own, with the proof in it.
_PATTERNS = ("*.json", f"*/{proof.FILE}")


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidationReport:
    """What `validate --json` said of an image for a site: that no check failed, and when."""

    path: Path
    plan: str
    site: str | None
    date: str


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceFiles:
    """What was given: proofs, validations, and why a file does not count."""

    proofs: tuple[Proof, ...] = ()
    validated: tuple[ValidationReport, ...] = ()
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ProofStage:
    """One stage of the way: the date that a file shows for it, or None."""

    name: str
    date: str | None
    detail: str


def read(paths: Iterable[Path], builders: Iterable[str] = ()) -> EvidenceFiles:
    """Read proofs and validations: files, or folders that jobs leave theirs in.

    A file that is named must be good; one of a folder that is not is refused with its reason. Files
    count by their owner: this user, root, and the site's `builders`.
    """
    trusted = frozenset(builders)
    proofs: dict[str, Proof] = {}
    validated, refused = [], []
    for path in paths:
        alone = not path.is_dir() or (path / proof.FILE).exists()
        files = (
            [path] if alone else sorted({match for text in _PATTERNS for match in path.glob(text)})
        )
        for entry in files:
            try:
                validation = _validated(entry, trusted)
                if validation is not None:
                    validated.append(validation)
                    continue
                read_one = proof.read(entry)
                _require_owner(read_one.path, read_one.owner, trusted)
                proofs[read_one.digest] = read_one
            except ChecksFailedError as error:
                if alone:
                    raise
                refused.append(str(error).splitlines()[0])
    return EvidenceFiles(
        proofs=tuple(proofs.values()), validated=tuple(validated), refused=tuple(refused)
    )


def _validated(path: Path, trusted: frozenset[str]) -> ValidationReport | None:
    """Read what `validate --json` printed; None for another file."""
    if path.is_dir():
        return None
    try:
        with foreign_files.opened(path) as file:
            owner = os.fstat(file.fileno()).st_uid
            body = foreign_files.loads(foreign_files.content(file, _MOST_BYTES))
    except (OSError, ValueError):
        return None
    if not isinstance(body, dict) or body.get("schema") != checks_file.VALIDATED:
        return None
    _require_owner(path, owner, trusted)
    try:
        report = checks_file.validation(body)
    except ValueError as error:
        raise ChecksFailedError(
            f"{path}: not what `validate --json` prints", why=str(error)
        ) from None
    if not report.ok or report.plan is None or report.date is None:
        raise ChecksFailedError(f"{path}: a check failed, or its plan or date is missing")
    return ValidationReport(path=path, plan=report.plan, site=report.site, date=report.date)


def _require_owner(path: Path, uid: int, trusted: frozenset[str]) -> None:
    name = guarded_files.name_of(uid)
    if uid not in _TRUSTED | {os.getuid()} and name not in trusted:
        raise ChecksFailedError(
            f"{path} belongs to {name}, and anyone can write a proof",
            next_step=f"add {name} to engine.builders in the site config, or run the job yourself",
        )


def stages(files: EvidenceFiles, site: Site) -> tuple[ProofStage, ...]:
    """Return the stages in their order, each with the date of the last file that shows it."""
    judged = [(proof, judge.judge(ProofCase(proof=proof, site=site))) for proof in files.proofs]
    fit = [(proof, findings) for proof, findings in judged if _fits(findings)]
    plans = {proof.content.image.plan for proof, _ in fit if proof.content.image}
    checked = [
        validation
        for validation in files.validated
        if validation.site == built_for.named(site) or validation.plan in plans
    ]
    ran = [
        (proof, findings)
        for proof, findings in fit
        if _ran(findings, has_gpus=site.accelerator is not None)
    ]
    crossed = [proof for proof, findings in ran if _states(findings).get("network") == "ok"]
    most = max((len(proof.nodes) for proof in crossed), default=0)
    where = "its GPUs" if site.accelerator else "its nodes"
    over = f"ran on {most or 'several'} nodes over its fabric"
    return (
        ProofStage(
            name="rendered", date="", detail="its file is valid: plans and texts come from it"
        ),
        _stage("built", [proof.content.date for proof, _ in fit], "an image for it ran in a job"),
        _stage(
            "validated", [validation.date for validation in checked], "no check of validate failed"
        ),
        _stage(f"ran on {where}", [proof.content.date for proof, _ in ran], _kinds(ran)),
        _stage(
            over,
            [proof.content.date for proof in crossed if len(proof.nodes) == most],
            "NCCL named the fabric on every rank",
        ),
    )


def lines(files: EvidenceFiles, site: Site) -> list[str]:
    """Return the stages as lines, for `site show`, a module's help and the report."""
    texts = []
    for stage in stages(files, site):
        if stage.date is None:
            texts.append(f"{stage.name}: {NOT_SHOWN}")
        else:
            date = f"{stage.date[:10]}, " if stage.date else ""
            texts.append(f"{stage.name}: {date}{stage.detail}")
    shown = files.refused[:_MOST_REFUSED]
    more = len(files.refused) - len(shown)
    texts += [f"not counted: {reason}" for reason in shown]
    return [*texts, *([f"not counted: {more} more"] if more else [])]


def _stage(name: str, dates: list[str], detail: str) -> ProofStage:
    return ProofStage(name=name, date=max(dates) if dates else None, detail=detail)


def _states(findings: tuple[ProofFinding, ...]) -> dict[str, str]:
    return {finding.name: finding.state for finding in findings}


def _fits(findings: tuple[ProofFinding, ...]) -> bool:
    return _states(findings).get("site") == "ok"


def _ran(findings: tuple[ProofFinding, ...], *, has_gpus: bool) -> bool:
    states = _states(findings)
    required = ("ranks", "devices") if has_gpus else ("ranks",)
    return all(states.get(name) == "ok" for name in required) and states.get("sums") != "failed"


def _kinds(ran: list[tuple[Proof, tuple[ProofFinding, ...]]]) -> str:
    details = {
        finding.detail
        for _, findings in ran
        for finding in findings
        if finding.name == "devices" and finding.state == "ok"
    }
    return "; ".join(sorted(details)) or "all ranks met"
