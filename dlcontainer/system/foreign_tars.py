"""Tars that somebody else wrote: a header may name gigabytes, and tarfile would read them whole."""

import tarfile

# Names and attributes of one file. The kernel takes paths of 4 KiB, and 64 KiB an attribute.
_MOST_HEADER = 1 << 20
_READ_WHOLE = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)


class Member(tarfile.TarInfo):
    """A member whose headers are short; give it to `tarfile.open` as `tarinfo`."""

    # "The entry point is _proc_member() which can be overridden in a subclass": tarfile's source.
    # typeshed leaves it out.
    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _READ_WHOLE and self.size > _MOST_HEADER:
            raise tarfile.ReadError(f"a header of {self.size} bytes")
        if self.type == tarfile.GNUTYPE_SPARSE:
            raise tarfile.ReadError("a sparse file, which no image's tar has")
        processed: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        return processed
