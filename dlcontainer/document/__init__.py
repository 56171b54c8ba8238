"""YAML that a human wrote: plain data, the origin of each value, strict models, nearest hints."""

from dlcontainer.document.base import Document, KeyPath, Origin, dotted, flatten
from dlcontainer.document.check import validate
from dlcontainer.document.layers import merge
from dlcontainer.document.settings import from_settings
from dlcontainer.document.source import load, parse
from dlcontainer.hints import suggest

__all__ = [
    "Document",
    "KeyPath",
    "Origin",
    "dotted",
    "flatten",
    "from_settings",
    "load",
    "merge",
    "parse",
    "suggest",
    "validate",
]
