"""What is in an image, read from its files: no program of the image runs, any architecture goes."""

from dlcontainer.image.contents.folder_tree import Unpacked
from dlcontainer.image.contents.model import Contents, Entry, Library, Package, Tree
from dlcontainer.image.contents.scan import packages_of, take
from dlcontainer.image.contents.squashfs_tree import Packed

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
