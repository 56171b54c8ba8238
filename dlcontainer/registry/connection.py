"""One request to a registry over HTTP: in bounded time and size, by the site's proxies and CA."""

import contextlib
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import urljoin, urlsplit

from dlcontainer.config.image_names import ImageReference, is_loopback
from dlcontainer.errors import BuildError, DlcontainerError
from dlcontainer.registry.patience import Rate, TimeAllowance, TooSlowError
from dlcontainer.registry.taking import BlobReader
from dlcontainer.system.environ import proxies

if TYPE_CHECKING:
    from requests import Response, Session

    from dlcontainer.registry.upload import Upload

# The OCI distribution spec lets a registry refuse manifests above 4 MiB: none is larger.
LIMIT = 4 * 1024 * 1024
_MOST_REDIRECTS = 5
_CHUNK = 64 * 1024
# Of a layer; its time is limited by silence and by its rate.
_LARGE_CHUNK = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class RegistryAccess:
    """How registries are reached: proxies and CA as routed, times in s.

    An answer has `answer_s` from its first wait to its last byte, redirects and headers included;
    a layer, down or up, `least_rate` bytes a second over each `least_over_s`.
    """

    proxies: Mapping[str, str] = field(default_factory=dict)
    ca: Path | None = None
    # HOST or HOST:PORT of registries that speak http; this machine's own do in any case
    plain_http: tuple[str, ...] = ()
    # this machine's own speak TLS too
    loopback_tls: bool = False
    silence_s: float = 20.0
    answer_s: float = 120.0
    least_rate: float = 1000.0
    least_over_s: float = 300.0

    @property
    def rate(self) -> Rate:
        """Return the least rate of one layer."""
        return Rate(least=self.least_rate, over_s=self.least_over_s)

    def is_plain(self, address: str) -> bool:
        """Return whether HOST or HOST:PORT is spoken to without TLS."""
        is_local = is_loopback(address) and not self.loopback_tls
        return is_local or address in self.plain_http


@dataclass(frozen=True, kw_only=True, slots=True)
class _RegistryRequest:
    """What is asked, wherever a redirect leads."""

    method: str
    headers: Mapping[str, str]
    query: Mapping[str, str] | None
    data: "bytes | Upload | None"

    def on(self, *, with_token: bool) -> "_RegistryRequest":
        """Ask the same of the next place."""
        headers = {
            name: value
            for name, value in self.headers.items()
            if with_token or name != "Authorization"
        }
        return replace(self, headers=headers, query=None)


