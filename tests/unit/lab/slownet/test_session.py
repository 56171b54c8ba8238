"""The modules that a slow network starts by their names, which no import shows."""

import ast
import importlib.util
import inspect
import re

from dlcontainer.lab.slownet import session


def test_what_is_started_by_name_is_there() -> None:
    source = inspect.getsource(session)
    started = re.findall(r"\{start\} \{package\} (\w+) ", session._WORD)
    started += [
        after.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.List)
        for before, after in zip(node.elts, node.elts[1:], strict=False)
        if isinstance(before, ast.Name) and before.id == "package"
        if isinstance(after, ast.Constant) and isinstance(after.value, str)
    ]
    assert len(started) == 2
    for name in started:
        assert importlib.util.find_spec(f"dlcontainer.lab.slownet.{name}") is not None, name
