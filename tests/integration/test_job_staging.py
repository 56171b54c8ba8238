"""A job's copy of its image: where it lies, and that it is the image; two users for real.

Launchers, sbcast, dbcast and lfs are stand-ins: the real sbcast is in tests/integration/slurm.
"""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.integration.accounts import NOBODY, Account
from tests.integration.world import missing
from tests.jobs import RECORD, SLURM, Machine, Ran, images, plan_at
from tests.skips import skip

VICTIM = Account(uid=5, gid=60)
# Notes its words, then is one process on each node, which are all this machine.
LAUNCHER = """\
#!/bin/sh
printf '%s\\0' "${0##*/}" "$@" END-OF-CALL >> "$FAKE_CALLS"
case " ${FAKE_FAILS-} " in *" ${0##*/} "*) exit 1 ;; esac
while :; do case $1 in -n) shift 2 ;; -*) shift ;; *) break ;; esac; done
exec "$@"
"""
NOTED = """printf '%s\\0' "${0##*/}" "$@" END-OF-CALL >> "$FAKE_CALLS"\n"""
SBCAST = f'#!/bin/sh\n{NOTED}cat "$2" > "$3"\n'
DBCAST = f'#!/bin/sh\n{NOTED}cat "$1" > "$2"\n'
LFS = f'#!/bin/sh\n{NOTED}: > "$4"\n'
RANK = {"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_LOCALID": "0", "SLURM_NNODES": "2"}
JOB = {**RANK, "SLURM_JOB_ID": "7", "DLCONTAINER_KEEP": "0", "DLCONTAINER_GPUS": "0"}
IMAGE = b"an image\n" * 1000


