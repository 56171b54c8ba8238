"""The table of refused variables: one meaning for Python, for shells and in the docs."""

import re

import pytest

from dlcontainer.planning.launch import refused_variables
from dlcontainer.planning.launch.refused_variables import TABLE, RefusalRow
from tests.values import ROOT

NOTHING = refused_variables.rules({})
INVITED = (
    *("LR", "PYTORCH_CUDA_ALLOC_CONF", "PYTHONHASHSEED", "PYTHONWARNINGS", "OMP_NUM_THREADS"),
    *("SLURM_JOB_ID", "XLA_FLAGS", "TF_CONFIG", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
    *("CUBLAS_WORKSPACE_CONFIG", "HF_TOKEN", "WANDB_API_KEY", "MPICH_GPU_SUPPORT_ENABLED"),
    *("OPTUNA_STORAGE", "PIP_INDEX_URL", "http_proxy", "TMPDIR", "USER", "TZ", "HSA_ENABLE_SDMA"),
)


@pytest.mark.parametrize("name", INVITED)
def test_what_is_not_on_the_table_goes_in(name: str) -> None:
    assert NOTHING.refusal(name) is None


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.key)
def test_each_pattern_of_the_table_is_one_that_a_shell_reads_alike(row: RefusalRow) -> None:
    for name in row.names:
        assert re.fullmatch(r"\*?[A-Za-z0-9_]+\*?", name)
        refused = NOTHING.refusal(name.replace("*", "X"))
        assert refused is not None
        assert refused.why


@pytest.mark.parametrize("name", ["", "1A", "A B", "BASH_FUNC_x%%", "A\n", "é", "A-B", "A\udcff"])
def test_what_is_no_name_stays_outside(name: str) -> None:
    asked = refused_variables.rules({}, (name,))
    refused = asked.refusal(name)
    assert refused is not None
    assert refused.key == "name"


def test_asking_for_a_name_lets_it_in_but_for_what_moves_the_engine() -> None:
    asked = refused_variables.rules({}, ("PYTHONPATH", "LD_*", "APPTAINER_BIND", "PATH", "IFS"))
    assert asked.refusal("PYTHONPATH") is None
    assert asked.refusal("LD_PRELOAD") is None
    assert {asked.refusal(name) is None for name in ("APPTAINER_BIND", "PATH", "IFS")} == {False}


def test_the_image_s_own_folders_stay_its_own() -> None:
    own = {
        "DATA_HOME": "/opt/data",
        "OMP_NUM_THREADS": "8",
        "TORCHINDUCTOR_CACHE_DIR": "/opt/caches",
        "SCRATCH": "/tmp/x",
        "HF_HOME": "/opt/models",
    }
    rules = refused_variables.rules(own)
    refused = {name: rules.refusal(name) for name in own}
    assert [name for name, row in refused.items() if row] == ["DATA_HOME"]
    row = refused["DATA_HOME"]
    assert row is not None
    assert row.key == "image"
    assert refused_variables.rules(own, ("DATA_HOME",)).refusal("DATA_HOME") is None


def test_names_that_a_user_asks_for() -> None:
    text = "A,B  C_1\n*,LD_*,$(x),D"
    assert refused_variables.user_names(text) == ("A", "B", "C_1", "D")


def test_jobs_unset_names_of_the_table() -> None:
    names = refused_variables.job_names()
    assert {"PYTHONPATH", "PYTHONHOME", "LD_PRELOAD", "VIRTUAL_ENV"} <= {*names}
    assert all(NOTHING.refusal(name) for name in names)
    # The host's launcher runs in the same environment.
    assert not {"PATH", "LD_LIBRARY_PATH"} & {*names}


def test_the_docs_show_the_table() -> None:
    text = (ROOT / "docs/centre/publish.md").read_text()
    shown: dict[str, tuple[list[str], list[str]]] = {}
    for key, names, why in re.findall(r"^\| (\w+) \| `([^`|]+)` \| (.+) \|$", text, re.MULTILINE):
        both = shown.setdefault(key, ([], []))
        both[0].extend(names.split())
        both[1].append(why)
    for row in TABLE:
        names, whys = shown[row.key]
        assert names == list(row.names)
        assert whys == [row.why, *["the same"] * (len(whys) - 1)]
    assert " ".join(refused_variables.CERTIFICATES) in text
