"""Podman through the Docker SDK; where the two differ, through the same socket's own calls.

Podman notes a container's whole environment in the images that are made of it, the service's
proxies among it; only its own calls can leave that out.
"""

import json
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dlcontainer.engines.docker import SdkClient
from dlcontainer.engines.engine import is_lent
from dlcontainer.engines.oci import LIFELINE, SHELL, ContainerSpec, ImageConfig, shell_words

# Source: docs.podman.io/en/latest/_static/api.html; all of it is there since 4.0.
_VERSION = "v4.0.0"


class PodmanClient(SdkClient):
    """Podman's service."""

    __slots__ = ()

    def import_tree(self, tar: Path, name: str) -> None:
        """Make an image of one layer of a root tree."""
        with self._asking("import the base"), tar.open("rb") as file:
            self._post("/images/import", {"reference": name}, data=file)

    def pull(self, reference: str, on_line: Callable[[str], None], *, plain_http: bool) -> None:
        """Fetch an image of a registry: NAME:TAG or NAME@DIGEST."""
        params = {"reference": reference, **self._tls(plain_http=plain_http)}
        repository = reference.partition("@")[0]
        with self._asking(f"pull {reference}"):
            self._stream(self._url("/images/pull"), params, repository, on_line)

    def shell_argv(self, container: str) -> list[str]:
        """Return the command of the engine's own program that opens a shell in a container."""
        return ["podman", "--remote", f"--url=unix://{self.daemon.socket}", *shell_words(container)]

    def _create(self, spec: ContainerSpec) -> str:
        body = {
            "name": spec.name,
            "image": spec.image.id.removeprefix("sha256:"),
            "entrypoint": list(LIFELINE),
            "command": [],
            "env": dict(spec.image.environment),
            "unsetenvall": True,
            "httpproxy": False,
            "stdin": True,
            "remove": True,
            "mounts": [
                {
                    "type": "bind",
                    "source": str(source),
                    "destination": target,
                    "options": ["ro" if is_lent(target, spec.binds) else "rw"],
                }
                for source, target in spec.binds
            ],
            "netns": {"nsmode": "host"},
            "selinux_opts": ["disable"],
            # A user's Podman takes the user's own limits.
            "r_limits": [] if self.daemon.rootless else _limits(),
        }
        return str(self._post("/containers/create", json=body)["Id"])

    def _commit(self, container: str, name: str, comment: str, config: ImageConfig) -> str:
        repository, _, tag = name.rpartition(":")
        # Podman takes one pair of quotes away and nothing else: no escapes, no variables.
        changes = [f'ENV {key}="{value}"' for key, value in config.environment.items()]
        changes += [f'LABEL {key}="{value}"' for key, value in config.labels.items()]
        changes += [f"CMD {json.dumps(SHELL)}", f"ENTRYPOINT {json.dumps(config.entrypoint)}"]
        params = {
            "container": container,
            "repo": repository,
            "tag": tag,
            "comment": comment,
            "format": "docker",
            "pause": "false",
            "changes": changes,
        }
        return str(self._post("/commit", params)["Id"])

    def _url(self, path: str) -> str:
        return f"{self.api.base_url}/{_VERSION}/libpod{path}"

    def _post(self, path: str, params: dict[str, Any] | None = None, **more: Any) -> Any:
        answer = self.api.post(
            self._url(path),
            params=params,
            timeout=self.api.timeout,
            **more,
        )
        self.api._raise_for_status(answer)
        return answer.json()


def _limits() -> list[dict[str, object]]:
    """Return limits that may be set: the defaults of a root's Podman are above a container's
    own.
    """
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    kinds = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
    limits = []
    for name, which in kinds.items():
        soft, hard = resource.getrlimit(which)
        if resource.RLIM_INFINITY not in {soft, hard}:
            bound = most if name == "nproc" else hard
            limits.append({"type": name, "soft": min(soft, bound), "hard": min(hard, bound)})
    return limits
