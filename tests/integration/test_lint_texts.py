"""The rendered texts through the linters that their readers would use: hadolint and shellcheck."""

import re
import shutil
from pathlib import Path

import pytest

from dlcontainer.config.templating import Text
from dlcontainer.formats import released_job
from dlcontainer.publish.unpacked import cvmfs
from dlcontainer.system.process import ProcessRunner
from tests import goldens
from tests.integration.world import missing
from tests.values import ROOT, TEMPLATES

# Not followed: files of the machine that a script runs on.
SHELLCHECK = ("--exclude=SC1091", "--color=never")
# A comment that no linter takes for an instruction.
PROSE = re.compile(r"\s*#(?! (?:shellcheck|hadolint)|!)")
MOST = 100  # files a process

PUBLISHED = released_job.PublishedJob(
    release=Text("'/a release'"), module=Text("'demo/1.0-1'"), image="image.sif", folder="job"
)


def linter(name: str) -> str:
    program = shutil.which(name)
    if program is None:
        missing(f"{name} (make setup)")
    return str(program)


def distinct(files: list[Path]) -> list[Path]:
    """Leave out the texts that differ from another in comments and names alone."""
    seen: dict[str, Path] = {}
    for path in files:
        plan = goldens.plans()[path.parent.name]
        lines = path.read_text().splitlines()
        text = "\n".join(line for line in lines if not PROSE.match(line))
        for name in (plan.digest, plan.name, plan.site.target, plan.site.name):
            text = text.replace(name, "NAME")
        seen.setdefault(text, path)
    return [*seen.values()]


def lint(argv: list[str], files: list[Path], cwd: Path = ROOT) -> None:
    assert files, "nothing to look at"
    runner = ProcessRunner(environ={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"})
    for start in range(0, len(files), MOST):
        names = [str(path) for path in files[start : start + MOST]]
        done = runner([*argv, *names], check=False, cwd=cwd)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Render the texts of every combination."""
    folder = tmp_path_factory.mktemp("texts")
    assert goldens.write_all(folder)
    return folder


def sections(rendered: Path, name: str) -> dict[str, str]:
    """Give a section of each definition file, by plan."""
    found = {}
    for path in sorted(rendered.glob("*/apptainer.def")):
        inside, lines = False, []
        for line in path.read_text().splitlines():
            if line.startswith("%"):
                inside = line == f"%{name}"
            elif inside:
                lines.append(line)
        assert lines, f"{path} has no %{name}"
        found[path.parent.name] = "\n".join(lines) + "\n"
    return found


def test_dockerfiles(rendered: Path) -> None:
    files = distinct(sorted(rendered.glob("*/Dockerfile")))
    lint([linter("hadolint"), "--no-color", "--config", str(ROOT / "tests/hadolint.yaml")], files)


def test_scripts(rendered: Path) -> None:
    lint([linter("shellcheck"), *SHELLCHECK], distinct(sorted(rendered.glob("*/*.sh"))))


def test_the_shell_of_each_rank(rendered: Path, tmp_path: Path) -> None:
    """It stands in a job script as text, where shellcheck does not look."""
    texts = {}
    for script in sorted(rendered.glob("*/job.sh")):
        _, _, text = script.read_text().partition("<<'END_OF_RANK' || :\n")
        if text:
            texts[text.partition("END_OF_RANK\n")[0]] = script.parent.name
    files = [tmp_path / f"{name}.sh" for name in texts.values()]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    assert len(files) > 5
    lint([linter("shellcheck"), *SHELLCHECK, "--shell=sh"], files, tmp_path)


def test_the_job_of_a_release(tmp_path: Path) -> None:
    """Its files are parts of one script: one sets what another reads."""
    files: dict[str, list[Path]] = {"bash": [], "sh": []}
    for name in goldens.whole_jobs(goldens.whole()):
        plan = goldens.plans()[name]
        written = released_job.texts(plan, PUBLISHED, [TEMPLATES])
        for file, text in written.items():
            path = tmp_path / f"{name}-{file}"
            path.write_text(text)
            files["sh" if file == released_job.RANK else "bash"].append(path)
    for shell, paths in files.items():
        assert paths, shell
        words = (*SHELLCHECK[1:], "--exclude=SC1091,SC2034,SC2154,SC2329", f"--shell={shell}")
        lint([linter("shellcheck"), *words], paths, tmp_path)


@pytest.mark.parametrize("section", ["pre", "post", "environment", "runscript", "test"])
def test_sections_of_definition_files(section: str, rendered: Path, tmp_path: Path) -> None:
    files = []
    texts = {text: name for name, text in sections(rendered, section).items()}
    for text, name in texts.items():
        files.append(tmp_path / f"{name}.sh")
        files[-1].write_text(text)
    assert files
    lint([linter("shellcheck"), *SHELLCHECK, "--shell=sh"], files, tmp_path)


def test_the_script_for_cernvm_fs(tmp_path: Path) -> None:
    script = tmp_path / "cvmfs.sh"
    root = Path("/cvmfs/sw.example.org/a folder")
    script.write_text(cvmfs.script(Path("/images/it's.sif"), "lab", root, [ROOT / "templates"]))
    lint([linter("shellcheck"), *SHELLCHECK], [script], tmp_path)


def test_the_linters_do_find_something(tmp_path: Path) -> None:
    bad = tmp_path / "bad.sh"
    bad.write_text("#!/bin/sh\nrm -rf $1\n")
    with pytest.raises(AssertionError, match="SC2086"):
        lint([linter("shellcheck"), *SHELLCHECK], [bad])
    (tmp_path / "Dockerfile").write_text("FROM debian\nRUN cd /x && true\n")
    with pytest.raises(AssertionError, match="DL3006"):
        lint([linter("hadolint"), "--no-color"], [tmp_path / "Dockerfile"])
