"""Provenance: what it says, and what it keeps to itself."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer import __version__
from dlcontainer.build import provenance
from dlcontainer.build.provenance import BuildSources
from dlcontainer.errors import ConfigError
from dlcontainer.system import machine
from dlcontainer.system.process import CommandFailedError
from tests.fakes import RecordingRunner, completed
from tests.values import folder_of, plan_of, site_of

COMMIT = "1234567890" * 4


def tools(tmp_path: Path, *names: str) -> dict[str, str]:
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text("")
        (folder / name).chmod(0o755)
    return {"PATH": str(folder), "HOME": "/home/ada", "TOKEN": "hunter2"}


def sources(environ: dict[str, str], *answers: object) -> BuildSources:
    runner = RecordingRunner(answers=list(answers), strict=True)  # type: ignore[arg-type]
    return BuildSources(
        text="text\n", base="cd", engine="e 1", lock=None, runner=runner, environ=environ
    )


def test_what_it_says(tmp_path: Path) -> None:
    environ = tools(tmp_path, "git", "mmdebstrap", "mksquashfs")
    said = sources(
        environ | {"SOURCE_DATE_EPOCH": "7"},
        completed(stdout=f"{COMMIT}\n"),
        completed(stdout=" M recipe.yaml\n"),
        completed(stdout="mmdebstrap 1.3.5\n"),
        completed(stdout="mksquashfs version 4.5.1 (2022/03/17)\ncopyright\n", code=1),
    )
    plan = plan_of(folder_of(tmp_path))
    body = provenance.gather(plan, replace(said, lock="ef"))
    assert body["plan"] == {"digest": plan.digest, "content": plan.content}
    assert body["recipe"] == {"name": "demo", "git": {"commit": COMMIT, "dirty": True}}
    assert body["tools"] == {
        "dlcontainer": __version__,
        "engine": "e 1",
        "mmdebstrap": "mmdebstrap 1.3.5",
        "mksquashfs": "mksquashfs version 4.5.1 (2022/03/17)",
    }
    assert (body["lock"], body["source_date_epoch"]) == ({"sha256": "ef"}, 7)
    assert body["base"] == {"sha256": "cd", "image": None}
    text: Any = body["text"]
    assert text["rendered"] == "text\n"
    written = provenance.render(body)
    assert written == provenance.render(json.loads(written))
    for private in ("ada", "hunter2", str(tmp_path)):
        assert private not in written


def test_the_site_without_its_paths(tmp_path: Path) -> None:
    site = site_of(
        sources={"doc": "https://example.org/doc"},
        os={
            "distribution": "rhel",
            "release": "8.2",
            "sources": ["doc"],
            "remembered": ["release"],
        },
        mpi={
            "family": "mpich",
            "mode": "swap",
            "name": "Cray MPICH",
            "root": "/opt/cray/secret",
            "binds": ["/opt/cray"],
        },
        filesystems=[{"path": "/lustre/secret", "kind": "lustre", "purpose": "scratch"}],
        routing={"pip": {"index": "https://user:secret@example.org/simple"}},
        engine={"tmpdir": "/local/secret"},
    )
    body = provenance.gather(plan_of(folder_of(tmp_path), site=site), sources({"PATH": "/none"}))
    assert body["site"] == {
        "name": "demo",
        "epoch": None,
        "node_type": None,
        "arch": "x86_64",
        "os": {"distribution": "rhel", "release": "8.2"},
        "mpi": {"family": "mpich", "mode": "swap", "name": "Cray MPICH"},
    }
    assert "secret" not in provenance.render(body)


def test_a_checkout(tmp_path: Path) -> None:
    environ = tools(tmp_path, "git")
    clean = sources(environ, completed(stdout=f"{COMMIT}\n"), completed())
    assert provenance.checkout(tmp_path, clean) == {"commit": COMMIT, "dirty": False}
    runner = clean.runner
    assert isinstance(runner, RecordingRunner)
    # Nothing that the checkout's own configuration names is started, nothing is written.
    for argv in runner.argvs:
        assert argv[1:6] == (
            "-c",
            "core.fsmonitor=false",
            "--no-optional-locks",
            "-C",
            str(tmp_path),
        )
    assert all("TOKEN" not in (call.env or {}) for call in runner.calls)


def test_no_checkout(tmp_path: Path) -> None:
    environ = tools(tmp_path, "git")
    failed = CommandFailedError(completed("git", code=128))
    assert provenance.checkout(tmp_path, sources(environ, failed, failed)) is None
    unknown = sources(environ, completed(stdout=""), completed(stdout="?? ./\n"))
    assert provenance.checkout(tmp_path, unknown) is None
    assert provenance.checkout(tmp_path, sources({"PATH": "/none"})) is None


@pytest.mark.parametrize("given", ["now", "-1", "1.5", "٣", str(2**32), " 7"])
def test_a_moment_that_is_none(given: str) -> None:
    with pytest.raises(ConfigError, match="is not a time"):
        machine.source_date({"SOURCE_DATE_EPOCH": given})


def test_a_moment() -> None:
    assert machine.source_date({"SOURCE_DATE_EPOCH": "1700000000"}) == 1700000000
    assert machine.source_date({"SOURCE_DATE_EPOCH": ""}) is machine.source_date({}) is None
