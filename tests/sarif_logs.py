"""SARIF logs, held against what the standard demands; no schema file is at hand."""

import json
from typing import Any
from urllib.parse import unquote

# Of each object the members that the standard demands, and those that this tool gives besides.
LOG = ({"version", "runs"}, {"$schema"})
RUN = ({"tool"}, {"artifacts", "results"})
DRIVER = ({"name"}, {"version", "rules"})
RULE = ({"id"}, {"shortDescription", "help"})
MESSAGE: tuple[set[str], set[str]] = ({"text"}, set())
ARTIFACT: tuple[set[str], set[str]] = (set(), {"location", "parentIndex", "roles"})
RESULT = ({"message"}, {"ruleId", "ruleIndex", "kind", "level", "locations", "suppressions"})
SUPPRESSION = ({"kind"}, {"justification"})
PLACE: tuple[set[str], set[str]] = (set(), {"uri", "index"})
KINDS = {"pass", "open", "informational", "notApplicable", "review", "fail"}
LEVELS = {"none", "note", "warning", "error"}


def has(content: Any, members: tuple[set[str], set[str]]) -> Any:
    required, optional = members
    assert required <= set(content) <= required | optional, content
    return content


def is_reference(uri: str) -> bool:
    return uri.isascii() and not set(uri) & set(' "<>\\^`{|}\n') and unquote(uri) != ""


def checked(log: dict[str, object]) -> Any:
    """Hold a log, as it is written and read again, against the standard; return its run."""
    content = has(json.loads(json.dumps(log)), LOG)
    assert content["version"] == "2.1.0"
    (run,) = content["runs"]
    has(run, RUN)
    driver = has(run["tool"]["driver"], DRIVER)
    for rule in driver["rules"]:
        has(rule, RULE)
        for name in ("shortDescription", "help"):
            assert has(rule[name], MESSAGE)["text"].endswith(".")
    for number, artifact in enumerate(run["artifacts"]):
        has(artifact, ARTIFACT)
        assert is_reference(has(artifact["location"], PLACE)["uri"])
        assert artifact.get("parentIndex", -1) == (0 if number else -1)
    for result in run["results"]:
        has(result, RESULT)
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        kind = result.get("kind", "fail")
        assert kind in KINDS
        assert result["level"] in LEVELS
        assert (result["level"] == "none") == (kind != "fail")
        assert has(result["message"], MESSAGE)["text"]
        for suppression in result.get("suppressions", ()):
            assert has(suppression, SUPPRESSION)["kind"] in ("inSource", "external")
        (location,) = result["locations"]
        place = has(has(location, (set(), {"physicalLocation"})), ({"physicalLocation"}, set()))
        artifact = has(place["physicalLocation"], ({"artifactLocation"}, set()))["artifactLocation"]
        assert run["artifacts"][artifact["index"]]["location"]["uri"] == artifact["uri"]
    return run
