"""Artefacts that refer to an image: with a registry's own list, without, and two who push."""

import json
from collections.abc import Iterator

import pytest

from dlcontainer.errors import PublishError
from dlcontainer.registry import referrers
from dlcontainer.registry.artifacts import ArtifactClient
from dlcontainer.registry.connection import RegistryAccess
from tests import fakeartifacts
from tests.fakeartifacts import FakeArtifacts
from tests.fakeregistry import sha256

SUBJECT = f"sha256:{'ab' * 32}"
TAG = SUBJECT.replace(":", "-")
KIND = "application/vnd.dlcontainer.evidence.bench.v1"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeArtifacts]:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with fakeartifacts.serving() as running:
        yield running


@pytest.fixture
def client(fake: FakeArtifacts) -> Iterator[ArtifactClient]:
    with ArtifactClient(reference=fake.reference(), access=RegistryAccess(), pushes=True) as made:
        yield made


def manifest(note: str) -> bytes:
    body = {"artifactType": KIND, "subject": {"digest": SUBJECT}, "note": note}
    return json.dumps(body).encode()


def indexed(fake: FakeArtifacts) -> set[str]:
    return {one["digest"] for one in json.loads(fake.manifests[TAG])["manifests"]}


def test_a_registry_that_lists_them_needs_no_index(
    fake: FakeArtifacts, client: ArtifactClient
) -> None:
    fake.lists = True
    digest = referrers.attach(client, SUBJECT, manifest("a"), KIND)
    assert TAG not in fake.manifests
    (found,) = referrers.found(client, SUBJECT, print)
    assert (found.digest, found.artifact_type) == (digest, KIND)


def test_without_a_list_an_index_has_each_once(fake: FakeArtifacts, client: ArtifactClient) -> None:
    made = {referrers.attach(client, SUBJECT, manifest(note), KIND) for note in "aab"}
    assert len(made) == 2
    assert indexed(fake) == made
    assert {one.digest for one in referrers.found(client, SUBJECT, print)} == made


def test_an_index_that_was_overwritten_is_seen_and_written_again(
    fake: FakeArtifacts, client: ArtifactClient
) -> None:
    """Another, who read the index before us, writes it after us: twice."""
    other, left = f"sha256:{'cd' * 32}", [1, 2]

    def overwrite(name: str) -> None:
        if name == TAG and left:
            left.pop()
            entry = {"digest": other, "size": 1, "artifactType": KIND}
            fake.manifests[TAG] = json.dumps({"manifests": [entry]}).encode()

    fake.after_put = overwrite
    digest = referrers.attach(client, SUBJECT, manifest("a"), KIND)
    assert left == []
    assert indexed(fake) == {digest, other}


def test_what_an_index_lost_for_good_is_found_and_put_back(
    fake: FakeArtifacts, client: ArtifactClient
) -> None:
    lost = referrers.attach(client, SUBJECT, manifest("lost"), KIND)
    del fake.manifests[TAG]
    assert [one.digest for one in referrers.found(client, SUBJECT, print)] == [lost]
    kept = referrers.attach(client, SUBJECT, manifest("next"), KIND)
    assert indexed(fake) == {lost, kept}


def test_what_is_no_entry_is_passed_over(fake: FakeArtifacts, client: ArtifactClient) -> None:
    bad = [7, {}, {"digest": "x", "size": 1}, {"digest": SUBJECT, "size": "1"}]
    fake.manifests[TAG] = json.dumps({"manifests": bad}).encode()
    fake.manifests[f"{TAG}.000000000000"] = b"no JSON"
    (odd,) = referrers.found(client, SUBJECT, print)
    assert odd.artifact_type == ""


def test_a_blob_that_is_not_its_digest_is_refused(client: ArtifactClient) -> None:
    with pytest.raises(PublishError, match=r"rejects the request \(HTTP 400\)"):
        client.upload(SUBJECT, b"something else")


def test_a_blob_that_is_there_is_not_sent_again(
    fake: FakeArtifacts, client: ArtifactClient
) -> None:
    for _ in range(2):
        client.upload(sha256(b"data"), b"data")
    assert sum("upload/1" in line for line in fake.asked) == 1
