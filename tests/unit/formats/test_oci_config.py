"""An OCI image says the same whether a Dockerfile made it or the backend."""

import re
from pathlib import Path

from dlcontainer.engines.oci import SHELL
from dlcontainer.formats import oci_config, texts
from tests.values import IMAGE_BASE, TEMPLATES, folder_of, plan_of

_LINE = re.compile(r'^(ENV|LABEL) ([^=]+)="(.*)"$', re.MULTILINE)


def test_the_same_as_in_the_dockerfile(tmp_path: Path) -> None:
    hostile = {"A": "a b'c\"$$HOME\\n", "Z": "$${x}"}
    plan = plan_of(folder_of(tmp_path, environment=hostile))
    text = texts.text(plan, "dockerfile", [TEMPLATES])
    said: dict[str, dict[str, str]] = {"ENV": {}, "LABEL": {}}
    for word, key, value in _LINE.findall(text):
        said[word][key] = re.sub(r"\\(.)", r"\1", value)
    assert said["ENV"] == oci_config.environment(plan, {})
    assert said["ENV"]["A"] == "a b'c\"$HOME\\n"
    assert list(said["ENV"]) == list(oci_config.environment(plan, {}))
    assert said["LABEL"] == oci_config.all_labels(plan)
    assert f'CMD ["{SHELL[0]}"]' in text


def test_a_base_of_a_registry_keeps_its_own_path(tmp_path: Path) -> None:
    plan = plan_of(folder_of(tmp_path, base=IMAGE_BASE, steps=[{"name": "s", "shell": "true"}]))
    assert 'ENV PATH="/opt/demo/bin:$PATH"' in texts.text(plan, "dockerfile", [TEMPLATES])
    found = oci_config.environment(plan, {"PATH": "/usr/local/cuda/bin:/bin", "OTHER": "1"})
    assert found["PATH"] == "/opt/demo/bin:/usr/local/cuda/bin:/bin"
    assert "OTHER" not in found
