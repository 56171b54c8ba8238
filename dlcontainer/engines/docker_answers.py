"""Docker's and Podman's answers: lines of a long call, errors that a user understands."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from dlcontainer.engines.engine import Binds
from dlcontainer.engines.oci import OciKind
from dlcontainer.errors import EngineError


def lines(kind: OciKind, entries: Iterable[Any]) -> Iterator[str]:
    """Yield what an engine says during a call; raises EngineError for an error among it."""
    for entry in entries:
        if "error" in entry:
            raise EngineError(f"{kind} reported: {entry['error']}")
        if "stream" in entry:
            yield str(entry["stream"]).rstrip()
        if "status" in entry:
            yield " ".join(str(entry[key]) for key in ("id", "status") if entry.get(key))


@contextlib.contextmanager
def explained(kind: OciKind, what: str) -> Iterator[None]:
    """Raise EngineError for a call that fails; `what` names what the engine is asked to do."""
    from docker.errors import APIError, DockerException
    from requests import RequestException

    try:
        yield
    except (DockerException, RequestException, ConnectionError) as error:
        explanation = error.explanation if isinstance(error, APIError) else None
        raise EngineError(
            f"{kind} could not {what}",
            why=str(explanation or error),
            next_step="run `dlcontainer doctor`: it checks the engine; the engine's own log "
            "has details",
        ) from None


def checked_binds(binds: Binds) -> Binds:
    """Return binds as they are; raises EngineError for a path that no engine can bind."""
    for source, _ in binds:
        if any(character in str(source) for character in ":\n"):
            raise EngineError(
                f"the engine cannot bind {str(source)!r}",
                why="the path contains a ':' or newline",
                next_step="choose another folder with --tmpdir",
            )
    return binds


def close(stream: Any) -> None:
    """Close a connection that a call left open."""
    # The SDK hands out a file over a socket, beside the response that owns it, and closes neither.
    connection = stream._sock
    stream._response.close()
    stream.close()
    connection.close()
