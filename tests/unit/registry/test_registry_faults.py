"""Registries that lie, fail, fall silent or are not there: each is one clear refusal."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.config.image_names import ImageReference, parse_image
from dlcontainer.errors import BuildError
from dlcontainer.registry.base_image import check, find_digest
from dlcontainer.registry.client import Client
from dlcontainer.registry.connection import RegistryAccess
from tests.fakeregistry import NAME, FakeRegistry, Reply, serving, sha256

# A busy machine's own silence must not be taken for the registry's.
WAY = RegistryAccess(silence_s=20, answer_s=60)
DIGEST = f"sha256:{'ab' * 32}"


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    with serving() as fake:
        yield fake


def fails(reference: ImageReference, way: RegistryAccess = WAY) -> BuildError:
    with pytest.raises(BuildError) as caught:
        check(reference, "x86_64", way)
    error = caught.value
    assert error.where == str(reference)
    assert error.next_step
    return error


def with_reply(fake: FakeRegistry, reply: Reply) -> BuildError:
    fake.replies[f"/v2/{NAME}/manifests/{DIGEST}"] = reply
    return fails(fake.reference(digest=DIGEST))


@pytest.mark.parametrize(
    ("status", "what", "why"),
    [
        (500, "answers HTTP 500", "the registry has an internal error"),
        (503, "answers HTTP 503", "the registry has an internal error"),
        (418, "answers HTTP 418", "a registry does not answer like this"),
        (401, "requires a login for base/os (HTTP 401)", "the image does not exist, or it is not"),
        (403, "requires a login for base/os (HTTP 403)", "the image does not exist, or it is not"),
        (429, "too many requests from this address", "requests without a login"),
    ],
)
def test_it_says_no(fake: FakeRegistry, status: int, what: str, why: str) -> None:
    error = with_reply(fake, Reply(status=status))
    assert what in error.what
    assert why in str(error.why)


def test_a_limit_says_when_it_ends(fake: FakeRegistry) -> None:
    error = with_reply(fake, Reply(status=429, headers={"Retry-After": "77"}))
    assert "the next request is allowed in 77 s" in str(error.why)


def test_a_token_that_does_not_help(fake: FakeRegistry) -> None:
    fake.token, fake.challenge = "t", f'Bearer realm="http://{fake.address}/token"'
    fake.replies["/token"] = Reply(body=b'{"token": "another"}')
    assert "requires a login" in fails(fake.reference(digest=DIGEST)).what
    fake.challenge = "Basic realm=a"
    assert "requires a login" in fails(fake.reference(digest=DIGEST)).what


def test_it_gives_something_else(fake: FakeRegistry) -> None:
    headers = {"Docker-Content-Digest": DIGEST}
    error = with_reply(fake, Reply(body=b"{}", headers=headers))
    assert "content that does not match the requested digest" in error.what
    assert DIGEST in str(error.why)
    assert sha256(b"{}") in str(error.why)


def test_it_says_another_digest_of_a_tag_than_it_gives(fake: FakeRegistry) -> None:
    fake.put("1", b"{}", **{"Docker-Content-Digest": DIGEST})
    with pytest.raises(BuildError, match="content that does not match the requested digest"):
        find_digest(fake.reference(), "x86_64", WAY)


@pytest.mark.parametrize("chunked", [False, True])
def test_it_breaks_off(fake: FakeRegistry, chunked: bool) -> None:
    headers = {"Transfer-Encoding": "chunked"} if chunked else {}
    body = b"40\r\nhalf of it" if chunked else b"half of it"
    error = with_reply(fake, Reply(body=body, headers=headers, cut=3, chunked=chunked))
    assert "in the middle of its answer" in error.what


def test_it_falls_silent_in_the_middle(fake: FakeRegistry) -> None:
    # For longer than a test may take: it is not waited for.
    fake.replies[f"/v2/{NAME}/manifests/{DIGEST}"] = Reply(body=b"body", silence_s=3000)
    error = fails(fake.reference(digest=DIGEST), RegistryAccess(silence_s=3, answer_s=60))
    assert "in the middle of its answer" in error.what


def test_it_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        image = parse_image(f"docker://127.0.0.1:{mute.getsockname()[1]}/a@{DIGEST}")
        error = fails(image, RegistryAccess(silence_s=0.5, answer_s=2))
    assert "can't be reached" in error.what
    assert "no answer within 0.5 s" in str(error.why)


def test_it_answers_drop_by_drop(fake: FakeRegistry) -> None:
    fake.replies[f"/v2/{NAME}/manifests/{DIGEST}"] = Reply(body=b"x" * 2000)
    error = fails(fake.reference(digest=DIGEST), RegistryAccess(answer_s=0))
    assert "did not send everything within 0 s" in error.what


def test_nobody_is_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    error = fails(parse_image(f"docker://127.0.0.1:{port}/a@{DIGEST}"))
    assert ("can't be reached" in error.what, error.why) == (
        True,
        "no connection (ConnectionError)",
    )


def test_it_is_no_tls_where_tls_is_wanted(fake: FakeRegistry) -> None:
    # As an address of another machine would be: by https.
    port = fake.address.rpartition(":")[2]
    error = fails(parse_image(f"docker://0.0.0.0:{port}/a@{DIGEST}"))
    assert "can't be reached" in error.what
    assert fake.asked == []


def test_a_site_may_say_that_one_speaks_http(fake: FakeRegistry) -> None:
    port = fake.address.rpartition(":")[2]
    digest = fake.put_image("amd64")
    image = parse_image(f"docker://0.0.0.0:{port}/{NAME}@{digest}")
    assert check(image, "x86_64", RegistryAccess(plain_http=(f"0.0.0.0:{port}",))).digest == digest


def test_a_proxys_password_is_not_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        proxy = f"http://ada:secret@127.0.0.1:{free.getsockname()[1]}"
    error = fails(
        parse_image(f"docker://e.example/a@{DIGEST}"),
        RegistryAccess(proxies={"https_proxy": proxy}),
    )
    assert "secret" not in str(error)
    assert "the proxy refuses the connection" in str(error.why)


def test_it_sends_around_in_circles(fake: FakeRegistry) -> None:
    path = f"/v2/{NAME}/manifests/{DIGEST}"
    error = with_reply(fake, Reply(status=302, headers={"Location": path}))
    assert "redirects too many times" in error.what
    assert len(fake.asked) == 6


def test_it_sends_to_where_there_is_no_tls(fake: FakeRegistry) -> None:
    error = with_reply(fake, Reply(status=302, headers={"Location": "http://e.example/a"}))
    assert "an address without TLS" in error.what


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "Expecting value"),
        (b"\x80", "codec can't decode"),
        (b"[]", "no JSON object"),
        (b"[" * 100_000, "nested too deeply"),
        (b"{}", "no blobs by SHA-256"),
        (b'{"config": "x"}', "no blobs by SHA-256"),
        (b'{"config": {"digest": "sha256:../../x"}}', "no blobs by SHA-256"),
        (b'{"manifests": 3}', "no platform is named"),
        (b'{"manifests": [3, {"platform": 3}]}', "no platform is named"),
        (
            b'{"manifests": [{"platform": {"os": "linux", "architecture": "amd64"}}]}',
            "no blobs by SHA-256",
        ),
        (
            b'{"manifests": [{"platform": {"os": "\\u001b[2J", "architecture": 3}}]}',
            r"available: \x1b[2J/3",
        ),
    ],
)
def test_what_is_no_manifest(fake: FakeRegistry, body: bytes, why: str) -> None:
    digest = fake.put("1", body)
    assert why in str(fails(fake.reference(digest=digest)).why)


def test_parts_are_missing(fake: FakeRegistry) -> None:
    digest = fake.put("1", json.dumps({"config": {"digest": DIGEST}}).encode())
    error = fails(fake.reference(digest=digest))
    assert ("only a part" in error.what, DIGEST in str(error.why)) == (True, True)
    platform = {"os": "linux", "architecture": "amd64"}
    entry = {"digest": DIGEST, "platform": platform}
    digest = fake.put("1", json.dumps({"manifests": [entry]}).encode())
    error = fails(fake.reference(digest=digest))
    assert str(error.why).startswith("the image for linux/amd64")


@pytest.mark.parametrize("given", [b"the layer!", b"the layer", b"the layer and more", b""])
def test_a_layer_of_other_bytes(fake: FakeRegistry, tmp_path: Path, given: bytes) -> None:
    wanted = b"the layer."
    fake.replies[f"/v2/{NAME}/blobs/{sha256(wanted)}"] = Reply(body=given)
    with (
        Client(reference=fake.reference(), access=WAY) as client,
        pytest.raises(BuildError, match="content that does not match the requested digest"),
    ):
        client.save_blob(sha256(wanted), len(wanted), tmp_path / "layer")
