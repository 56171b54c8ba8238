"""Questions to a registry about one image: its manifests, blobs and token, anonymous."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlcontainer.config.image_names import is_digest
from dlcontainer.registry.connection import Connection
from dlcontainer.registry.taking import BlobReader
from dlcontainer.system import foreign_files

# OCI's and Docker's names of the same two things: an image, and an index of images by platform.
MEDIA_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_TOKEN_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, kw_only=True, slots=True)
class RegistryResponse:
    """What a registry gave: the bytes, and the digest that it says they have."""

    body: bytes
    digest: str | None


@dataclass(slots=True, kw_only=True)
class Client(Connection):
    """Asks for one image; the token is kept for the next question."""

    _token: str | None = None

    def manifest(self, name: str, *, head: bool = False) -> RegistryResponse | None:
        """Ask for the manifest under a tag or digest; None where there is none (404)."""
        return self._ask(f"manifests/{name}", {"Accept": ", ".join(MEDIA_TYPES)}, head=head)

    def blob(self, digest: str) -> RegistryResponse | None:
        """Ask for a blob; None where there is none (404)."""
        return self._ask(f"blobs/{digest}", {}, head=False)

    def save_blob(self, digest: str, size: int, target: Path) -> None:
        """Write a blob of any size to a file, after a question that brought the token.

        Raises BuildError where it has another size or digest than were announced.
        """
        with target.open("xb") as file:
            self.read_blob(digest, size, file.writelines)

    def read_blob(self, digest: str, size: int, read: Callable[[Iterator[bytes]], object]) -> None:
        """Hand a blob of any size on as it comes, as `save_blob`; it is whole at the return."""
        address, repository = self.reference.address, self.reference.repository
        scheme = "http" if self.access.is_plain(address) else "https"
        taking = BlobReader(read=read, most=size)
        url = f"{scheme}://{address}/v2/{repository}/blobs/{digest}"
        status, answer_headers, body = self._send("GET", url, self._authorization(), taking=taking)
        if status != 200:
            self._read(status, answer_headers, body)
            raise self._error(
                "has only a part of the image",
                why=f"{digest} is missing (HTTP {status})",
                next_step="ask its publisher, or choose another image",
            )
        if (taking.size, f"sha256:{taking.digest.hexdigest()}") != (size, digest):
            more = "more than " if taking.size > size else ""
            raise self._error(
                "returned content that does not match the requested digest",
                why=f"expected: {digest}, {size} bytes\n       received: "
                f"sha256:{taking.digest.hexdigest()}, {more}{min(taking.size, size)} bytes",
                next_step="do not use it: a proxy or mirror changes the content, or the registry "
                "is damaged",
            )

    def _authorization(self) -> dict[str, str]:
        return {} if self._token is None else {"Authorization": f"Bearer {self._token}"}

    def _ask(self, path: str, headers: Mapping[str, str], *, head: bool) -> RegistryResponse | None:
        address, repository = self.reference.address, self.reference.repository
        scheme = "http" if self.access.is_plain(address) else "https"
        url = f"{scheme}://{address}/v2/{repository}/{path}"
        method = "HEAD" if head else "GET"
        if self._token is None:
            status, answer_headers, body = self._send(method, url, headers)
            challenge = answer_headers.get("WWW-Authenticate", "")
            if status != 401 or not challenge.lower().startswith("bearer "):
                return self._read(status, answer_headers, body)
            self._token = self._fetch_token(challenge)
        return self._read(*self._send(method, url, {**headers, **self._authorization()}))

    def _read(
        self, status: int, headers: Mapping[str, str], body: bytes
    ) -> RegistryResponse | None:
        if status == 200:
            digest = headers.get("Docker-Content-Digest", "")
            return RegistryResponse(body=body, digest=digest if is_digest(digest) else None)
        if status == 404:
            return None
        if status in (401, 403):
            raise self._error(
                f"requires a login for {self.reference.repository} (HTTP {status})",
                why="the image does not exist, or it is not public; base images are fetched "
                "without credentials",
                next_step="check the name, or copy the image to a registry that requires no login",
            )
        if status == 429:
            again = headers.get("Retry-After", "")
            when = f"; the next request is allowed in {again} s" if again.isdecimal() else ""
            raise self._error(
                "refuses for now: too many requests from this address (HTTP 429)",
                why=f"it limits requests without a login{when}",
                next_step="build later, or copy the image to a registry of your own",
            )
        raise self._error(
            f"answers HTTP {status}",
            why="the registry has an internal error"
            if status >= 500
            else "a registry does not answer like this",
            next_step="build later" if status >= 500 else "check the image's name",
        )

    def _fetch_token(
        self, challenge: str, *, verbs: str = "pull", authorization: Mapping[str, str] | None = None
    ) -> str:
        """Fetch a token, without `authorization` the one that is given to everybody."""
        challenge_fields = dict(_TOKEN_CHALLENGE.findall(challenge))
        # The scope is ours to say: of this one image, and no more than is done.
        query = {"scope": f"repository:{self.reference.repository}:{verbs}"}
        if "service" in challenge_fields:
            query["service"] = challenge_fields["service"]
        status, _, body = self._send(
            "GET", challenge_fields.get("realm", ""), authorization or {}, query
        )
        token = _token_of(body) if status == 200 else None
        if token is None:
            raise self._error(
                f"returned no token for {self.reference.repository} (HTTP {status})",
                why="its token server refused, or returned no valid token",
                next_step="check the image's name, or build later",
            )
        return token


def _token_of(body: bytes) -> str | None:
    try:
        document: Any = foreign_files.loads(body)
        token = document.get("token") or document.get("access_token")
    except (ValueError, AttributeError):
        return None
    # One word: it becomes a header.
    return token if isinstance(token, str) and re.fullmatch(r"[!-~]+", token) else None