class Job:
    """A user's job at a site that stages, and the folder that the copies go to."""

    def __init__(self, folder: Path, user: Account | None = None) -> None:
        self.folder, self.user = folder, user
        start = tuple(user.argv()) if user else ()
        self.machine = replace(Machine.made(folder / "a machine"), start=start)
        self.to = folder / "node local"
        self.to.mkdir()
        self.program("srun", LAUNCHER)
        self.program("jsrun", LAUNCHER)
        self.program("sbcast", SBCAST)
        self.program("dbcast", DBCAST)
        self.program("lfs", LFS)
        self.image = self.machine.here / "demo.sif"
        self.image.write_bytes(IMAGE)

    def program(self, name: str, text: str) -> None:
        path = self.machine.folder / "bin" / name
        path.unlink(missing_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run(self, how: str, **environ: str) -> Ran:
        """Run a job that copies so: `sbcast`, `dbcast`, `copy` or `stripes`."""
        staging: dict[str, Any] = {"how": how, "to": "$NODE_LOCAL"}
        if how == "stripes":
            staging |= {"how": "copy", "stripes": 8}
        plan = plan_at(
            Path(tempfile.mkdtemp(dir=self.folder)), scheduler=SLURM, jobs={"staging": staging}
        )
        if self.user:
            self.user.own(self.machine.here)
        given = {"NODE_LOCAL": str(self.to), "DLCONTAINER_IMAGE": str(self.image), **JOB, **environ}
        return self.machine.job(plan, "true", **given)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


@pytest.fixture
def shared() -> Iterator[Job]:
    """Give a job of an ordinary user whose copies go to a sticky folder, as /tmp is."""
    if os.getuid() != 0:
        skip("two users are needed", elsewhere="a run as root")
    folder = Path(tempfile.mkdtemp(prefix="dlc-staged-"))
    try:
        folder.chmod(0o755)
        runs = VICTIM.argv("test", "-x", str(RECORD))
        if subprocess.run(runs, check=False).returncode != 0:
            skip(f"others can't run {RECORD}", elsewhere="a checkout that others may enter")
        job = Job(folder, VICTIM)
        job.to.chmod(0o1777)
        yield job
    finally:
        shutil.rmtree(folder)


def theirs(path: Path) -> Path:
    """Make what lies there another user's."""
    os.chown(path, NOBODY.uid, NOBODY.gid, follow_symlinks=False)
    return path


@pytest.mark.parametrize("how", ["sbcast", "stripes"])
def test_a_node_s_script_is_linted_too(job: Job, how: str, tmp_path: Path) -> None:
    program = shutil.which("shellcheck")
    if program is None:
        missing("shellcheck (make setup)")
    ran = job.run(how)
    assert ran.code == 0, ran.err
    text = (job.machine.folder / "job.sh").read_text()
    script = tmp_path / "node.sh"
    body = text.split("<<'END_OF_NODE' || :\n")[1].split("END_OF_NODE")[0]
    script.write_text(f"#!/bin/sh\n{body}")
    done = subprocess.run([str(program), str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("how", ["sbcast", "dbcast", "copy"])
def test_a_copy_lies_in_a_folder_of_its_own_and_goes(job: Job, how: str) -> None:
    job.program(
        "apptainer",
        f'#!/bin/sh\n{NOTED}[ "$1" = exec ] || exit 0; for one; do case $one in *.sif) break ;; '
        'esac; done; stat -c %a:%n "${one%/*}"; cmp "$one" "$OF"',
    )
    ran = job.run(how, OF=str(job.image))
    assert ran.code == 0, ran.err
    [copy] = images(ran)
    assert Path(copy).name == "demo.sif"
    assert Path(copy).parent.name.startswith("dlcontainer-7-")
    assert ran.out == f"700:{Path(copy).parent}\n"
    assert list(job.to.iterdir()) == []
    assert job.run(how, OF=str(job.image), FAKE_FAILS="apptainer").code == 0


def test_the_image_stays_where_it_is_if_one_says_so(job: Job) -> None:
    assert images(job.run("copy", DLCONTAINER_STAGE="0")) == [str(job.image)]
    assert "give 1 or 0" in job.run("copy", DLCONTAINER_STAGE="yes").err
    assert "$NODE_LOCAL is empty" in job.run("copy", NODE_LOCAL="").err


@pytest.mark.parametrize("how", ["sbcast", "dbcast"])
def test_a_copy_that_fails_ends_the_job_and_is_gone(job: Job, how: str) -> None:
    job.program(how, "#!/bin/sh\nexit 1\n")
    ran = job.run(how)
    assert (ran.code, images(ran), list(job.to.iterdir())) == (3, [], [])
    assert "next: DLCONTAINER_STAGE=0 leaves it where it is" in ran.err


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("sbcast", 'echo other > "$3"'),
        ("sbcast", 'ln -s "$2" "$3"'),
        ("sbcast", 'mkdir "$3"'),
        ("sbcast", 'mkfifo "$3"'),
        ("sbcast", ":"),
        ("dbcast", 'echo other > "$2"'),
        ("stripes", 'mkdir "$4"'),
    ],
)
def test_what_is_not_the_image_does_not_run(job: Job, how: str, text: str) -> None:
    job.program("lfs" if how == "stripes" else how, f"#!/bin/sh\n{text}\n")
    ran = job.run(how)
    assert (ran.code, images(ran)) == (3, []), ran.err
    assert "can't copy" in ran.err


def test_a_copy_must_be_what_the_record_says(job: Job) -> None:
    record = job.image.with_suffix(".json")
    body = {"schema": "s", "image": {"file": "f", "sha256": "0" * 64, "size": 1}, "digest": "d"}
    record.write_text(json.dumps(body, indent=1))
    ran = job.run("copy")
    assert (ran.code, images(ran)) == (3, [])
    assert f"demo.json: {'0' * 64}" in ran.err
    body["image"] = {"file": "f", "sha256": hashlib.sha256(IMAGE).hexdigest(), "size": 1}
    record.write_text(json.dumps(body, indent=1))
    assert job.run("copy").code == 0


@pytest.mark.parametrize("text", ["", "{}", '{"image": {"sha256": "$(touch X)"}}', "\0" * 100])
def test_a_record_that_is_none_says_nothing(job: Job, text: str) -> None:
    job.image.with_suffix(".json").write_text(text)
    assert job.run("copy").code == 0


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("nothing")])
def test_what_lies_in_place_of_a_record_or_an_image(job: Job, make: Callable[[Path], None]) -> None:
    make(job.image.with_suffix(".json"))
    assert job.run("copy").code == 0
    job.image.unlink()
    make(job.image)
    ran = job.run("copy")
    assert (ran.code, images(ran)) == (3, [])


