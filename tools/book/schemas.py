"""The JSON Schemas that the site publishes: those of files that people write, keep or pass on."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from dlcontainer.bench.scale.matrix import Matrix
from dlcontainer.bench.study.advice.facts_file import ForecastFacts
from dlcontainer.build.base.carried_base import BaseRecord
from dlcontainer.image.record import Record
from dlcontainer.lab.storm.parameters import FactsFile
from dlcontainer.packages.lockfile import Lock
from dlcontainer.schemas import files

PAGE = "reference/schemas.md"
FOLDER = "schemas"


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """A schema, and the file that it describes."""

    about: str
    make: Callable[[], Mapping[str, Any]]


def _of(model: type[BaseModel]) -> Callable[[], Mapping[str, Any]]:
    return lambda: {"$schema": files.DIALECT, **model.model_json_schema()}


SCHEMAS = {
    "site-config": Published(
        about="a site config, of a whole site or of a layer", make=files.site_config
    ),
    "recipe": Published(about="a recipe, `recipe.yaml`", make=files.recipe),
    "import-matrix": Published(about="a matrix of `bench import-matrix`", make=_of(Matrix)),
    "file-system-facts": Published(
        about="a file system's speed, for `lab storm --fs`", make=_of(FactsFile)
    ),
    "forecast-facts": Published(
        about="a network, a machine and a goal, for `bench forecast`", make=_of(ForecastFacts)
    ),
    "lock": Published(about="a lock, as `lock` writes it", make=_of(Lock)),
    "image-record": Published(about="an image's record, `IMAGE.json`", make=_of(Record)),
    "base-record": Published(about="a base that `base make` made", make=_of(BaseRecord)),
}


def texts() -> dict[str, str]:
    """Return the schemas by the name of their file."""
    return {
        f"{FOLDER}/{name}.schema.json": json.dumps(schema.make(), indent=1) + "\n"
        for name, schema in SCHEMAS.items()
    }


def listing() -> str:
    """Write what ends the page of schemas: each with its file on the site."""
    lines = ["## The files", "", "| schema | of |", "|---|---|"]
    for name, schema in SCHEMAS.items():
        lines.append(f"| [{name}.schema.json]({FOLDER}/{name}.schema.json) | {schema.about} |")
    return "\n".join([*lines, ""])
