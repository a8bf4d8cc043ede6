"""What a shared library shows, needs and looks for: as much of the ELF format as that takes (64 bit, little endian)."""
import mmap
import struct
from dataclasses import dataclass

_SECTION = struct.Struct("<IIQQQQIIQQ")  # name, type, flags, address, offset, size, link, info, alignment, entry size
_SYMBOL = struct.Struct("<IBBHQQ")  # name, info, other, section, value, size
_ENTRY = struct.Struct("<qQ")  # tag, value
_DYNAMIC, _DYNSYM = 6, 11  # types of sections
_NEEDED, _SONAME = 1, 14  # tags
_LOCAL, _GLOBAL = 0, 1  # bindings of symbols; weak is 2


@dataclass(frozen=True)
class Library:
    soname: str
    needed: tuple  # file names
    defined: frozenset  # names of symbols
    undefined: frozenset  # without weak ones, which may stay so


def read(path):
    """Raises ValueError when the file is no such library."""
    with open(path, "rb") as file:
        try:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _read(data)
        except (struct.error, IndexError, ValueError) as error:
            raise ValueError(f"{path} is not a shared library for this machine, or not a whole one") from error


def _read(data):
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("no ELF header")
    sections_at, = struct.unpack_from("<Q", data, 0x28)
    entry_size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [_SECTION.unpack_from(data, sections_at + entry_size * index) for index in range(count)]

    def content(section):
        return data[section[4]:section[4] + section[5]]

    def entries(kind, layout):
        """The table of texts that belongs to it, and the fields, of each entry in the sections of a type."""
        for section in sections:
            if section[1] == kind:
                texts = content(sections[section[6]])
                for fields in layout.iter_unpack(content(section)):
                    yield texts, fields

    soname, needed, defined, undefined = "", [], set(), set()
    for texts, (tag, value) in entries(_DYNAMIC, _ENTRY):
        if tag == _NEEDED:
            needed.append(_text(texts, value))
        elif tag == _SONAME:
            soname = _text(texts, value)
    for texts, (name, info, _, section, _, _) in entries(_DYNSYM, _SYMBOL):
        binding = info >> 4
        if section and binding != _LOCAL:
            defined.add(_text(texts, name))
        elif not section and binding == _GLOBAL:
            undefined.add(_text(texts, name))
    return Library(soname, tuple(needed), frozenset(defined), frozenset(undefined))


def _text(texts, begin):
    return texts[begin:texts.index(b"\0", begin)].decode()