def test_a_copy_on_lustre_is_striped_kept_and_read_again(job: Job) -> None:
    ran = job.run("stripes")
    own = job.to / f"dlcontainer-{os.getuid()}"
    kept = own / f"{hashlib.sha256(IMAGE).hexdigest()}.sif"
    assert ran.calls[0][:4] == ["lfs", "setstripe", "--stripe-count", "8"]
    assert (images(ran), kept.read_bytes()) == ([str(kept)], IMAGE)
    assert [call[0] for call in job.run("stripes").calls] == ["srun", "apptainer"]
    assert list(own.iterdir()) == [kept]


def _newer(path: Path, _image: Path) -> None:
    path.write_bytes(b"others\n" * 10)
    os.utime(path, (4e9, 4e9))


PLANTED: list[Callable[[Path, Path], object]] = [
    _newer,
    lambda path, image: path.symlink_to(image),
    lambda path, _: path.symlink_to("/nothing"),
    lambda path, _: os.mkfifo(path),
    lambda path, _: theirs(Path(shutil.copy("/bin/true", path))),
]


@pytest.mark.parametrize("plant", PLANTED)
def test_what_is_no_copy_is_made_again(job: Job, plant: Callable[[Path, Path], object]) -> None:
    [kept] = images(job.run("stripes"))
    Path(kept).unlink()
    plant(Path(kept), job.image)
    ran = job.run("stripes")
    assert images(ran) == [kept], ran.err
    assert Path(kept).read_bytes() == IMAGE
    assert not Path(kept).is_symlink()
    assert Path(kept).stat().st_uid == os.getuid()


def test_a_folder_in_place_of_a_kept_copy_is_refused(job: Job) -> None:
    [kept] = images(job.run("stripes"))
    Path(kept).unlink()
    Path(kept).mkdir()
    ran = job.run("stripes")
    assert (ran.code, images(ran)) == (3, [])
    assert [path.name for path in Path(kept).parent.iterdir()] == [Path(kept).name]


def _folder(path: Path, _to: Path) -> None:
    (path / "bin").mkdir(parents=True)
    shutil.copy("/bin/true", path / "bin/sh")
    path.chmod(0o777)


STRANGERS: list[Callable[[Path, Path], object]] = [
    _folder,
    lambda path, to: path.symlink_to(to / "elsewhere"),
    lambda path, _: path.write_bytes(b"x"),
    lambda path, _: os.mkfifo(path),
]


@pytest.mark.parametrize("how", ["copy", "sbcast", "dbcast", "stripes"])
@pytest.mark.parametrize("plant", STRANGERS)
def test_what_a_stranger_laid_at_the_folder_s_name_is_refused(
    shared: Job, how: str, plant: Callable[[Path, Path], object]
) -> None:
    # As if the name of a job's own folder could be known before.
    shared.program("od", "#!/bin/sh\necho ' 0123456789abcdef'\n")
    known = f"dlcontainer-{VICTIM.uid}" if how == "stripes" else "dlcontainer-7-0123456789abcdef"
    VICTIM.own(Path(tempfile.mkdtemp(dir=shared.folder))).rename(shared.to / "elsewhere")
    plant(shared.to / known, shared.to)
    theirs(shared.to / known)
    ran = shared.run(how)
    assert (ran.code, images(ran)) == (3, []), ran.err
    assert "can't copy" in ran.err
    assert not list((shared.to / "elsewhere").iterdir())
    (shared.to / known).lstat()  # and it is not touched