@dataclass(slots=True, kw_only=True)
class Connection:
    """A connection to the registry of one image, kept for the next request until the end."""

    reference: ImageReference
    access: RegistryAccess
    _session: "Session | None" = None
    _patience: TimeAllowance | None = None
    # For the questions of a block together; s.
    _left_s: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._session is not None:
            self._session.close()

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Yield all questions of a block so much time together; then each of them is refused."""
        self._left_s = seconds
        try:
            yield
        finally:
            self._left_s = None

    @contextlib.contextmanager
    def _asking(self, *, uploads: bool) -> Iterator[TimeAllowance]:
        """Begin a question, and count its time."""
        # Of what was sent a registry takes the digest before it answers.
        answer_s = self.access.answer_s + (self.access.silence_s if uploads else 0)
        if self._left_s is not None:
            if self._left_s <= 0:
                raise self._error("took too long to answer", next_step="build later")
            answer_s = min(answer_s, self._left_s)
        self._patience = self._patience or TimeAllowance(silence_s=self.access.silence_s)
        self._patience.begin(answer_s)
        began = time.monotonic()
        try:
            yield self._patience
        finally:
            if self._left_s is not None:
                self._left_s -= time.monotonic() - began

    def _send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        query: Mapping[str, str] | None = None,
        *,
        taking: BlobReader | None = None,
        data: "bytes | Upload | None" = None,
    ) -> tuple[int, Mapping[str, str], bytes]:
        import requests

        request = _RegistryRequest(method=method, headers=headers, query=query, data=data)
        with self._asking(uploads=data is not None) as patience:
            try:
                return self._answered(url, request, taking)
            except (requests.RequestException, ValueError, TooSlowError) as error:
                patience.over = patience.over or getattr(data, "over", None)
                raise self._unreachable(error, url) from None

    def _answered(
        self, url: str, request: _RegistryRequest, taking: BlobReader | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        for _ in range(_MOST_REDIRECTS + 1):
            self._check_scheme(url)
            with self._open(url, request) as response:
                target = response.headers.get("Location")
                if response.is_redirect and target and request.data is None:
                    # Elsewhere the token means nothing, and must not be shown.
                    elsewhere = urlsplit(urljoin(url, target)).netloc != urlsplit(url).netloc
                    request = request.on(with_token=not elsewhere)
                    url = urljoin(url, target)
                    continue
                if taking is not None and response.status_code == 200:
                    if self._patience is not None:
                        self._patience.flow(self.access.rate, self._left_s)
                    taking.take(response.iter_content(_LARGE_CHUNK))
                    return 200, response.headers, b""
                body = self._body(response, url) if request.method != "HEAD" else b""
                return response.status_code, response.headers, body
        raise self._error("redirects too many times", next_step="build later")

    def _open(self, url: str, request: _RegistryRequest) -> "Response":
        import requests

        if self._session is None:
            self._session = requests.Session()
            # No ~/.netrc and no variables: what is used is what is routed.
            self._session.trust_env = False
            from dlcontainer.registry import timed_http

            patience = self._patience or TimeAllowance(silence_s=self.access.silence_s)
            for scheme in ("http://", "https://"):
                self._session.mount(scheme, timed_http.adapter(patience))
        headers = {"Accept-Encoding": "identity", "User-Agent": "dlcontainer", **request.headers}
        return self._session.request(
            request.method,
            url,
            params=request.query,
            data=request.data,
            headers=headers,
            proxies=self._proxies(url),
            verify=str(self.access.ca) if self.access.ca else True,
            timeout=self.access.silence_s,
            allow_redirects=False,
            stream=True,
        )

    def _proxies(self, url: str) -> dict[str, str]:
        if is_loopback(urlsplit(url).netloc):
            return {}
        by_scheme = proxies.of_url(url, self.access.proxies)
        return {scheme: proxy for scheme, proxy in by_scheme.items() if proxy}

    def _check_scheme(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme == "https" or (
            parts.scheme == "http" and self.access.is_plain(parts.netloc)
        ):
            return
        raise self._error(
            "leads to an address without TLS",
            why=f"{parts.scheme or 'no scheme'}://{parts.hostname or ''}: anybody on the "
            "network could change the content",
            next_step="list it in routing.plain_http of the site config if you trust the network "
            "to it",
        )

    def _body(self, response: "Response", url: str) -> bytes:
        import requests

        body = bytearray()
        length = response.headers.get("Content-Length", "")
        try:
            for chunk in response.iter_content(_CHUNK):
                body += chunk
                self._check_amount(len(body))
            whole = not length.isdecimal() or len(body) == int(length)
        except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError) as error:
            if self._is_too_slow():
                raise self._unreachable(error, url) from None
            whole = False
        if not whole:
            raise self._error(
                "stopped in the middle of its answer",
                why=f"{len(body)} of {length or 'unknown'} bytes arrived",
                next_step="build again",
            )
        return bytes(body)

    def _is_too_slow(self) -> bool:
        return self._patience is not None and self._patience.over is not None

    def _check_amount(self, size: int) -> None:
        if size > LIMIT:
            raise self._error(
                f"sends more than {LIMIT} bytes",
                why="no manifest is that large",
                next_step="check the image's name",
            )

    def _unreachable(self, error: Exception, url: str) -> DlcontainerError:
        import requests

        if self._patience is not None and self._patience.over is not None:
            return self._error(self._patience.over, next_step="build later")
        if not is_loopback(urlsplit(url).netloc):
            fault = proxies.request_fault(url, self.access.proxies)
            if fault is not None:
                return self._error("can't be reached", why=fault.why, next_step=fault.next_step)
        # The message of the error itself may hold a proxy's address with its password.
        kinds: tuple[tuple[type[Exception], str], ...] = (
            (requests.exceptions.SSLError, "its certificate is not trusted here"),
            (requests.exceptions.ProxyError, "the proxy refuses the connection"),
            (requests.exceptions.ChunkedEncodingError, "it stopped in the middle of its answer"),
            (requests.Timeout, f"no answer within {self.access.silence_s:g} s"),
            (requests.ConnectionError, "no connection"),
        )
        name = type(error).__name__
        why = next((text for kind, text in kinds if isinstance(error, kind)), "no HTTP answer")
        # OpenSSL's own words for what is wrong with a certificate: no address is among them.
        match = re.search(r"certificate verify failed: ([\w ,-]+)", str(error))
        return self._error(
            "can't be reached",
            why=f"{why} ({match[1] if match else name})",
            next_step="check routing.proxy and routing.ca in the site config, or build on a host "
            "that can reach the registry",
        )

    def _error(self, what: str, *, next_step: str, why: str | None = None) -> DlcontainerError:
        return BuildError(
            f"registry {self.reference.address} {what}",
            where=str(self.reference),
            why=why,
            next_step=next_step,
        )
