"""The Docker SDK behind typed calls: HTTP over a unix socket, no process is started."""

import contextlib
import re
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dlcontainer.engines import docker_answers
from dlcontainer.engines.engine import is_lent
from dlcontainer.engines.oci import (
    LIFELINE,
    SHELL,
    ContainerSpec,
    Daemon,
    ImageConfig,
    OciImage,
    shell_words,
)
from dlcontainer.errors import EngineError
from dlcontainer.system import foreign_files

_DIGEST = re.compile(r"digest: (sha256:[0-9a-f]{64})")
_CHUNK = 1 << 20
_REMOVAL_S = 60.0


@dataclass(kw_only=True, slots=True)
class SdkClient:
    """Docker through its SDK; `api` is a `docker.APIClient`."""

    api: Any
    daemon: Daemon
    _lifelines: dict[str, Any] = field(default_factory=dict)

    def image(self, name: str) -> OciImage | None:
        """Look an image up by name or id; None where there is none."""
        from docker.errors import NotFound

        with self._asking(f"look for {name}"):
            try:
                details, layers = self.api.inspect_image(name), self.api.history(name)
            except NotFound:
                return None
        config = details["Config"] or {}
        return OciImage(
            id=str(details["Id"]),
            names=tuple(details.get("RepoTags") or ()),
            arch=str(details["Architecture"]),
            environment=dict(entry.split("=", 1) for entry in config.get("Env") or ()),
            labels=dict(config.get("Labels") or {}),
            entrypoint=tuple(config.get("Entrypoint") or ()),
            created=str(details["Created"]),
            comment=str(details.get("Comment") or ""),
            # A builder need not write down what it did.
            size=int(layers[0]["Size"] if layers else details["Size"]),
            total=int(details["Size"]),
            layers=tuple((details.get("RootFS") or {}).get("Layers") or ()),
        )

    def images(self, repository: str) -> list[OciImage]:
        """List the images of a repository in the store, the newest first."""
        with self._asking(f"list {repository}"):
            listed = self.api.images(filters={"reference": repository})
        names = [name for entry in listed for name in entry.get("RepoTags") or ()]
        # Podman takes a reference for a pattern that may stand anywhere in a name.
        names_here = [name for name in names if name.rpartition(":")[0] == repository]
        images = [image for image in map(self.image, names_here) if image is not None]
        return sorted(images, key=lambda image: image.created, reverse=True)

    def import_tree(self, tar: Path, name: str) -> None:
        """Make an image of one layer of a root tree."""
        repository, _, tag = name.rpartition(":")
        with self._asking("import the base"), tar.open("rb") as file:
            answer = self.api.import_image_from_data(file, repository=repository, tag=tag)
        entries = (foreign_files.loads(line) for line in answer.splitlines() if line.strip())
        for _ in docker_answers.lines(self.daemon.kind, entries):
            pass  # what it says beside an error is only the image's id

    def pull(self, reference: str, on_line: Callable[[str], None], *, plain_http: bool) -> None:
        """Fetch an image of a registry: NAME:TAG or NAME@DIGEST."""
        name, digest = reference.partition("@")[::2]
        repository, tag = (name, digest) if digest else reference.rpartition(":")[::2]
        params = {"fromImage": repository, "tag": tag, **self._tls(plain_http=plain_http)}
        with self._asking(f"pull {reference}"):
            self._stream(self.api._url("/images/create"), params, repository, on_line)

    def start(self, spec: ContainerSpec) -> str:
        """Start a container that lives as long as this client, at most; return its id."""
        with self._asking("start a container"):
            container = self._create(spec)
            try:
                # Before the start: from its first moment on it ends with us.
                self._lifelines[container] = self.api.attach_socket(
                    container, params={"stdin": 1, "stream": 1}
                )
                self.api.start(container)
            except BaseException:
                self.remove(container)
                raise
        return container

    def _create(self, spec: ContainerSpec) -> str:
        host = self.api.create_host_config(
            binds=[
                f"{source}:{target}{':ro' if is_lent(target, spec.binds) else ''}"
                for source, target in docker_answers.checked_binds(spec.binds)
            ],
            network_mode="host",
            auto_remove=True,
            # SELinux would else keep the container out of the bound folders, or relabel them.
            security_opt=["label=disable"],
        )
        container = self.api.create_container(
            spec.image.id,
            name=spec.name,
            entrypoint=list(LIFELINE),
            host_config=host,
            stdin_open=True,
            # Docker notes a container's host name in images that are made of it.
            hostname="localhost",
            # The proxies of the user's config.json would stand in the image's environment.
            use_config_proxy=False,
        )
        return str(container["Id"])

    def execute(
        self, container: str, argv: tuple[str, ...], sink: Callable[[bytes], object]
    ) -> int:
        """Run a command as root in a container; return its exit code."""
        from docker.utils.socket import frames_iter

        with self._asking("run a command in the container"):
            run = self.api.exec_create(container, list(argv), user="0", workdir="/")["Id"]
            stream = self.api.exec_start(run, socket=True)
            try:
                for _, chunk in frames_iter(stream, tty=False):
                    sink(chunk)
            finally:
                docker_answers.close(stream)
            code = self.api.exec_inspect(run)["ExitCode"]
        if code is None:
            raise EngineError(
                f"{self.daemon.kind} ended the container in the middle of a step",
                why="the connection to the engine was closed",
                next_step="read the engine's own log (out of memory, no space, restarted?)",
            )
        return int(code)

    def shell_argv(self, container: str) -> list[str]:
        """Return the command of the engine's own program that opens a shell in a container."""
        return ["docker", "--host", f"unix://{self.daemon.socket}", *shell_words(container)]

    def commit(self, container: str, name: str, comment: str, config: ImageConfig) -> OciImage:
        """Make an image of a container as it is now; the name appears when it is whole."""
        with self._asking(f"keep {name}"):
            identifier = self._commit(container, name, comment, config)
        image = self.image(identifier)
        if image is None:
            raise EngineError(f"{self.daemon.kind} committed {name}, but has no image of it")
        return image

    def _commit(self, container: str, name: str, comment: str, config: ImageConfig) -> str:
        repository, _, tag = name.rpartition(":")
        body = {
            "Cmd": list(SHELL),
            "Entrypoint": list(config.entrypoint),
            "Env": [f"{key}={value}" for key, value in config.environment.items()],
            "Labels": dict(config.labels),
        }
        answer = self.api.commit(
            container, repository=repository, tag=tag, message=comment, pause=False, conf=body
        )
        return str(answer["Id"])

    def remove(self, container: str) -> None:
        """End and remove a container; one that is gone is no error."""
        from docker.errors import APIError, NotFound

        self._cut(container)
        with self._asking("remove a container"):
            try:
                self.api.remove_container(container, v=True, force=True)
            except NotFound:
                return
            except APIError as error:
                # It is being removed already, since its lifeline was cut.
                if error.status_code != 409:
                    raise
                self._wait_until_gone(container)

    def _wait_until_gone(self, container: str) -> None:
        """Wait for a removal that the daemon does by itself: until then the image is in use."""
        from docker.errors import NotFound

        end = time.monotonic() + _REMOVAL_S
        while time.monotonic() < end:
            try:
                self.api.inspect_container(container)
            except NotFound:
                return
            time.sleep(0.1)
        raise EngineError(
            f"{self.daemon.kind} does not finish removing container {container[:12]}",
            next_step=f"find the reason: {self.daemon.kind} inspect {container[:12]}",
        )

    def containers(self, prefix: str) -> list[tuple[str, str]]:
        """List (id, name) of all containers whose names begin so."""
        with self._asking("list containers"):
            listed = self.api.containers(all=True, filters={"name": prefix})
        named = [(str(entry["Id"]), str(entry["Names"][0]).lstrip("/")) for entry in listed]
        return [(id_, name) for id_, name in named if name.startswith(prefix)]

    def tag(self, name: str, new_name: str) -> None:
        """Give an image another name."""
        repository, _, tag = new_name.rpartition(":")
        with self._asking(f"name {new_name}"):
            self.api.tag(name, repository, tag)

    def untag(self, name: str) -> None:
        """Take a name away, and the image with its last; one that is gone is no error."""
        from docker.errors import NotFound

        with self._asking(f"remove {name}"), contextlib.suppress(NotFound):
            self.api.remove_image(name)

    def save(self, name: str, target: Path) -> None:
        """Write an image as a docker-archive."""
        with self._asking(f"save {name}"), target.open("wb") as file:
            for chunk in self.api.get_image(name, chunk_size=_CHUNK):
                file.write(chunk)

    def export(self, container: str, target: Path) -> None:
        """Write the tree of a container as a tar."""
        with self._asking(f"export {container[:12]}"), target.open("wb") as file:
            for chunk in self.api.export(container, chunk_size=_CHUNK):
                file.write(chunk)

    def push(self, name: str, on_line: Callable[[str], None], *, plain_http: bool) -> str:
        """Send an image to the registry that its name begins with; return its digest there."""
        repository, _, tag = name.rpartition(":")
        params = {"tag": tag, **self._tls(plain_http=plain_http)}
        digests: list[str] = []

        def take(line: str) -> None:
            digests.extend(_DIGEST.findall(line))
            on_line(line)

        with self._asking(f"push {name}"):
            url = self.api._url(f"/images/{repository}/push")
            self._stream(url, params, repository, take)
        if not digests:
            raise EngineError(f"{self.daemon.kind} pushed {name}, but reported no digest")
        return digests[-1]

    def close(self) -> None:
        """Close all connections: containers that were started end."""
        for container in list(self._lifelines):
            self._cut(container)
        self.api.close()

    def _cut(self, container: str) -> None:
        lifeline = self._lifelines.pop(container, None)
        if lifeline is not None:
            docker_answers.close(lifeline)

    def _tls(self, *, plain_http: bool) -> dict[str, str]:
        return {"tlsVerify": "false"} if plain_http else {}

    def _stream(
        self, url: str, params: Mapping[str, str], repository: str, on_line: Callable[[str], None]
    ) -> None:
        from docker import auth

        registry, _ = auth.resolve_repository_name(repository)
        header = auth.get_config_header(self.api, registry) or auth.encode_header({})
        headers = {"X-Registry-Auth": header}
        answer = self.api._post(url, params=dict(params), headers=headers, stream=True)
        self.api._raise_for_status(answer)
        entries = self.api._stream_helper(answer, decode=True)
        for line in docker_answers.lines(self.daemon.kind, entries):
            on_line(line)

    def _asking(self, what: str) -> AbstractContextManager[None]:
        return docker_answers.explained(self.daemon.kind, what)