@pytest.mark.parametrize("how", ["copy", "sbcast", "dbcast", "stripes"])
def test_the_name_of_before_means_nothing(shared: Job, how: str) -> None:
    for name in ("dlcontainer-7-demo.sif", "demo.sif"):
        _folder(shared.to / name, shared.to)
        theirs(shared.to / name)
    ran = shared.run(how)
    assert ran.code == 0, ran.err
    [copy] = images(ran)
    assert Path(copy).parent.parent == shared.to
    assert "demo.sif" not in Path(copy).parent.name


@pytest.mark.parametrize(
    ("mode", "owner", "word"),
    [
        (0o1777, NOBODY.uid, "is of another user"),
        (0o755, NOBODY.uid, "is of another user"),
        (0o777, 0, "everybody may rename"),
    ],
)
def test_a_folder_that_others_could_swap_is_refused(
    shared: Job, mode: int, owner: int, word: str
) -> None:
    place = shared.to / "me"
    place.mkdir()
    os.chown(place, owner, -1)
    place.chmod(mode)
    ran = shared.run("copy", NODE_LOCAL=str(place))
    assert (ran.code, images(ran)) == (3, [])
    assert word in ran.err
    assert f"{place}" in ran.err


def test_a_link_that_a_stranger_laid_leads_nowhere(shared: Job) -> None:
    place = VICTIM.own(Path(tempfile.mkdtemp(dir=shared.folder)))
    (shared.to / "me").symlink_to(place)
    theirs(shared.to / "me")
    ran = shared.run("copy", NODE_LOCAL=str(shared.to / "me"))
    assert (ran.code, images(ran), list(place.iterdir())) == (3, [], [])


@pytest.mark.parametrize("how", ["copy", "stripes"])
def test_root_takes_no_stranger_s_private_folder(shared: Job, how: str) -> None:
    shared.user, shared.machine = None, replace(shared.machine, start=())
    shared.program("od", "#!/bin/sh\necho ' 0123456789abcdef'\n")
    known = "dlcontainer-0" if how == "stripes" else "dlcontainer-7-0123456789abcdef"
    (shared.to / known).mkdir(mode=0o700)
    theirs(shared.to / known)
    ran = shared.run(how)
    assert (ran.code, images(ran)) == (3, [])
    assert f"{known} is of another user, or a link" in ran.err


def test_ones_own_folder_that_others_may_enter_is_refused(shared: Job) -> None:
    own = shared.to / f"dlcontainer-{VICTIM.uid}"
    own.mkdir()
    VICTIM.own(own).chmod(0o777)
    ran = shared.run("stripes")
    assert (ran.code, images(ran)) == (3, [])
    assert "others may come in; remove it" in ran.err


def test_ones_own_link_into_a_stranger_s_folder_is_refused(shared: Job) -> None:
    theirs_there = shared.to / "theirs"
    theirs_there.mkdir()
    theirs(theirs_there)
    theirs_there.chmod(0o1777)
    link = shared.folder / "mine"
    link.symlink_to(theirs_there)
    ran = shared.run("copy", NODE_LOCAL=str(link))
    assert (ran.code, images(ran)) == (3, [])
    assert f"{theirs_there} is of another user" in ran.err


def test_a_private_folder_below_is_anybodys_business(shared: Job) -> None:
    """A scheduler's folder of a job: others can't come in, whatever its folders below say."""
    private = shared.to / "slurm.7"
    (private / "tmp").mkdir(parents=True)
    VICTIM.own(private)
    private.chmod(0o700)
    (private / "tmp").chmod(0o777)
    ran = shared.run("copy", NODE_LOCAL=str(private / "tmp"))
    assert ran.code == 0, ran.err


def test_a_relative_folder_is_refused(job: Job) -> None:
    ran = job.run("copy", NODE_LOCAL="here")
    assert (ran.code, images(ran)) == (3, [])
    assert "is no absolute path" in ran.err
