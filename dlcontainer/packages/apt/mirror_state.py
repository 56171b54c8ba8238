"""Whether a mirror holds a suite for an architecture: lists of the rarer ones may lag or be cut.

apt refuses such a list ("unexpected size") in the middle of a build; a look at a few headers tells
before. It is a look and no proof: apt verifies all that it takes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from dlcontainer.system.environ import proxies

if TYPE_CHECKING:
    from requests import Response

_TIMEOUT_S = 20.0
_MOST = 4_000_000
_PACKED = ("xz", "gz")


class Suite(Protocol):
    """A suite at a mirror."""

    @property
    def uri(self) -> str:
        """The mirror's address."""

    @property
    def suite(self) -> str:
        """Its name there."""

    @property
    def components(self) -> tuple[str, ...]:
        """The parts of it that are wanted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MirrorProbe:
    """Looks at mirrors by way of a build's proxies and CA."""

    environment: Mapping[str, str]

    def text(self, url: str) -> str | None:
        """Return a small file; None where it is not to be had."""
        answer = self._ask("GET", url)
        return answer.text if answer is not None and len(answer.content) <= _MOST else None

    def size(self, url: str) -> int | None:
        """Return the size of a file that is there; None where it is not, or not told."""
        answer = self._ask("HEAD", url)
        length = answer.headers.get("Content-Length", "") if answer is not None else ""
        return int(length) if length.isdigit() else None

    def _ask(self, method: str, url: str) -> "Response | None":
        import requests

        try:
            answer = requests.request(
                method,
                url,
                timeout=_TIMEOUT_S,
                allow_redirects=True,
                proxies=proxies.of_url(url, self.environment),
                verify=self.environment.get("REQUESTS_CA_BUNDLE", True),
                headers={"Accept-Encoding": "identity"},
            )
        except requests.RequestException:
            return None
        return answer if answer.status_code == 200 else None


def faults(
    source: Suite,
    arch: str,
    text: Callable[[str], str | None],
    size: Callable[[str], int | None],
) -> list[str]:
    """Name the lists of a source that its mirror has not, or has in another size than it says.

    Empty where all is well, and where nothing could be told. `arch` as the distribution has it.
    """
    release = text(release_file(source))
    suite = release_file(source).rpartition("/")[0]
    if release is None:
        return []
    listed = _sums(release)
    faulty = []
    for component in source.components:
        for kind in _PACKED:
            name = f"{component}/binary-{arch}/Packages.{kind}"
            if name in listed:
                sum_, listed_size = listed[name]
                by_hash = f"{suite}/{name.rpartition('/')[0]}/by-hash/SHA256/{sum_}"
                sizes = [size(f"{suite}/{name}"), size(by_hash)]
                if listed_size not in sizes:
                    has = next(
                        (f"has {length}" for length in sizes if length is not None), "is not there"
                    )
                    faulty.append(f"{name} {has}; the index announces {listed_size} bytes")
                break
    return faulty


def release_file(source: Suite) -> str:
    """Return the address of the file that says what a suite's lists are."""
    return f"{source.uri}/dists/{source.suite}/InRelease"


def _sums(release: str) -> dict[str, tuple[str, int]]:
    listed: dict[str, tuple[str, int]] = {}
    inside = False
    for line in release.splitlines():
        if not line.startswith(" "):
            inside = line.startswith("SHA256:")
        elif inside and len(words := line.split()) == 3 and words[1].isdigit():
            listed[words[2]] = (words[0], int(words[1]))
    return listed
