"""A registry that we write to: with a login, blobs and manifests both ways."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urljoin, urlsplit

from dlcontainer.config.image_names import is_loopback
from dlcontainer.errors import PublishError
from dlcontainer.registry.client import Client, RegistryResponse
from dlcontainer.registry.login import Login
from dlcontainer.system import foreign_files

if TYPE_CHECKING:
    from dlcontainer.registry.upload import Upload

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


@dataclass(slots=True, kw_only=True)
class ArtifactClient(Client):
    """Reads and writes one repository; its errors are those of publishing."""

    login: Login | None = None
    pushes: bool = False
    _header: str | None = None
    _greeted: bool = False

    def upload(self, digest: str, data: "bytes | Upload") -> None:
        """Put a blob where it is not there yet; the registry checks its digest too."""
        status, answer_headers, _ = self._asked("HEAD", f"blobs/{digest}")
        if status == 200:
            return
        status, answer_headers, body = self._asked("POST", "blobs/uploads/", data=b"")
        place = answer_headers.get("Location")
        if status != 202 or not place:
            self._refused(status, body)
        url = urljoin(self._url("blobs/uploads/"), place)
        same = urlsplit(url).netloc == urlsplit(self._url("")).netloc
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Length": str(len(data)),
            # Elsewhere the login means nothing, and must not be shown.
            **(self._authorization() if same else {}),
        }
        status, answer_headers, body = self._send(
            "PUT", url, headers, {"digest": digest}, data=data
        )
        if status != 201:
            self._refused(status, body)

    def put_manifest(self, name: str, body: bytes, media_type: str) -> bool:
        """Put a manifest under a tag or its digest; tell whether the registry lists its subject."""
        status, answer_headers, text = self._asked(
            "PUT", f"manifests/{name}", {"Content-Type": media_type}, data=body
        )
        if status != 201:
            self._refused(status, text)
        return "OCI-Subject" in answer_headers

    def document(self, path: str) -> Mapping[str, Any] | None:
        """Ask for a JSON object of the repository; None where there is none (404)."""
        answer = self._ask(path, {"Accept": f"{INDEX}, application/json"}, head=False)
        if answer is None:
            return None
        try:
            body = foreign_files.loads(answer.body)
        except ValueError as error:
            raise self._error(
                f"returned invalid JSON for {path}", next_step="", why=str(error)
            ) from None
        return body if isinstance(body, dict) else None

    def fetched(self, digest: str, size: int, most: int) -> bytes:
        """Return a small blob, checked; raises PublishError for one of more than `most` bytes."""
        if size > most:
            raise self._error(f"lists a blob of {size} bytes", next_step="ask its publisher")
        chunks: list[bytes] = []
        self.read_blob(digest, size, chunks.extend)
        return b"".join(chunks)

    def _url(self, path: str) -> str:
        address = self.reference.address
        scheme = "http" if self.access.is_plain(address) else "https"
        return f"{scheme}://{address}/v2/{self.reference.repository}/{path}"

    def _asked(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        *,
        data: bytes | None = None,
    ) -> tuple[int, Mapping[str, str], bytes]:
        self._greet()
        return self._send(
            method, self._url(path), {**(headers or {}), **self._authorization()}, data=data
        )

    def _ask(self, path: str, headers: Mapping[str, str], *, head: bool) -> RegistryResponse | None:
        return self._read(*self._asked("HEAD" if head else "GET", path, headers))

    def _authorization(self) -> dict[str, str]:
        return {} if self._header is None else {"Authorization": self._header}

    def _greet(self) -> None:
        """Find out how the registry wants to know us, once."""
        if self._greeted:
            return
        self._greeted = True
        root = self._url("").partition("/v2/")[0] + "/v2/"
        status, answer_headers, _ = self._send("GET", root, {})
        challenge = answer_headers.get("WWW-Authenticate", "")
        if status != 401:
            return
        kind = challenge.partition(" ")[0].lower()
        if kind == "basic" and self.login is not None:
            self._require_private()
            self._header = self.login.basic
        elif kind == "bearer":
            verbs = "pull,push" if self.pushes else "pull"
            authorization = {}
            if self.login is not None:
                self._require_private()
                authorization = {"Authorization": self.login.basic}
            self._header = (
                f"Bearer {self._fetch_token(challenge, verbs=verbs, authorization=authorization)}"
            )

    def _require_private(self) -> None:
        address = self.reference.address
        if self.access.is_plain(address) and not is_loopback(address):
            raise self._error(
                "asks for a password over a connection without TLS",
                why="anybody on the network could read it",
                next_step="enable HTTPS on the registry; give its CA: --ca FILE",
            )

    def _read(
        self, status: int, headers: Mapping[str, str], body: bytes
    ) -> RegistryResponse | None:
        if status in (401, 403):
            self._refused(status, body)
        # Not super(): a dataclass with slots is made twice, and the first is not its base.
        return Client._read(self, status, headers, body)

    def _refused(self, status: int, body: bytes) -> NoReturn:
        if status in (401, 403):
            given_one = self.login is not None
            raise self._error(
                f"refuses {'this login' if given_one else 'to answer without a login'} "
                f"(HTTP {status})",
                why="the name or password is wrong, or this login may not "
                f"{'push to' if self.pushes else 'read'} {self.reference.repository}"
                if given_one
                else None,
                next_step="give another login: --login FILE"
                if given_one
                else "give a login: --login FILE",
            )
        text = body[:200].decode("utf-8", "replace") if body else None
        raise self._error(
            f"rejects the request (HTTP {status})", why=text, next_step="try again later"
        )

    def _error(self, what: str, *, next_step: str, why: str | None = None) -> PublishError:
        step = next_step.replace("build later", "try again later")
        return PublishError(
            f"registry {self.reference.address} {what}",
            where=f"oras://{self.reference.source}",
            why=why,
            next_step=step.replace("build again", "try again") or None,
        )
