"""How long a client may keep what it has learnt: the caching of three kinds of file system."""

from dataclasses import dataclass

_UNDER_LOCK_S = 3600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """For how many s a client keeps a name, attributes (of files, of folders), a missing name."""

    name: str
    entry_s: float
    attr_s: float
    folder_attr_s: float
    negative_s: float
    source: str


PROFILES = {
    "lustre": Profile(
        name="lustre",
        entry_s=_UNDER_LOCK_S,
        attr_s=_UNDER_LOCK_S,
        folder_attr_s=_UNDER_LOCK_S,
        negative_s=_UNDER_LOCK_S,
        source="names, missing ones too, and attributes are kept under the server's locks, which "
        "nobody takes back while nobody writes",
    ),
    "nfs": Profile(
        name="nfs",
        entry_s=30.0,
        attr_s=3.0,
        folder_attr_s=30.0,
        negative_s=30.0,
        source="nfs(5): acregmin=3, acdirmin=30, lookupcache=all; the least time-outs, since "
        "FUSE can't lengthen them as a file ages",
    ),
    "gpfs": Profile(
        name="gpfs",
        entry_s=_UNDER_LOCK_S,
        attr_s=_UNDER_LOCK_S,
        folder_attr_s=_UNDER_LOCK_S,
        negative_s=0.0,
        source="assumed: names and attributes are kept under tokens, missing names are not kept",
    ),
}
