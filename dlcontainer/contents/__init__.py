"""What is in an image, read from its files: no program of the image runs, any architecture goes."""

from dlcontainer.contents.base import Contents, Entry, Library, Package, Tree
from dlcontainer.contents.packed import Packed
from dlcontainer.contents.take import packages_of, take
from dlcontainer.contents.unpacked import Unpacked

__all__ = [
    "Contents",
    "Entry",
    "Library",
    "Package",
    "Packed",
    "Tree",
    "Unpacked",
    "packages_of",
    "take",
]
