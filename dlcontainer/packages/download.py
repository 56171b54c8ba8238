"""Archives of a recipe's upstreams, fetched by the way that a site's builds go."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from dlcontainer.errors import BuildError
from dlcontainer.system.environ import proxies
from dlcontainer.system.progress import Meter

_TIMEOUT_S = 60.0
_CHUNK = 1 << 20


class DownloadAccess(Protocol):
    """How files are reached: variables of proxies and CA, and the mirrors of addresses."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables, as programs of this host get them."""

    @property
    def places(self) -> Mapping[str, str]:
        """An address -> the mirror that the site names for it."""


def download(url: str, target: Path, access: DownloadAccess, tell: Callable[[str], None]) -> None:
    """Fetch one file, and tell how far it is.

    Raises BuildError where it is missing, OSError where it does not fit.
    """
    import requests

    address = access.places.get(url, url)
    try:
        with (
            requests.get(
                address,
                stream=True,
                timeout=_TIMEOUT_S,
                proxies=proxies.of_url(address, access.environment),
                verify=access.environment.get("REQUESTS_CA_BUNDLE", True),
            ) as answer,
            target.open("wb") as file,
        ):
            answer.raise_for_status()
            meter = Meter(tell=tell, title=target.name, total=_length(answer.headers))
            for chunk in answer.iter_content(_CHUNK):
                file.write(chunk)
                meter.at(file.tell())
    except requests.RequestException as error:
        fault = proxies.request_fault(address, access.environment)
        raise BuildError(
            f"cannot fetch {url}",
            why=fault.why if fault else str(error),
            next_step=fault.next_step
            if fault
            else "check the URL, or set routing.upstreams of the site to a mirror",
        ) from None


def _length(headers: Mapping[str, str]) -> int | None:
    text = headers.get("Content-Length", "")
    # Of what is unpacked on its way the length is another.
    return int(text) if text.isdecimal() and "Content-Encoding" not in headers else None
