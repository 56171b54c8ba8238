"""An engine that is none: it notes what it is asked and keeps images as values."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from dlcontainer.engines.oci import ContainerSpec, Daemon, ImageConfig, OciImage, OciKind

DIGEST = f"sha256:{'d' * 64}"


def daemon(kind: OciKind = "docker", **changes: object) -> Daemon:
    return replace(
        Daemon(
            kind=kind,
            version="20.10.24",
            socket=Path("/run/engine.sock"),
            owner="ada",
            storage_driver="overlay2",
            storage=Path("/var/lib/engine"),
            rootless=False,
        ),
        **changes,  # type: ignore[arg-type]
    )


def image(name: str, **changes: object) -> OciImage:
    made = OciImage(
        id=f"sha256:{name}",
        names=(name,),
        arch="amd64",
        environment={},
        labels={},
        entrypoint=(),
        created="2026-11-21T10:11:12.5Z",
        comment="",
        size=7,
        total=77,
        layers=(name,),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


@dataclass(kw_only=True)
class FakeClient:
    """An `OciClient`; `codes` are the exit codes of the coming commands, then 0."""

    daemon: Daemon = field(default_factory=daemon)
    store: dict[str, OciImage] = field(default_factory=dict)
    codes: list[int] = field(default_factory=list)
    said: bytes = b"a line\nand more\n"
    # What the engine adds to each image of its own accord.
    adds: dict[str, str] = field(default_factory=dict)
    calls: list[tuple[str, ...]] = field(default_factory=list)
    running: dict[str, ContainerSpec] = field(default_factory=dict)
    on_execute: Callable[[tuple[str, ...]], None] = lambda argv: None

    def named(self, call: str) -> list[tuple[str, ...]]:
        return [words for words in self.calls if words[0] == call]

    def image(self, name: str) -> OciImage | None:
        return self.store.get(name)

    def images(self, repository: str) -> list[OciImage]:
        return [one for name, one in self.store.items() if name.startswith(f"{repository}:")]

    def import_tree(self, tar: Path, name: str) -> None:
        self.calls.append(("import", tar.read_text(), name))
        self.store[name] = image(name)

    def pull(self, reference: str, on_line: Callable[[str], None], *, plain_http: bool) -> None:
        self.calls.append(("pull", reference, str(plain_http)))
        self.store[reference] = image(reference, environment={"BASE": "1"}, entrypoint=("/entry",))

    def start(self, spec: ContainerSpec) -> str:
        self.calls.append(("start", spec.image.id, spec.name))
        self.running[spec.name] = spec
        return spec.name

    def execute(
        self, container: str, argv: tuple[str, ...], sink: Callable[[bytes], object]
    ) -> int:
        assert container in self.running
        self.calls.append(("execute", *argv))
        self.on_execute(argv)
        sink(self.said)
        return self.codes.pop(0) if self.codes else 0

    def shell_argv(self, container: str) -> list[str]:
        return ["engine", "exec", container]

    def commit(self, container: str, name: str, comment: str, config: ImageConfig) -> OciImage:
        parent = self.running[container].image
        self.calls.append(("commit", name, comment))
        self.store[name] = image(
            name,
            environment={**parent.environment, **config.environment, **self.adds},
            labels={**parent.labels, **config.labels},
            entrypoint=config.entrypoint,
            comment=comment,
        )
        return self.store[name]

    def remove(self, container: str) -> None:
        self.calls.append(("remove", container))
        self.running.pop(container, None)

    def containers(self, prefix: str) -> list[tuple[str, str]]:
        return [(name, name) for name in self.running if name.startswith(prefix)]

    def tag(self, name: str, other: str) -> None:
        self.calls.append(("tag", name, other))
        self.store[other] = self.store[name]

    def untag(self, name: str) -> None:
        self.calls.append(("untag", name))
        self.store.pop(name, None)

    def save(self, name: str, target: Path) -> None:
        self.calls.append(("save", name))
        target.write_text(name)

    def export(self, container: str, target: Path) -> None:
        self.calls.append(("export", container))
        target.write_bytes(b"")

    def push(self, name: str, on_line: Callable[[str], None], *, plain_http: bool) -> str:
        assert name in self.store
        self.calls.append(("push", name, str(plain_http)))
        return DIGEST

    def close(self) -> None:
        self.running.clear()
