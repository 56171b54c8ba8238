"""A release of a published tree, held against what is demanded of a signed image.

The bytes in the tree are what is verified: what a publisher was given may change while it is read.
"""

from collections.abc import Callable
from dataclasses import dataclass

from dlcontainer.errors import ChecksFailedError, DlcontainerError, PublishError
from dlcontainer.evidence import folder, policy, signing
from dlcontainer.evidence.image_signature import SignatureEngine
from dlcontainer.evidence.policy import EvidenceDemand, OpenImage, PolicyResult
from dlcontainer.evidence.trust_anchors import TrustAnchors
from dlcontainer.publish.offered import PublishCandidate
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.staging import EVIDENCE
from dlcontainer.publish.tree import contents
from dlcontainer.system import digests, foreign_files

_MOST_RECORD_BYTES = 16_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class SignatureDemand:
    """What is demanded, whose signatures count, and the engine that verifies."""

    trust: TrustAnchors
    demand: EvidenceDemand
    engine: Callable[[], SignatureEngine]
    note: Callable[[str], None]

    def of_offered(self, candidate: PublishCandidate) -> PolicyResult:
        """Hold what is offered against the demand; raises ChecksFailedError, PublishError."""
        evidence = signing.beside(
            candidate.path, candidate.image.fileno(), candidate.record, note=self.note
        )
        if evidence.subject.sha256 != candidate.record.record.image.sha256:
            raise PublishError(
                f"{candidate.path} does not match its record",
                next_step="build the image again",
            )
        return policy.check(evidence, self.trust, self.demand, self.engine())

    def held(self, release: Folder) -> PolicyResult:
        """Hold a release's image and evidence against the demand; raises ChecksFailedError."""
        description = contents.described(release)
        path = release.path / contents.IMAGE
        if release.info(contents.TREE) is not None:
            raise ChecksFailedError(
                f"{release.path} can't be verified: it is an unpacked image",
                why="the signature is in the image file that these files were unpacked from",
                next_step="publish its image file again",
            )
        with release.open(contents.IMAGE) as file, release.open("record.json") as written:
            sha256 = digests.of_open(file, tell=self.note)
            if sha256 != description.image:
                raise ChecksFailedError(f"{path} is not the image that was published")
            record = foreign_files.content(written, _MOST_RECORD_BYTES)
            image = OpenImage(
                path=path,
                image=file.fileno(),
                subject=policy.subject_of(path, sha256, foreign_files.loads(record)),
                record=record,
                offers=folder.offers(release.path / EVIDENCE),
            )
            return policy.check(image, self.trust, self.demand, self.engine())

    def admit(self, release: Folder, module: str) -> None:
        """Let a release become live; raises PublishError where it may not."""
        try:
            self.held(release)
        except (ChecksFailedError, PublishError, OSError, ValueError) as error:
            raise PublishError(
                f"{module} does not become live: it does not meet the site's signing rules",
                why=f"{error.what}: {error.why}"
                if isinstance(error, DlcontainerError) and error.why
                else str(getattr(error, "what", None) or error),
                next_step="sign the image and its evidence (docs/centre/signing.md), then publish "
                "the signed image",
            ) from None
