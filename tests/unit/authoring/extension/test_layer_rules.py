"""What a layer may not do to the image below, a rule each; what it may stays allowed."""

import pytest

from dlcontainer.authoring.extension import layer_rules
from dlcontainer.errors import MisfitError
from tests.unit.authoring.extension.places import DEBIAN, SITE, below, files

BASE = below(
    f"{SITE}/numpy/__init__.py",
    f"{SITE}/numpy/core/__init__.py",
    f"{SITE}/numpy-2.3.5.dist-info/RECORD",
    f"{SITE}/six.py",
    f"{SITE}/nvidia/cublas/__init__.py",
    f"{SITE}/fast.cpython-311-x86_64-linux-gnu.so",
    f"{DEBIAN}/yaml/__init__.py",
    f"{DEBIAN}/Py_Thing-1.egg-info/PKG-INFO",
    "/opt/base/bin/python",
    "/usr/bin/ls",
    "/etc/ld.so.conf",
    "/usr/lib/libc.so.6",
    data="/host",
)
BAD = {
    f"{SITE}/numpy/__init__.py": "is in the image already",
    f"{SITE}/numpy-2.3.5.dist-info/RECORD": "is in the image already",
    f"{SITE}/numpy-2.3.5.dist-info/more": "in the metadata of a package of the image",
    f"{SITE}/numpy-9.dist-info/METADATA": "describes a package that the image has",
    f"{SITE}/py_thing-2.dist-info/METADATA": "describes a package that the image has",
    f"{SITE}/numpy/_distributor_init_local.py": "is in a package of the image: numpy",
    f"{SITE}/numpy/__pycache__/core.cpython-311.pyc": "is in a package of the image: numpy",
    f"{SITE}/__pycache__/six.cpython-311.pyc": "is byte code of a module of the image",
    f"{SITE}/six/__init__.py": "has the name of a module of the image",
    f"{SITE}/six.pyc": "has the name of a module of the image",
    f"{SITE}/numpy.py": "has the name of a module of the image",
    f"{SITE}/fast.py": "has the name of a module of the image",
    f"{SITE}/nvidia/cublas.py": "has the name of a module of the image",
    f"{SITE}/nvidia/__init__.py": "makes a package of a folder of the image: nvidia",
    # Before the base's own on Python's path.
    f"{SITE}/yaml/__init__.py": f"has the name of a module of the image: {DEBIAN}/yaml",
    f"{SITE}/evil.pth": "runs at each start of Python",
    f"{SITE}/sitecustomize.py": "runs at each start of Python",
    f"{SITE}/sitecustomize/__init__.py": "runs at each start of Python",
    f"{SITE}/__pycache__/usercustomize.cpython-311.pyc": "runs at each start of Python",
    "/etc/ld.so.conf.d/evil.conf": "changes the libraries that all programs load",
    "/etc/profile.d/evil.sh": "is a setting of the system",
    "/usr/lib/x86_64-linux-gnu/libm.so.6": "is a library in a folder where all programs look",
    "/usr/local/lib/libm.so": "is a library in a folder where all programs look",
    "/opt/dlcontainer/manifest.json": "describes the image itself",
    "/.singularity.d/env/99.sh": "describes the image itself",
    "/opt/base/bin/python": "is in the image already",
    "/opt/base/bin/ls": "has the name of a command of the image: /usr/bin/ls",
    "/data/file": "lies below /data, which is no folder in the image",
    "/opt/base/bin/python/x": "lies below /opt/base/bin/python, which is no folder",
}
GOOD = (
    f"{SITE}/einops/__init__.py",
    f"{SITE}/einops/__pycache__/__init__.cpython-311.pyc",
    f"{SITE}/einops-1.dist-info/METADATA",
    f"{SITE}/evil.py",
    f"{SITE}/evil.libs/libx-1234.so",
    # What the base has of this name is no package, and several wheels share it.
    f"{SITE}/nvidia/nccl/__init__.py",
    f"{SITE}/nvidia/cublas_more.py",
    f"{SITE}/einops/data.pth",
    "/opt/base/bin/say",
    "/opt/base/share/man/man1/say.1",
    "/opt/base/lib/libmkl.so.2",
)


@pytest.mark.parametrize("path", BAD)
def test_each_way_to_change_the_base(path: str) -> None:
    with pytest.raises(MisfitError) as caught:
        layer_rules.require(files(path), BASE, "base.sif")
    assert caught.value.why is not None
    assert caught.value.why.startswith(f"evil 1.0: {path} ")
    assert BAD[path] in caught.value.why
    assert "base.sif" in caught.value.what


def test_what_is_new_is_taken() -> None:
    layer_rules.require(files(*GOOD), BASE, "base.sif")


def test_folders_that_are_new_themselves() -> None:
    empty = below(f"{DEBIAN}/yaml/__init__.py")
    layer_rules.require(files(f"{SITE}/einops/__init__.py"), empty, "base.sif")
    with pytest.raises(MisfitError, match="would change"):
        layer_rules.require(files(f"{SITE}/yaml/__init__.py"), empty, "base.sif")


def test_many_reasons_are_counted() -> None:
    paths = [f"{SITE}/numpy/new{number}.py" for number in range(20)]
    with pytest.raises(MisfitError) as caught:
        layer_rules.require(files(*paths), BASE, "base.sif")
    assert caught.value.why is not None
    assert len(caught.value.why.splitlines()) == 7
    assert "and 14 more" in caught.value.why
