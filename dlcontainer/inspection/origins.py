"""What differs in how two images were made: their plans, their provenance, their records."""

from collections.abc import Mapping

from dlcontainer.inspection.changes import ImageChange, between, flat
from dlcontainer.inspection.summary import Inspection

# Of a record: what the image's own files do not say.
_OF_RECORD = ("dlcontainer", "finished", "lock", "base", "engine", "built_on", "signed")
# Long, and said by the plan and by the text's checksum.
_NOT_SHOWN = ("plan", "schema", "text")


def plans(first: Inspection, second: Inspection) -> tuple[ImageChange, ...]:
    """Compare the plans: recipe, site, files that went in; by the images' own manifests."""
    return between(_plan(first), _plan(second))


def _plan(inspected: Inspection) -> dict[str, str]:
    return flat((inspected.manifest or {}).get("content", {}))


def provenances(first: Inspection, second: Inspection) -> tuple[ImageChange, ...]:
    """Compare with what the images were made: base, tools, checkout, text."""
    return between(_provenance(first), _provenance(second))


def _provenance(inspected: Inspection) -> dict[str, str]:
    provenance = dict(inspected.provenance or {})
    text = provenance.get("text")
    kept = {key: value for key, value in provenance.items() if key not in _NOT_SHOWN}
    if isinstance(text, Mapping):
        kept["text"] = {"sha256": text.get("sha256")}
    return flat(kept)


def records(first: Inspection, second: Inspection) -> tuple[ImageChange, ...]:
    """Compare what the records beside the images say: when, where, from which kept steps."""
    if first.record is None or second.record is None:
        return ()
    return between(_record(first.record), _record(second.record))


def _record(body: Mapping[str, object]) -> dict[str, str]:
    image, steps, packages = body.get("image"), body.get("work"), body.get("python_packages")
    fields = flat({key: body[key] for key in _OF_RECORD if key in body})
    if isinstance(image, Mapping):
        fields["sha256"] = str(image.get("sha256", ""))
    for step in steps if isinstance(steps, list) else []:
        if isinstance(step, Mapping):
            kept = step.get("kept")
            moments = kept.get("made") if isinstance(kept, Mapping) else None
            fields[f"step {step.get('name')}"] = f"kept result of {moments}" if kept else "run"
    for package in packages if isinstance(packages, list) else []:
        if isinstance(package, Mapping):
            fields[f"wheel of {package.get('name')}"] = str(package.get("sha256", ""))
    return fields
