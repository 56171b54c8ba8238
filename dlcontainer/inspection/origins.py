"""What differs in how two images were made: their plans, their provenance, their records."""

from collections.abc import Mapping

from dlcontainer.inspection.changes import Change, between, flat
from dlcontainer.inspection.summary import Inspection

# Of a record: what the image's own files do not say.
_OF_RECORD = ("dlcontainer", "finished", "lock", "base", "engine", "built_on", "signed")
# Long, and said by the plan and by the text's checksum.
_NOT_SHOWN = ("plan", "schema", "text")


def plans(one: Inspection, other: Inspection) -> tuple[Change, ...]:
    """Compare the plans: recipe, site, files that went in; by the images' own manifests."""
    return between(_plan(one), _plan(other))


def _plan(seen: Inspection) -> dict[str, str]:
    return flat((seen.manifest or {}).get("content", {}))


def provenances(one: Inspection, other: Inspection) -> tuple[Change, ...]:
    """Compare with what the images were made: base, tools, checkout, text."""
    return between(_provenance(one), _provenance(other))


def _provenance(seen: Inspection) -> dict[str, str]:
    said = dict(seen.provenance or {})
    text = said.get("text")
    kept = {key: value for key, value in said.items() if key not in _NOT_SHOWN}
    if isinstance(text, Mapping):
        kept["text"] = {"sha256": text.get("sha256")}
    return flat(kept)


def records(one: Inspection, other: Inspection) -> tuple[Change, ...]:
    """Compare what the records beside the images say: when, where, from which kept steps."""
    if one.record is None or other.record is None:
        return ()
    return between(_record(one.record), _record(other.record))


def _record(body: Mapping[str, object]) -> dict[str, str]:
    image, steps, packages = body.get("image"), body.get("work"), body.get("python_packages")
    said = flat({key: body[key] for key in _OF_RECORD if key in body})
    if isinstance(image, Mapping):
        said["sha256"] = str(image.get("sha256", ""))
    for step in steps if isinstance(steps, list) else []:
        if isinstance(step, Mapping):
            kept = step.get("kept")
            made = kept.get("made") if isinstance(kept, Mapping) else None
            said[f"step {step.get('name')}"] = f"kept result of {made}" if kept else "run"
    for package in packages if isinstance(packages, list) else []:
        if isinstance(package, Mapping):
            said[f"wheel of {package.get('name')}"] = str(package.get("sha256", ""))
    return said
