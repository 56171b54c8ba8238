"""Names of images: what is one, and where its registry is."""

import pytest

from dlcontainer.config.image_names import is_digest, is_loopback, is_registry, parse_image

DIGEST = f"sha256:{'ab' * 32}"


@pytest.mark.parametrize(
    ("text", "registry", "address", "repository", "source"),
    [
        (
            "docker://ubuntu:22.04",
            "docker.io",
            "registry-1.docker.io",
            "library/ubuntu",
            "ubuntu:22.04",
        ),
        ("docker://a/b", "docker.io", "registry-1.docker.io", "a/b", "a/b:latest"),
        (
            "docker://docker.io/a",
            "docker.io",
            "registry-1.docker.io",
            "library/a",
            "docker.io/a:latest",
        ),
        ("docker://ghcr.io/a/b-c/d:V.1", "ghcr.io", "ghcr.io", "a/b-c/d", "ghcr.io/a/b-c/d:V.1"),
        ("docker://localhost/a:1", "localhost", "localhost", "a", "localhost/a:1"),
        (
            f"docker://127.0.0.1:5000/a:1@{DIGEST}",
            "127.0.0.1:5000",
            "127.0.0.1:5000",
            "a",
            f"127.0.0.1:5000/a@{DIGEST}",
        ),
        (f"docker://[::1]:5/a@{DIGEST}", "[::1]:5", "[::1]:5", "a", f"[::1]:5/a@{DIGEST}"),
    ],
)
def test_names(text: str, registry: str, address: str, repository: str, source: str) -> None:
    found = parse_image(text)
    assert (found.registry, found.address, found.repository) == (registry, address, repository)
    assert (found.source, str(found)) == (source, f"docker://{source}")


def test_tag_and_digest() -> None:
    both = parse_image(f"docker://e.org/a:1@{DIGEST}")
    assert (both.tag, both.digest, both.tagged) == ("1", DIGEST, "e.org/a:1")
    alone = parse_image(f"docker://e.org/a@{DIGEST}")
    assert (alone.tag, alone.digest, alone.tagged) == (None, DIGEST, "e.org/a")
    assert parse_image("docker://e.org/a").tag == "latest"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ubuntu:22.04",
        "docker://",
        "docker://A/b",
        "docker://e.org/A",
        "docker://e.org/a:",
        "docker://e.org/a:b c",
        "docker://e.org/a:1\n%post",
        "docker://e.org/../a",
        "docker://e.org/a//b",
        "docker://e.org/a@sha256:ab",
        f"docker://e.org/a@{DIGEST.upper()}",
        f"docker://e.org/a@sha512:{'ab' * 32}",
        "docker://user:secret@e.org/a",
        "docker://e.org/a?b=c",
        "docker://e.org/$(touch x)",
        f"docker://{'a' * 600}",
        "oras://e.org/a:1",
    ],
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"not docker://NAME\[:TAG\]"):
        parse_image(text)


@pytest.mark.parametrize("address", ["localhost", "localhost:1", "127.0.0.1:5000", "127.9.9.9"])
def test_loopback(address: str) -> None:
    assert is_loopback(address)
    assert is_registry(address)


@pytest.mark.parametrize("address", ["[::1]", "[::1]:5000"])
def test_loopback_of_ip6(address: str) -> None:
    assert is_loopback(address)
    assert is_registry(address)


@pytest.mark.parametrize(
    "address", ["e.org", "127.0.0.1.e.org:1", "localhost.e.org", "128.0.0.1", "[::2]:1", ""]
)
def test_others_machines(address: str) -> None:
    assert not is_loopback(address)


def test_what_is_no_registry_or_digest() -> None:
    assert not [text for text in ("", "a/b", "e.org:", "-a", "a b", "u@e.org") if is_registry(text)]
    assert not [text for text in ("", "sha256:", f"{DIGEST}0", f" {DIGEST}") if is_digest(text)]
    assert is_digest(DIGEST)
