"""Packages of the tests' own: .deb files, made without dpkg."""

import io
import tarfile
from collections.abc import Mapping

CONTROL = "Package: tiny\nVersion: 1.0\nArchitecture: all\nMaintainer: T <t@example.org>\n"


def _packed(files: Mapping[str, bytes], kind: str) -> bytes:
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode=f"w:{kind}") as tar:  # type: ignore[call-overload]
        for name, data in files.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return body.getvalue()


def ar(parts: Mapping[str, bytes]) -> bytes:
    """Write an ar archive; each part begins at an even byte."""
    body = b"!<arch>\n"
    for name, data in parts.items():
        head = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n"
        body += head.encode() + data + b"\n" * (len(data) % 2)
    return body


def deb(
    files: Mapping[str, bytes], control: str = CONTROL, *, kind: str = "xz", suffix: str = ""
) -> bytes:
    """Write a package; `suffix` names its tars otherwise than they are packed."""
    end = suffix or kind
    return ar(
        {
            "debian-binary": b"2.0\n",
            f"control.tar.{end}": _packed({"control": control.encode()}, kind),
            f"data.tar.{end}": _packed(files, kind),
        }
    )
