from pathlib import Path

import pytest

from dlcontainer.engine_setup.aptsources import (
    Source,
    archive_of,
    parse_deb822,
    parse_one_line,
    read_sources,
    suite_of,
)
from dlcontainer.errors import EngineError

DEB822 = """\
Types: deb deb-src
# a comment between fields
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/archive.gpg

Types: deb
URIs: http://mirror.example/security
Suites: bookworm-security
Components: main

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main

Types: deb-src
URIs: http://source.example/debian
Suites: bookworm
Components: main
"""

ONE_LINE = """\
# deb http://commented.example/debian bookworm main
deb http://mirror.example/debian bookworm main contrib # trailing
deb [arch=amd64 signed-by=/a/key.gpg,/b/key.gpg trusted=yes] https://other.example/x stable main
deb-src http://mirror.example/debian bookworm main
deb     [ signed-by=/c/key.gpg ]   http://spaces.example/debian/   trixie   main
"""


def test_deb822_entries_that_are_enabled_and_binary() -> None:
    assert parse_deb822(DEB822) == [
        Source(
            uris=("http://mirror.example/debian",),
            suites=("bookworm", "bookworm-updates"),
            components=("main", "contrib"),
            signed_by="/usr/share/keyrings/archive.gpg",
        ),
        Source(
            uris=("http://mirror.example/security",),
            suites=("bookworm-security",),
            components=("main",),
        ),
    ]


def test_one_line_entries() -> None:
    assert parse_one_line(ONE_LINE) == [
        Source(
            uris=("http://mirror.example/debian",),
            suites=("bookworm",),
            components=("main", "contrib"),
        ),
        Source(
            uris=("https://other.example/x",),
            suites=("stable",),
            components=("main",),
            signed_by="/a/key.gpg /b/key.gpg",
        ),
        Source(
            uris=("http://spaces.example/debian/",),
            suites=("trixie",),
            components=("main",),
            signed_by="/c/key.gpg",
        ),
    ]


def test_a_key_written_into_the_entry_survives() -> None:
    text = (
        "Types: deb\nURIs: http://m.example/d\nSuites: bookworm\nComponents: main\nSigned-By:\n"
        " -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc=\n -----END PGP PUBLIC KEY BLOCK-----\n"
    )
    (source,) = parse_deb822(text)
    assert suite_of(source, "sid") == (
        "Types: deb\nURIs: http://m.example/d\nSuites: sid\nComponents: main\nTargets: Packages\n"
        "Signed-By: -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc=\n"
        " -----END PGP PUBLIC KEY BLOCK-----\n"
    )


def test_the_mirror_of_the_release_is_chosen() -> None:
    sources = [
        Source(uris=("cdrom:[disc]/",), suites=("bookworm",), components=("main",)),
        Source(uris=("http://s.example/",), suites=("bookworm-security",), components=("main",)),
        Source(uris=("http://third.example/",), suites=("stable",), components=("main",)),
        Source(uris=("http://m.example/d",), suites=("bookworm",), components=("main",)),
    ]
    assert archive_of(sources, "bookworm").uris == ("http://m.example/d",)
    assert archive_of(sources[:3], "bookworm").uris == ("http://third.example/",)
    with pytest.raises(EngineError, match="name no mirror") as caught:
        archive_of(sources[:2], "bookworm")
    assert "bookworm" in str(caught.value)
    assert "next:" in str(caught.value)


def test_trust_is_never_carried_over() -> None:
    (source,) = parse_one_line("deb [trusted=yes] http://m.example/d bookworm main")
    text = suite_of(source, "sid")
    assert "rust" not in text
    assert "Signed-By" not in text  # apt then uses the host's trusted keys


def test_the_hosts_files_are_read_in_order(tmp_path: Path) -> None:
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (tmp_path / "sources.list").write_text("deb http://one.example/ bookworm main\n")
    (parts / "b.sources").write_text(
        "Types: deb\nURIs: http://two.example/\nSuites: bookworm\nComponents: main\n"
    )
    (parts / "c.list.disabled").write_text("deb http://three.example/ bookworm main\n")
    assert [source.uris[0] for source in read_sources(tmp_path)] == [
        "http://one.example/",
        "http://two.example/",
    ]
    assert read_sources(tmp_path / "absent") == []
