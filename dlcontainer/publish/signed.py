"""A release of a published tree, held against what is demanded of a signed image.

The bytes in the tree are what is verified: what a publisher was given may change while it is read.
"""

from collections.abc import Callable
from dataclasses import dataclass

from dlcontainer.errors import ChecksFailedError, DlcontainerError, PublishError
from dlcontainer.evidence import folder, policy, signing
from dlcontainer.evidence.image_signature import Engine
from dlcontainer.evidence.policy import Demand, Given, Verified
from dlcontainer.evidence.trust import Trust
from dlcontainer.publish.offered import Offered
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.staging import EVIDENCE
from dlcontainer.publish.tree import contents
from dlcontainer.system import digests, foreign_files

_MOST_RECORD_BYTES = 16_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Asking:
    """What is demanded, whose signatures count, and the engine that verifies."""

    trust: Trust
    demand: Demand
    engine: Callable[[], Engine]
    told: Callable[[str], None]

    def of_offered(self, given: Offered) -> Verified:
        """Hold what is offered against the demand; raises ChecksFailedError, PublishError."""
        held = signing.beside(given.path, given.image.fileno(), given.record, told=self.told)
        if held.subject.sha256 != given.record.record.image.sha256:
            raise PublishError(
                f"{given.path} is not the image of its record", next_step="build the image again"
            )
        return policy.check(held, self.trust, self.demand, self.engine())

    def held(self, release: Folder) -> Verified:
        """Hold a release's image and evidence against the demand; raises ChecksFailedError."""
        said = contents.described(release)
        path = release.path / contents.IMAGE
        if release.info(contents.TREE) is not None:
            raise ChecksFailedError(
                f"{release.path} can't be verified: it is an unpacked image",
                why="the signature is in the image file, of which these files were made",
                next_step="publish its image file again",
            )
        with release.open(contents.IMAGE) as file, release.open("record.json") as written:
            sha256 = digests.of_open(file, tell=self.told)
            if sha256 != said.image:
                raise ChecksFailedError(f"{path} is not the image that was published")
            record = foreign_files.content(written, _MOST_RECORD_BYTES)
            given = Given(
                path=path,
                image=file.fileno(),
                subject=policy.subject_of(path, sha256, foreign_files.loads(record)),
                record=record,
                offers=folder.offers(release.path / EVIDENCE),
            )
            return policy.check(given, self.trust, self.demand, self.engine())

    def admit(self, release: Folder, module: str) -> None:
        """Let a release become live; raises PublishError where it may not."""
        try:
            self.held(release)
        except (ChecksFailedError, PublishError, OSError, ValueError) as error:
            raise PublishError(
                f"{module} does not become live: it is not what is demanded here",
                why=f"{error.what}: {error.why}"
                if isinstance(error, DlcontainerError) and error.why
                else str(getattr(error, "what", None) or error),
                next_step="have it signed, with its evidence (docs/signing.md), and publish that",
            ) from None
