"""The step that removes what a recipe names under `slim`, and reads what it has removed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlcontainer.config.templating import Text, quote
from dlcontainer.image import layout
from dlcontainer.recipes.slim import KEPT, ROOTS, RULES
from dlcontainer.system import foreign_files

STEP = "slim"
REPORT_NAME = "slim.json"
REPORT = f"{layout.FOLDER}/{REPORT_NAME}"

# Run by the image's Python. Links to folders are not followed: all that goes lies below a root.
# No line may begin with '%' (see formats/apptainer.py).
_PROGRAM = """\
import glob, json, os, sys
from fnmatch import fnmatchcase as fits
prefix, report, kept, roots, *rules = sys.argv[1:]
rules = [rules[i : i + 3] for i in range(0, len(rules), 3)]
removed = {name: {"files": 0, "bytes": 0} for name, _, _ in rules}
below = [glob.escape(prefix) + "/" + root for root in roots.split(":")]
found = [one for root in below for one in sorted(glob.glob(root)) if not os.path.islink(one)]
if not found:
    sys.exit("slim: no " + " and no ".join(below))
for root in found:
    for folder, _, files in os.walk(root, topdown=False):
        place = folder[len(root) :] + "/"
        fitting = [] if fits(place, kept) else [rule for rule in rules if fits(place, rule[1])]
        gone = 0
        for file in files:
            names = [name for name, _, pattern in fitting if fits(file, pattern)]
            if names:
                path = os.path.join(folder, file)
                removed[names[0]]["files"] += 1
                removed[names[0]]["bytes"] += os.lstat(path).st_size
                os.remove(path)
                gone += 1
        if gone and not os.listdir(folder):
            os.rmdir(folder)
os.makedirs(os.path.dirname(report), exist_ok=True)
with open(report, "w") as out:
    json.dump(removed, out, indent=1, sort_keys=True)
    out.write("\\n")
print("slim:", json.dumps(removed, sort_keys=True))"""


@dataclass(frozen=True, kw_only=True, slots=True)
class RemovedFiles:
    """What one name has removed."""

    files: int
    bytes: int


def commands(choices: Sequence[str], prefix: Text, report: Text) -> list[Text]:
    """Return the commands that remove what is chosen and say so in the file `report`."""
    rules = [(name, rule.folders, rule.files) for name in choices for rule in RULES[name]]
    words = " \\\n".join(f"    {' '.join(map(quote, rule))}" for rule in rules)
    roots = quote(":".join(ROOTS))
    head = f"{prefix}/bin/python -IB - {prefix} {report} {quote(KEPT)} {roots}"
    return [Text(f"{head} \\\n{words} <<'SLIM'\n{_PROGRAM}\nSLIM")]


def read(text: str) -> Mapping[str, RemovedFiles]:
    """Read a report; raises ValueError, KeyError or TypeError for what is none."""
    body = foreign_files.loads(text)
    return {
        str(name): RemovedFiles(files=int(counts["files"]), bytes=int(counts["bytes"]))
        for name, counts in body.items()
    }
