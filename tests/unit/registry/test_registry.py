"""Asking a registry: what is there, for which machine, and what a tag names by now."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.errors import BuildError
from dlcontainer.registry.base_image import check, find_digest
from dlcontainer.registry.client import Client
from dlcontainer.registry.connection import LIMIT, RegistryAccess
from tests.fakeregistry import (
    DOCKER_LIST,
    DOCKER_MANIFEST,
    NAME,
    OCI_INDEX,
    OCI_MANIFEST,
    FakeRegistry,
    Reply,
    serving,
)

WAY = RegistryAccess()


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    with serving() as fake:
        yield fake


def refused(fake: FakeRegistry, digest: str, message: str, **more: str | None) -> BuildError:
    with pytest.raises(BuildError, match=message) as caught:
        check(fake.reference(digest=digest, **more), "x86_64", WAY)
    assert (caught.value.where, bool(caught.value.next_step)) == (
        f"docker://{fake.address}/{NAME}@{digest}",
        True,
    )
    return caught.value


@pytest.mark.parametrize("kind", [OCI_MANIFEST, DOCKER_MANIFEST])
def test_an_image_for_one_machine(fake: FakeRegistry, kind: str) -> None:
    digest = fake.put_image("amd64", kind=kind)
    found = check(fake.reference(digest=digest), "x86_64", WAY)
    assert (found.name, found.tag) == (f"{fake.address}/{NAME}", "1")
    assert (found.digest, found.platform_digest, found.notes) == (digest, digest, ())


@pytest.mark.parametrize("kind", [OCI_INDEX, DOCKER_LIST])
def test_an_index_of_several(fake: FakeRegistry, kind: str) -> None:
    digest = fake.put_index("arm64", "ppc64le", "amd64", kind=kind)
    only = fake.put_image("ppc64le", "only-ppc64le")
    found = check(fake.reference(digest=digest), "ppc64le", WAY)
    assert (found.digest, found.platform_digest) == (digest, only)
    accepted = fake.asked[0][2]["Accept"].split(", ")
    assert {kind, OCI_MANIFEST, DOCKER_MANIFEST} <= set(accepted)


def test_another_machine_only(fake: FakeRegistry) -> None:
    error = refused(fake, fake.put_index("ppc64le", "arm64"), "not available for linux/amd64")
    assert error.why == "available: linux/arm64, linux/ppc64le"
    error = refused(fake, fake.put_image("ppc64le"), "not available for linux/amd64")
    assert error.why == "available: linux/ppc64le"


def test_gone_while_its_tag_names_another(fake: FakeRegistry) -> None:
    now = fake.put_image("amd64")
    error = refused(fake, f"sha256:{'ab' * 32}", "does not have this image any more")
    assert f"the tag '1' is now {now}" in str(error.why)
    assert f"--set base.digest={now}" in str(error.next_step)


def test_gone_with_its_tag(fake: FakeRegistry) -> None:
    for tag in ("1", None):
        error = refused(fake, f"sha256:{'ab' * 32}", "does not have this image any more", tag=tag)
        assert error.why == "its publisher removed it, or it never existed"


@pytest.mark.parametrize("header", [True, False])
def test_a_tag_that_moved_is_noted(fake: FakeRegistry, header: bool) -> None:
    digest = fake.put_image("amd64")
    now = fake.put("1", b"another")
    path = f"/v2/{NAME}/manifests/1"
    if not header:
        fake.replies[path] = Reply(body=b"another")
    found = check(fake.reference(digest=digest), "x86_64", WAY)
    assert found.notes == (f"base: the tag '1' is now {now}; the build uses {digest}, as pinned",)
    assert ("HEAD", path) in [asked[:2] for asked in fake.asked]


def test_a_tag_that_is_gone_or_cannot_be_asked_is_noted(fake: FakeRegistry) -> None:
    digest = fake.put_image("amd64", "other")
    found = check(fake.reference(digest=digest), "x86_64", WAY)
    assert found.notes == (f"base: the tag '1' is gone; the build uses {digest}, as pinned",)
    fake.replies[f"/v2/{NAME}/manifests/1"] = Reply(status=429)
    found = check(fake.reference(digest=digest), "x86_64", WAY)
    assert "can't look up" in found.notes[0]
    assert "too many requests" in found.notes[0]


def test_without_a_tag_only_the_digest_is_asked_for(fake: FakeRegistry) -> None:
    digest = fake.put_image("amd64")
    assert check(fake.reference(tag=None, digest=digest), "x86_64", WAY).notes == ()
    assert not [path for _, path, _ in fake.asked if path.endswith("/1")]


def test_the_digest_of_a_tag(fake: FakeRegistry) -> None:
    digest = fake.put_index("amd64")
    assert find_digest(fake.reference(), "x86_64", WAY) == digest
    with pytest.raises(BuildError, match="not available for linux/ppc64le"):
        find_digest(fake.reference(), "ppc64le", WAY)
    with pytest.raises(BuildError, match="has no tag '2' in base/os"):
        find_digest(fake.reference(tag="2"), "x86_64", WAY)


def test_a_token_for_everybody(fake: FakeRegistry) -> None:
    digest = fake.put_image("amd64")
    fake.token = "an.open-token"
    fake.challenge = f'Bearer realm="http://{fake.address}/token",service="it & us",scope="x"'
    fake.replies["/token"] = Reply(body=json.dumps({"access_token": fake.token}).encode())
    check(fake.reference(digest=digest), "x86_64", WAY)
    tokens = [path for _, path, _ in fake.asked if path.startswith("/token")]
    assert tokens == ["/token?scope=repository%3Abase%2Fos%3Apull&service=it+%26+us"]


@pytest.mark.parametrize("body", [b"[]", b"{", b"{}", b'{"token": 3}', b'{"token": "a\\r\\nB: c"}'])
def test_what_is_no_token(fake: FakeRegistry, body: bytes) -> None:
    digest = fake.put_image("amd64")
    fake.token, fake.challenge = "t", f'Bearer realm="http://{fake.address}/token"'
    fake.replies["/token"] = Reply(body=body)
    refused(fake, digest, "returned no token for base/os")


@pytest.mark.parametrize("realm", ["http://e.example/token", "file:///etc/passwd", "", "//x"])
def test_no_token_is_fetched_without_tls(fake: FakeRegistry, realm: str) -> None:
    digest = fake.put_image("amd64")
    fake.token, fake.challenge = "t", f'Bearer realm="{realm}"'
    refused(fake, digest, "leads to an address without TLS")


def test_a_token_is_not_shown_elsewhere(fake: FakeRegistry) -> None:
    with serving() as other:
        digest = other.put_image("amd64")
        fake.put_image("amd64")
        path = f"/v2/{NAME}/manifests/{digest}"
        fake.replies[path] = Reply(
            status=307, headers={"Location": f"http://{other.address}{path}"}
        )
        fake.token, fake.challenge = "secret", f'Bearer realm="http://{fake.address}/token"'
        fake.replies["/token"] = Reply(body=b'{"token": "secret"}')
        check(fake.reference(digest=digest), "x86_64", WAY)
        assert [asked for asked in fake.asked if "Authorization" in asked[2]]
        assert other.asked
        assert not [asked for asked in other.asked if "Authorization" in asked[2]]


def test_no_credentials_of_the_user_are_sent(
    fake: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login ada password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    check(fake.reference(digest=fake.put_image("amd64")), "x86_64", WAY)
    assert not [asked for asked in fake.asked if "Authorization" in asked[2]]


def test_the_largest_manifest(fake: FakeRegistry) -> None:
    with Client(reference=fake.reference(), access=WAY) as client:
        fake.put("1", b" " * LIMIT)
        assert client.manifest("1") is not None
        fake.put("1", b" " * (LIMIT + 1))
        with pytest.raises(BuildError, match="sends more than 4194304 bytes"):
            client.manifest("1")


def test_proxies_are_used_as_routed() -> None:
    proxies = {"https_proxy": "http://p.example:1", "all_proxy": "http://q.example:2"}
    given = RegistryAccess(proxies={**proxies, "no_proxy": "inside.example"})
    client = Client(reference=FakeRegistry(address="e.org").reference(), access=given)
    assert client._proxies("https://e.org/v2/")["https"] == "http://p.example:1"
    assert client._proxies("http://e.org/v2/")["http"] == "http://q.example:2"
    assert client._proxies("https://a.inside.example/v2/") == {}
    assert client._proxies("http://127.0.0.1:5000/v2/") == {}
