"""The device code of a file: of the sections that compilers of NVIDIA and AMD put it into."""

from pathlib import Path

from dlcontainer.image.contents import elf_format
from dlcontainer.image.gpu_binaries import code_counts, fatbin, offload_bundle
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
            sections = list(elf_format.sections(data, form)) if form else []
            is_nvidia = any(section.name == fatbin.SECTION for section in sections)
            for section in sections:
                end = section.offset + section.size
                reader = _READERS.get(section.name)
                if reader is not None:
                    parts.append(reader(data, section.offset, end))
                elif is_nvidia and section.name in fatbin.DATA_SECTIONS:
                    parts.append(fatbin.read(data, section.offset, end, among_data=True))
    except (ValueError, *elf_format.DAMAGE):
        return DeviceCode(notes=("its list of sections is damaged",))
    return code_counts.joined(parts)
