"""What is left in images: rights, credentials, caches of package managers, shared folders."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.validate.static import image_source, static
from dlcontainer.validate.static.finding import StaticFinding
from dlcontainer.validate.static.leftovers import leftovers
from dlcontainer.validate.static.questions import StaticQuestions
from tests import elves
from tests.fakes import RecordingRunner
from tests.unpacked import IMAGE, findings, lines, only
from tests.values import site_of

ENVIRONMENT = "/.singularity.d/env/90-environment.sh"
PATH = "export PATH=/opt/demo/bin:/usr/bin\n"


def left(
    folder: Path,
    files: Mapping[str, bytes],
    modes: Mapping[str, int] | None = None,
    **site: Any,
) -> list[StaticFinding]:
    """Write the image with more files and other modes, and validate it."""
    root = elves.write(folder / "image", {**IMAGE, **files})
    for path, mode in (modes or {}).items():
        (root / path.lstrip("/")).chmod(mode)
    where = {"TMPDIR": str(folder)}
    return static.validate(root, site_of(**site).value, where, RecordingRunner(strict=True))


def with_variables(folder: Path, *settings: str) -> list[StaticFinding]:
    text = PATH + "".join(f"export {setting}\n" for setting in settings)
    return findings(folder, {ENVIRONMENT: text.encode()})


@pytest.mark.parametrize(
    ("runtime", "level"),
    [
        ("apptainer", "note"),
        ("singularity", "note"),
        ("shifter", "note"),
        ("podman-hpc", "warning"),
        ("container-engine", "warning"),
    ],
)
def test_setuid(tmp_path: Path, runtime: str, level: str) -> None:
    files = {"/usr/bin/su": b"#!", "/usr/bin/wall": b"#!"}
    modes = {"/usr/bin/su": 0o4755, "/usr/bin/wall": 0o2755}
    one = only(left(tmp_path, files, modes, engine={"runtime": runtime}))
    assert (one.rule, one.level, one.file) == ("leftovers", level, "/usr/bin/su")
    assert one.what == "/usr/bin/su and 1 more: setuid or setgid"
    assert runtime in one.why


def test_a_folder_that_hands_its_group_on_is_no_program(tmp_path: Path) -> None:
    assert left(tmp_path, {"/usr/local/x": b"x"}, {"/usr/local": 0o2775}) == []


def test_files_that_any_user_may_write(tmp_path: Path) -> None:
    files = {"/opt/demo/share/x": b"x", "/opt/open/x": b"x", "/tmp/x": b"x", "/var/tmp/x": b"x"}
    modes = {"/opt/demo/share/x": 0o666, "/opt/open": 0o777, "/tmp": 0o777, "/var/tmp/x": 0o666}
    one = only(left(tmp_path, files, modes))
    assert (one.level, one.file) == ("warning", "/opt/demo/share/x")
    assert one.what == "/opt/demo/share/x and 1 more: any user may write"


def test_a_sticky_folder_is_in_order(tmp_path: Path) -> None:
    assert left(tmp_path, {"/run/lock/x": b"x"}, {"/run/lock": 0o1777}) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/root/.ssh/id_ed25519", "x"),
        ("/root/.netrc", "machine x login ada password p"),
        ("/root/.git-credentials", "x"),
        ("/home/ada/.aws/credentials", "x"),
        ("/root/.cache/huggingface/token", "x"),
        ("/etc/ssh/ssh_host_rsa_key", "x"),
        ("/etc/pip.conf", "[global]\nindex-url = https://ada:S3cretS3cret@pkg.example/simple\n"),
        ("/root/.condarc", "channels: [https://c.example/t/ab-0123456789abcdef01/x]\n"),
        ("/etc/apt/sources.list.d/x.list", "deb https://ada:word@deb.example/ x main\n"),
        ("/etc/yum.repos.d/x.repo", "baseurl=https://x.example/?token=abcdef12\n"),
        ("/root/.gitconfig", '[url "https://ghp_0123456789@git.example/"]\n'),
        ("/.singularity.d/Singularity", "%post\n    curl https://a:b1234567@x.example/\n"),
    ],
)
def test_credentials_in_files(tmp_path: Path, path: str, text: str) -> None:
    one = only(left(tmp_path, {path: text.encode()}))
    assert (one.rule, one.level, one.file) == ("leftovers", "warning", path)
    assert one.what == f"{path}: a key, or an address with a password or token"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/root/.ssh/id_ed25519.pub", "x"),
        ("/root/.ssh/known_hosts", "x"),
        ("/root/.netrc", ""),
        ("/etc/pip.conf", "[global]\nindex-url = https://pkg.example/simple\n"),
        ("/etc/pip.conf", "index-url = https://ada:${WORD}@pkg.example/simple\n"),
        ("/etc/pip.conf", "index-url = https://ada:***@pkg.example/simple\n"),
        ("/root/.bashrc", "# https://forum.example/t/how-to-install-it/1234\n"),
        ("/root/.gitconfig", '[url "ssh://git@git.example/"]\n'),
        ("/etc/motd", "https://ada:S3cretS3cret@pkg.example/\n"),
    ],
)
def test_files_without_credentials(tmp_path: Path, path: str, text: str) -> None:
    assert left(tmp_path, {path: text.encode()}) == []


def test_a_text_that_is_made_to_take_time(tmp_path: Path) -> None:
    many = b"https" * 30_000 + b"https://a:b@" * 20_000 + b"\xff" * 30_000
    assert only(left(tmp_path, {"/etc/pip.conf": many})).file == "/etc/pip.conf"
    large = b"https://ada:S3cretS3cret@pkg.example/\n".ljust(1024 * 1024 + 1)
    assert left(tmp_path / "large", {"/etc/pip.conf": large}) == []


@pytest.mark.parametrize(
    ("setting", "is_secret"),
    [
        ("HF_TOKEN=hf_0123456789abc", True),
        ("AWS_SECRET_ACCESS_KEY=abc/defghi1", True),
        ("PIP_INDEX_URL=https://ada:S3cretS3cret@pkg.example/", True),
        ("http_proxy=http://ada:S3cretS3cret@proxy.example:3128", True),
        ("PIP_INDEX_URL=https://pkg.example/", False),
        ("TOKENIZERS_PARALLELISM=false", False),
        ("TOKENIZER=bert-base-uncased", False),
        ("HF_TOKEN_PATH=/run/secrets/hf_token", False),
        # a public fingerprint, which images of Python have
        ("GPG_KEY=A035C8C19219BA821ECEA86B64E628F8D684696D", False),
        ("HF_TOKEN=$HF_TOKEN_0", False),
        ("HF_TOKEN=", False),
    ],
)
def test_credentials_in_variables(tmp_path: Path, setting: str, is_secret: bool) -> None:
    found = with_variables(tmp_path, setting)
    if not is_secret:
        assert found == []
        return
    one, name = only(found), setting.partition("=")[0]
    assert (one.rule, one.level, one.file) == ("leftovers", "warning", "")
    assert one.what == f"{name}: a variable with a password or token"


def test_no_secret_is_shown(tmp_path: Path) -> None:
    found = with_variables(tmp_path, "A_TOKEN=hf_0123456789abc", "B_SECRET=abcdef12345")
    assert "A_TOKEN and 1 more" in only(found).what
    assert not any(word in str(found) for word in ("hf_0123456789abc", "abcdef12345"))


def test_caches(tmp_path: Path) -> None:
    files = {
        "/root/.cache/pip/http/a/b": bytes(700_000),
        "/opt/conda/pkgs/urls.txt": b"x",
        "/opt/conda/pkgs/numpy-2/lib/x": bytes(2_000_000),
        "/var/lib/apt/lists/deb.example_x": bytes(300_000),
    }
    one = only(left(tmp_path, files))
    assert (one.rule, one.level, one.file) == ("leftovers", "note", "/opt/conda/pkgs")
    assert one.what == "/opt/conda/pkgs and 2 more: 3 MB of a package manager's cache"


def test_small_caches_and_other_folders_are_none(tmp_path: Path) -> None:
    files = {
        "/var/lib/apt/lists/lock": b"x",
        "/opt/demo/pkgs/lib/x": bytes(2_000_000),
        "/opt/demo/cache/pip/x": bytes(2_000_000),
    }
    assert left(tmp_path, files) == []


@pytest.mark.parametrize(
    ("setting", "is_shared"),
    [
        ("TRITON_CACHE_DIR=/tmp/triton", True),
        ("NUMBA_CACHE_DIR=/tmp", True),
        ("TMPDIR=/var/tmp/work", True),
        ("PYTHONPATH=/opt/x:/tmp/lib", True),
        ("TMPDIR=/tmp", False),
        ("TRITON_CACHE_DIR='/tmp/$USER/triton'", False),
        ("TRITON_CACHE_DIR=/opt/tmp/triton", False),
    ],
)
def test_folders_that_users_share(tmp_path: Path, setting: str, is_shared: bool) -> None:
    found = with_variables(tmp_path, setting)
    if not is_shared:
        assert found == []
        return
    one = only(found)
    assert (one.rule, one.level) == ("leftovers", "note")
    assert one.what == f"{setting}: a folder that all users of a node share"


def test_a_kind_is_a_finding(tmp_path: Path) -> None:
    files = {f"/opt/open/{number}": b"x" for number in range(50)}
    modes = {**dict.fromkeys(files, 0o666), "/opt/demo/bin/python3": 0o6755}
    files[ENVIRONMENT] = f"{PATH}export X_TOKEN=abcdef12345\n".encode()
    files["/root/.netrc"] = b"x"
    found = left(tmp_path, files, modes)
    assert [text.partition(":")[0] for text in lines(found)] == [*["warning"] * 3, "note"]
    assert "/opt/open/0 and 49 more: any user may write" in found[0].what


def test_a_layer_that_lists_no_folders(tmp_path: Path) -> None:
    """Their modes are unknown: nothing is said of them."""
    from dlcontainer.image.contents import TreeEntry

    class Tree:
        def entries(self) -> list[TreeEntry]:
            return [TreeEntry(path="/opt", kind="d", size=0)]

        def fetch(self, paths: Any, folder: Path) -> Mapping[str, Path]:
            return {}

    questions = StaticQuestions(
        source=image_source.ImageSource(tree=Tree()),
        site=site_of().value,
        environ={"TMPDIR": str(tmp_path)},
        runner=RecordingRunner(strict=True),
    )
    assert list(leftovers(questions)) == []
