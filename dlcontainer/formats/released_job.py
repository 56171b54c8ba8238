"""An image in a published tree -> its job: a short script, its functions and its ranks' script.

The script names the other two by their SHA-256 and uses the bytes that it compared. All three are
made of the templates of a job script that stands alone.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer.config.templating import Text, render_template
from dlcontainer.formats import job, runtimes
from dlcontainer.planning.launch import surroundings
from dlcontainer.planning.launch.launch_plan import LaunchPlan

# The names of the three, and the variable by which a user of the module names the first.
SCRIPT, FUNCTIONS, RANK = "job.sh", "job-functions.sh", "job-rank.sh"
VARIABLE = "DLCONTAINER_JOB"
NAMED = f'"${VARIABLE}"'
_HINT = "ask the staff who publish the module: it may have been withdrawn"


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedJob:
    """Where a release's image and the `folder` of its job's files lie: in `release`.

    That and `module`, the name that loads just this release, are words of a shell.
    """

    release: Text
    module: Text
    image: str
    folder: str


def texts(plan: LaunchPlan, of: PublishedJob, templates: list[Path]) -> Mapping[str, str]:
    """Render the files of a release's job; raises ConfigError for what the site's jobs can't do."""
    start = replace(
        runtimes.start(plan, surroundings.of_plan(plan)),
        image=Text(f"$dlc_release/{of.image}"),
        hint=_HINT,
    )
    values = {**job.values(plan, None, start, NAMED)}
    rank = _rendered(templates, "job/rank.sh.j2", values) if values["launched"] else ""
    packed = {
        "release": of.release,
        "module": of.module,
        "rank_file": Text(f"{of.folder}/{RANK}"),
        "rank": Text(_sha256(rank)),
        "functions_file": Text(f"{of.folder}/{FUNCTIONS}"),
    }
    values["packed"] = packed
    functions = _rendered(templates, "job/functions.sh.j2", values)
    packed["functions"] = Text(_sha256(functions))
    named = {SCRIPT: _rendered(templates, job.TEMPLATE, values), FUNCTIONS: functions, RANK: rank}
    return {name: text for name, text in named.items() if text}


def _rendered(templates: list[Path], name: str, values: Mapping[str, object]) -> str:
    """Render with one line break at the end: a shell that reads a file keeps no others."""
    return render_template(templates, name, values).rstrip("\n") + "\n"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
