"""The device code of a file: of the sections that compilers of NVIDIA and AMD put it into."""

from pathlib import Path

from dlcontainer.image.contents import elf_format
from dlcontainer.image.gpu_binaries import fatbin, offload_bundle
from dlcontainer.image.gpu_binaries.code_counts import DeviceCode

_READERS = {fatbin.SECTION: fatbin.read, offload_bundle.SECTION: offload_bundle.read}


def read(path: Path) -> DeviceCode:
    """Read a program's or library's device code; none of what is no ELF file, or damaged.

    Raises OSError.
    """
    parts = []
    try:
        with elf_format.mapped(path) as data:
            form = elf_format.form(data)
            for section in elf_format.sections(data, form) if form else ():
                reader = _READERS.get(section.name)
                if reader is not None:
                    parts.append(reader(data, section.offset, section.offset + section.size))
    except (ValueError, *elf_format.DAMAGE):
        return DeviceCode(notes=("its list of sections is damaged",))
    return DeviceCode(
        codes={code: count for part in parts for code, count in part.codes.items()},
        ptx_isa={code: isa for part in parts for code, isa in part.ptx_isa.items()},
        notes=tuple(note for part in parts for note in part.notes),
    )
