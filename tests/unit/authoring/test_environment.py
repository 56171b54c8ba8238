"""environment.yml: conda's names by a table, its bounds as the index has them, its `pip:` part."""

from pathlib import Path

import pytest
from packaging.requirements import Requirement

from dlcontainer.authoring.readers import conda_names
from tests.unit.authoring.wishes import asked, read, refused

WHOLE = """\
name: x
channels: [conda-forge, nvidia]
dependencies:
  - python=3.11.5=h1234_0
  - conda-forge::numpy=1.26
  - pytorch=2.1.*
  - opencv=4.10.0=py311_1
  - cudatoolkit=11.8
  - nvidia::libcublas-dev
  - mkl
  - openssl=3.0
  - pip
  - dask
  - pip:
    - transformers[torch] >=4 ; python_version>"3.8"
    - "scipy"  # comment
    - -r more.txt
variables: {A: b}
prefix: /home/ada/env
"""

DEVICES = "libraries of devices and linear algebra: the variant brings its own"


def test_an_environment(tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("-c bounds.txt\ntqdm\n")
    (tmp_path / "bounds.txt").write_text("tqdm<5\n")
    wishes = read(tmp_path / "environment.yml", WHOLE)
    assert asked(wishes) == [
        "5: numpy==1.26.*",
        "6: torch==2.1.*",
        "7: opencv-python-headless==4.10.0.*",
        "13: dask[complete]",
        '15: transformers[torch]>=4; python_version > "3.8"',
        "16: scipy",
        "2: tqdm",
    ]
    assert [str(wish.requirement) for wish in wishes.constraints] == ["tqdm<5"]
    assert (wishes.format, wishes.python, wishes.is_locked) == ("environment", "==3.11.*", False)
    name = f"{tmp_path}/environment.yml"
    assert wishes.notes == (
        f"{name}:4: python 3.11.5 is taken as 3.11: the base decides the last number",
        f"{name}:6: conda's 'pytorch' is 'torch' on the index",
        f"{name}:7: conda's 'opencv' is 'opencv-python-headless' on the index",
        f"{name}:13: conda's 'dask' is 'dask[complete]' on the index",
        f"{name}:18:1: the environment's variables are not taken",
        f"left out: cudatoolkit, libcublas-dev, mkl ({DEVICES})",
        "left out: openssl, pip (parts of conda's Python: the base brings its own)",
    )


BOUNDS = [
    ("numpy", "numpy"),
    ("numpy=1.26", "numpy==1.26.*"),
    ("numpy =1.26", "numpy==1.26.*"),
    ("numpy=1.26.*", "numpy==1.26.*"),
    ("numpy=1.26*", "numpy==1.26.*"),
    ("numpy==1.26", "numpy==1.26"),
    ("numpy==1.26.*", "numpy==1.26.*"),
    ("numpy 1.26", "numpy==1.26"),
    ("numpy 1.26.*", "numpy==1.26.*"),
    ("numpy=1.26.4=py311h64a7726_0", "numpy==1.26.4"),
    ("numpy 1.26.4 py311h64a7726_0", "numpy==1.26.4"),
    ("numpy=1.26.4=*_mkl", "numpy==1.26.4"),
    ("numpy>=1.20,<2", "numpy<2,>=1.20"),
    ("numpy >=1.20, <2", "numpy<2,>=1.20"),
    ("numpy>=1.20.*,!=1.24.*", "numpy!=1.24.*,>=1.20"),
    ("numpy~=1.26", "numpy~=1.26"),
    ("numpy>1.20,1.26.*", None),
    ("numpy=*", "numpy"),
    ("NumPy=2", "numpy==2.*"),
    ("numpy=1.20|1.21", None),
    ("numpy[version='>=1.2']", None),
    ("numpy=1a2b", None),
    ("numpy>=x", None),
    ("numpy=>1", None),
    ("numpy @ file:///x", None),
]


@pytest.mark.parametrize(("line", "requirement"), BOUNDS)
def test_bounds(tmp_path: Path, line: str, requirement: str | None) -> None:
    text = f'dependencies:\n  - "{line}"\n'
    if requirement is None:
        words = refused(tmp_path / "e.yml", text)
        assert words.startswith("e.yml:2:5: ")
        assert "next: write NAME, NAME=VERSION" in words
    else:
        assert asked(read(tmp_path / "e.yml", text)) == [f"2: {requirement}"]


PYTHONS = [
    ("python", None),
    ("python=3.11", "==3.11.*"),
    ("python==3.11.7", "==3.11.*"),
    ("python 3.11.*", "==3.11.*"),
    ("python>=3.9,<3.13", ">=3.9,<3.13"),
    ("python=3", "==3.*"),
]


@pytest.mark.parametrize(("line", "bound"), PYTHONS)
def test_python(tmp_path: Path, line: str, bound: str | None) -> None:
    wishes = read(tmp_path / "e.yaml", f"dependencies:\n  - {line}\n  - numpy\n")
    assert wishes.python == bound


ENVIRONMENTS = [
    ("", "e.yml: the file is empty"),
    ("- numpy", "e.yml:1:1: expected a mapping"),
    ("a: 1", "e.yml:1:1: no conda environment"),
    ("dependencies: numpy", "e.yml:1:1: no conda environment"),
    ("dependencies: []", "e.yml: the file asks for no package"),
    ("dependencies: [python=3.12]", "e.yml: the file asks for no package"),
    ("dependencies:\n- numpy\n- 3", "e.yml:3:3: expected a package's name, or `pip:`"),
    ("dependencies:\n- numpy\n- npm: [x]", "e.yml:3:3: expected a package's name, or `pip:`"),
    ("dependencies:\n- pip: numpy", "e.yml:2:3: expected a list of requirements"),
    ("dependencies:\n- pip: [3]", "e.yml:2:3: expected a list of requirements"),
    ("dependencies:\n- pip:\n  - a\n  - -e .", "e.yml:4:5: -e: an editable project is not taken"),
    ("dependencies:\n- pip:\n  - x @ git+https://u:secret@h", "3:9: 'x': an address of"),
    ("dependencies:\n- pip:\n  - --extra-index-url https://secret", "e.yml:3:5: --extra-index-url"),
    ("dependencies:\n- pip:\n  - |\n    a\n    b", "e.yml:3:5: a requirement is one line"),
    ("dependencies:\n- python=x.y\n- numpy", "e.yml:2:3: not a version of Python"),
    ("dependencies:\n- &a numpy", "e.yml:2:3: anchors (&a) are not supported"),
    ("dependencies:\n\t- numpy", "e.yml:2:1: not valid YAML"),
    ("dependencies:\n- numpy=1.0\n- numpy=2.0", "e.yml:3: 'numpy==2.0.*' contradicts"),
]


@pytest.mark.parametrize(("text", "what"), ENVIRONMENTS, ids=range(len(ENVIRONMENTS)))
def test_an_environment_that_is_refused(tmp_path: Path, text: str, what: str) -> None:
    words = refused(tmp_path / "e.yml", text)
    assert what in words
    assert "secret" not in words


def test_all_names_that_are_not_known_are_said_at_once(tmp_path: Path) -> None:
    names = ["boost", "numpy", "eigen=3", "ffmpeg", "gmp", "nodejs", "r-base", "graphviz", "sox"]
    text = "dependencies:\n" + "".join(f"- {name}\n" for name in names) + "- pip: [./x]\n"
    unknown, path = refused(tmp_path / "e.yml", text).splitlines()
    where, what, listed, step = unknown.replace(";", ": ").split(": ", maxsplit=3)
    assert where == "e.yml:2:3"
    assert what == "not known as Python packages of the index (with their lines)"
    assert listed == (
        "boost (2), eigen (4), ffmpeg (5), gmp (6), nodejs (7), r-base (8), graphviz (9), sox (10)"
    )
    assert step.strip().startswith("put it under `pip:` where the index has it")
    assert path.startswith("e.yml:11:9: a path is not taken: './x'")


# Names that are other people's on the index, or have no like there.
TRAPS = """
    boost tk eigen gmp nodejs ffmpeg libsndfile rapids graphviz sox python-graphviz cuda-nvcc gcc
    xesmf esmpy dgl-cuda11.1
    gxx git r-base openmpi mpich hdf5 libpng proj geos compilers cupy gdal pyqt qt
"""


def test_the_table_is_of_names_that_are_requirements() -> None:
    for name in conda_names.INDEX_NAMES.values():
        assert str(Requirement(name)) == name
    every = [set(conda_names.INDEX_NAMES), conda_names.VARIANT_BRINGS, conda_names.PYTHON_BRINGS]
    assert len(set().union(*every)) == sum(map(len, every))
    assert conda_names.INDEX_NAMES.keys() & (set(TRAPS.split()) - {"tk"}) == set()
    assert not any(
        name.startswith(conda_names.VARIANT_PREFIXES) for name in conda_names.INDEX_NAMES
    )
    assert 200 < len(conda_names.INDEX_NAMES) < 500
