"""What is in an image, read from its files: no program of the image runs, any architecture goes."""

from dlcontainer.image.contents.folder_tree import FolderTree
from dlcontainer.image.contents.model import (
    FileTree,
    InstalledPackage,
    Library,
    TreeContents,
    TreeEntry,
)
from dlcontainer.image.contents.scan import packages_of, take
from dlcontainer.image.contents.squashfs_tree import SquashfsTree

__all__ = [
    "FileTree",
    "FolderTree",
    "InstalledPackage",
    "Library",
    "SquashfsTree",
    "TreeContents",
    "TreeEntry",
    "packages_of",
    "take",
]
