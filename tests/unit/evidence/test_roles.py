"""A key counts for what it is given for: a measuring team's releases no image."""

from pathlib import Path

import pytest

from dlcontainer.config.field_types import KeyRole
from dlcontainer.errors import ChecksFailedError
from dlcontainer.evidence import keys
from dlcontainer.evidence.kinds import KINDS, Kind
from dlcontainer.evidence.policy import EvidenceDemand, OpenImage, PolicyResult, check
from dlcontainer.evidence.signing import Sealer
from dlcontainer.evidence.trust_anchors import TrustAnchors, TrustedKey
from tests.signers import Authority, Pair, pair
from tests.unit.evidence.test_policy import SUBJECT, made
from tests.unit.evidence.test_strangers import Verifying


def trust(*given: tuple[Sealer, tuple[KeyRole, ...]]) -> TrustAnchors:
    return TrustAnchors(
        keys=tuple(TrustedKey(key=one.key.public, roles=roles) for one, roles in given)
    )


class Signers:
    """A release engineer, and a measuring team."""

    def __init__(self, tmp: Path) -> None:
        self.tmp = tmp
        self.release, self.bench = (
            Sealer(key=keys.read_private(pair(tmp, name).private)) for name in ("release", "bench")
        )

    @property
    def roles(self) -> TrustAnchors:
        return trust((self.release, ("image",)), (self.bench, ("validate", "bench", "report")))

    def check(
        self,
        kind: Kind,
        by: Sealer,
        *,
        image: Sealer | None = None,
        by_roles: TrustAnchors | None = None,
    ) -> PolicyResult:
        """Hold an image that `image` signed, with evidence by `by`."""
        piece = made(kind, by)
        given = OpenImage(
            path=Path("x.sif"), image=0, subject=SUBJECT, record=None, offers=[piece.offer]
        )
        good = (image.key.public.pem,) if image else ()
        demand = EvidenceDemand(signed=image is not None, kinds=(kind,))
        return check(given, by_roles or self.roles, demand, Verifying(self.tmp, good).engine)


@pytest.fixture
def signers(tmp_path: Path) -> Signers:
    return Signers(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_each_key_counts_for_its_own(signers: Signers, kind: Kind) -> None:
    by = signers.release if kind in ("record", "bill") else signers.bench
    roles = (
        signers.roles
        if kind != "proof"
        else trust((signers.release, ("image",)), (signers.bench, ("proof",)))
    )
    assert signers.check(kind, by, image=signers.release, by_roles=roles).signer


def test_a_bench_key_alone_releases_no_image(signers: Signers) -> None:
    with pytest.raises(ChecksFailedError) as caught:
        signers.check("bench", signers.bench, image=signers.bench)
    assert "is signed with a key that may not sign images" in caught.value.what
    assert "bench.key" in str(caught.value.why)
    # A path alone counts for everything, as it did before there were roles.
    everything = TrustAnchors(keys=(TrustedKey(key=signers.bench.key.public),))
    assert signers.check("bench", signers.bench, image=signers.bench, by_roles=everything).signer


@pytest.mark.parametrize("kind", ["record", "bill"])
def test_nor_does_it_write_its_record(signers: Signers, kind: Kind) -> None:
    with pytest.raises(ChecksFailedError) as caught:
        signers.check(kind, signers.bench)
    assert f"its signer's key does not count for {kind}" in str(caught.value)


@pytest.mark.parametrize("kind", ["validate", "proof", "bench", "report"])
def test_nor_does_a_release_key_measure(signers: Signers, kind: Kind) -> None:
    with pytest.raises(ChecksFailedError) as caught:
        signers.check(kind, signers.release)
    assert f"its signer's key does not count for {kind}" in str(caught.value)


def test_a_key_that_is_given_twice_has_both_roles(signers: Signers) -> None:
    both = trust((signers.release, ("image",)), (signers.release, ("bench",)))
    assert signers.check("bench", signers.release, image=signers.release, by_roles=both).signer


def test_a_certificate_gives_a_key_no_more_than_its_roles(tmp_path: Path) -> None:
    """A bench key that has a certificate for signing code too signs an image with it."""
    authority = Authority.made(tmp_path / "centre")
    pair_: Pair = authority.signer("Bench")
    bench = Sealer(key=keys.read_private(pair_.private), certificate=pair_.public.read_bytes())
    signers = Signers(tmp_path)
    piece = made("record", bench)
    given = OpenImage(path=Path("x"), image=0, subject=SUBJECT, record=None, offers=[piece.offer])
    known = TrustAnchors(
        keys=(TrustedKey(key=bench.key.public, roles=("bench",)),),
        roots=authority.roots.read_bytes(),
    )
    assert bench.certificate is not None
    engine = Verifying(signers.tmp, (bench.certificate,)).engine
    verified = check(given, known, EvidenceDemand(signed=True), engine)
    assert verified.evidence == ()
