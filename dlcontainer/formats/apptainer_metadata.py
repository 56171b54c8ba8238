"""What an Apptainer image says of itself: the files of /.singularity.d, and `inspect`'s JSON.

The engine writes these at the end of a build from a definition file; an image that grew step by
step gets the same. Layout: apptainer.org/docs/user/main/environment_and_metadata.html.
"""

import json
import re
import shlex
from collections.abc import Mapping

from dlcontainer.formats import labels
from dlcontainer.planning.plan import Plan

FOLDER = "/.singularity.d"
# Where engines write what users set: a definition file's, and what came with an OCI image.
OF_BASE = f"{FOLDER}/env/10-docker2singularity.sh"
ENVIRONMENT = (OF_BASE, f"{FOLDER}/env/90-environment.sh")
_EXPORT = re.compile(r"\s*export\s+([A-Za-z_]\w*)=(.*)")
# What came with an OCI image yields to a variable that is set already: the image's own is meant.
_DEFAULT = re.compile(r"\$\{([A-Za-z_]\w*):-(.*)\}", re.DOTALL)
_SECTION = re.compile(r"^%(\w+)\n", re.MULTILINE)


def sections(text: str) -> dict[str, str]:
    """Split a definition file into its sections, by name."""
    parts = _SECTION.split(text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def files(plan: Plan, text: str, version: str) -> dict[str, str]:
    """Return the files of /.singularity.d by name: of a plan and its definition file's text.

    `version` is the engine's. No date: the same plan gives the same bytes.
    """
    texts = sections(text)
    return {
        "Singularity": text,
        "labels.json": json.dumps(_labels(plan, version), indent="\t", sort_keys=True),
        "env/90-environment.sh": f"#!/bin/sh\n\n{texts['environment']}",
        "runscript": f"#!/bin/sh\n\n{texts['runscript']}",
        "runscript.help": texts["help"],
        "test": f"#!/bin/sh\n\n{texts['test']}",
    }


def exported(variables: Mapping[str, str]) -> dict[str, str]:
    """Read what scripts of an image export, without running them: values as they are written.

    `variables` are texts by path; those of ENVIRONMENT are read.
    """
    exported_texts: dict[str, str] = {}
    for path in ENVIRONMENT:
        for line in variables.get(path, "").splitlines():
            match = _EXPORT.fullmatch(line)
            if match:
                try:
                    value = "".join(shlex.split(match[2])[:1])
                except ValueError:
                    value = match[2]  # a quote that a later line closes
                default = _DEFAULT.fullmatch(value)
                exported_texts[match[1]] = (
                    default[2] if default and default[1] == match[1] else value
                )
    return exported_texts


def inspection(plan: Plan, text: str, version: str) -> str:
    """Return what `apptainer inspect` reads without running the image."""
    written = files(plan, text, version)
    environment = "env/90-environment.sh"
    attributes: dict[str, object] = {
        "environment": {f"{FOLDER}/{environment}": written[environment]},
        "labels": _labels(plan, version),
        "runscript": written["runscript"],
        "test": written["test"],
        "helpfile": written["runscript.help"],
        "deffile": text,
    }
    return json.dumps({"data": {"attributes": attributes}, "type": "container"}, sort_keys=True)


def _labels(plan: Plan, version: str) -> dict[str, str]:
    return {
        "org.label-schema.schema-version": "1.0",
        "org.label-schema.usage": f"{FOLDER}/runscript.help",
        "org.label-schema.usage.apptainer.version": version,
        **labels.labels(plan),
    }
