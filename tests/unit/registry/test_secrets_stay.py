"""A login goes to the registry that it is for, over TLS or on this machine: nowhere else."""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from dlcontainer.config.image_names import ImageReference
from dlcontainer.errors import PublishError
from dlcontainer.registry.artifacts import ArtifactClient
from dlcontainer.registry.connection import RegistryAccess
from dlcontainer.registry.login import Login
from tests import fakeartifacts, fakeregistry
from tests.fakeartifacts import FakeArtifacts
from tests.fakeregistry import FakeRegistry, Reply, sha256

WORD = "canary-4711"
LOGIN = Login(user="me", password=WORD)
BASIC = base64.b64encode(f"me:{WORD}".encode()).decode()


@pytest.fixture
def other() -> Iterator[FakeRegistry]:
    with fakeregistry.serving() as running:
        yield running


@pytest.fixture
def fake() -> Iterator[FakeArtifacts]:
    with fakeartifacts.serving() as running:
        yield running


def shown(fake: FakeRegistry) -> list[str | None]:
    """List the logins and tokens that a registry was shown."""
    return [headers.get("Authorization") for _, _, headers in fake.asked]


@pytest.mark.parametrize("challenge", ["Basic realm=x", 'Bearer realm="http://{0}/token"'])
def test_a_password_goes_over_tls_only(other: FakeRegistry, challenge: str) -> None:
    # As an address of another machine would be, which a site lets speak http.
    address = f"0.0.0.0:{other.address.rpartition(':')[2]}"
    other.replies["/v2/"] = Reply(
        status=401, headers={"WWW-Authenticate": challenge.format(address)}
    )
    reference = ImageReference(name=f"{address}/site/demo", tag="1", digest=None)
    way = RegistryAccess(plain_http=(address,))
    with (
        ArtifactClient(reference=reference, access=way, login=LOGIN) as client,
        pytest.raises(PublishError, match="asks for a password over a connection without TLS"),
    ):
        client.manifest("1")
    assert other.asked
    assert shown(other) == [None] * len(other.asked)


def test_on_this_machine_it_may_go_without(other: FakeRegistry) -> None:
    other.replies["/v2/"] = Reply(status=401, headers={"WWW-Authenticate": "Basic realm=x"})
    reference = ImageReference(name=f"{other.address}/site/demo", tag="1", digest=None)
    with ArtifactClient(reference=reference, access=RegistryAccess(), login=LOGIN) as client:
        client.manifest("1")
    assert shown(other)[-1] == f"Basic {BASIC}"


@dataclass(slots=True, kw_only=True)
class Sent(ArtifactClient):
    """A client that notes what it would send, and answers an upload with another host's place."""

    place: str
    sent: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)

    def _send(self, method: str, url: str, headers: Mapping[str, str], *_: Any, **__: Any) -> Any:
        self.sent.append((method, url, dict(headers)))
        status = {"HEAD": 404, "POST": 202, "PUT": 201}.get(method, 401)
        given = {"Location": self.place, "WWW-Authenticate": "Basic realm=x"}
        return status, given, b""


@pytest.mark.parametrize(
    ("place", "is_shown"),
    [
        ("/v2/site/demo/upload/1", True),
        ("https://e.example/v2/site/demo/upload/1", True),
        ("https://elsewhere.example/upload/1", False),
        ("//elsewhere.example/upload/1", False),
        ("https://e.example:444/upload/1", False),
        ("https://e.example@elsewhere.example/upload/1", False),
    ],
)
def test_the_login_is_not_sent_where_an_upload_leads(place: str, is_shown: bool) -> None:
    reference = ImageReference(name="e.example/site/demo", tag="1", digest=None)
    client = Sent(
        reference=reference, access=RegistryAccess(), login=LOGIN, pushes=True, place=place
    )
    client.upload(sha256(b"data"), b"data")
    method, url, headers = client.sent[-1]
    assert method == "PUT"
    assert ("elsewhere" in url or ":444" in url) is not is_shown
    assert headers.get("Authorization") == (f"Basic {BASIC}" if is_shown else None)
    assert client.sent[-2][2]["Authorization"] == f"Basic {BASIC}"


def test_a_redirect_to_elsewhere_shows_no_token(fake: FakeArtifacts, other: FakeRegistry) -> None:
    reference = ImageReference(name=f"{other.address}/site/demo", tag="1", digest=None)
    path = "/v2/site/demo/manifests/1"
    other.replies["/v2/"] = Reply(status=401, headers={"WWW-Authenticate": "Basic realm=x"})
    target = f"http://{fake.address}{path}"
    other.replies[path] = Reply(status=302, headers={"Location": target})
    fake.manifests["1"] = b"{}"
    with ArtifactClient(reference=reference, access=RegistryAccess(), login=LOGIN) as client:
        assert client.manifest("1") is not None
    assert shown(other)[-1] == f"Basic {BASIC}"
    assert fake.shown == [None]
