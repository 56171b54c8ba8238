"""YAML that a human wrote: plain data, the origin of each value, strict models, nearest hints."""

from dlcontainer.config.document import Document, KeyPath, ValueOrigin, dotted, flatten
from dlcontainer.config.merge import merge
from dlcontainer.config.overrides import from_settings
from dlcontainer.config.select import (
    SelectedDocument,
    from_data,
    map_text,
    nest,
    replaced,
    subtree,
    without,
)
from dlcontainer.config.suggestions import suggest
from dlcontainer.config.validation import validate
from dlcontainer.config.yaml_text.yaml_files import load, parse

__all__ = [
    "Document",
    "KeyPath",
    "SelectedDocument",
    "ValueOrigin",
    "dotted",
    "flatten",
    "from_data",
    "from_settings",
    "load",
    "map_text",
    "merge",
    "nest",
    "parse",
    "replaced",
    "subtree",
    "suggest",
    "validate",
    "without",
]
