"""YAML that a human wrote: plain data, the origin of each value, strict models, nearest hints."""

from dlcontainer.document.base import Document, KeyPath, Origin, dotted, flatten
from dlcontainer.document.check import validate
from dlcontainer.document.layers import merge
from dlcontainer.document.parts import (
    Sourced,
    from_data,
    map_text,
    nest,
    replaced,
    subtree,
    without,
)
from dlcontainer.document.settings import from_settings
from dlcontainer.document.source import load, parse
from dlcontainer.hints import suggest

__all__ = [
    "Document",
    "KeyPath",
    "Origin",
    "Sourced",
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
