"""Archives of a recipe's upstreams, fetched by the way that a site's builds go."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from dlcontainer.errors import BuildError

_TIMEOUT_S = 60.0
_CHUNK = 1 << 20


class WayOut(Protocol):
    """How files are reached: variables of proxies and CA, and the mirrors of addresses."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables, as programs of this host get them."""

    @property
    def places(self) -> Mapping[str, str]:
        """An address -> the mirror that the site names for it."""


def download(url: str, target: Path, way: WayOut) -> None:
    """Fetch one file; raises BuildError where it is missing, OSError where it does not fit."""
    import requests

    address = way.places.get(url, url)
    proxies = {scheme: way.environment.get(f"{scheme}_proxy", "") for scheme in ("http", "https")}
    try:
        with (
            requests.get(
                address,
                stream=True,
                timeout=_TIMEOUT_S,
                proxies=proxies,
                verify=way.environment.get("REQUESTS_CA_BUNDLE", True),
            ) as answer,
            target.open("wb") as file,
        ):
            answer.raise_for_status()
            for chunk in answer.iter_content(_CHUNK):
                file.write(chunk)
    except requests.RequestException as error:
        raise BuildError(
            f"{url} can't be fetched",
            why=str(error),
            next_step="is it still there? routing.upstreams of the site may name a mirror of it",
        ) from None
