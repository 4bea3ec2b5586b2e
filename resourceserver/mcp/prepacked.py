"""Compressed answers whose long part is always the same, such as lists: it is compressed once.

A gzip member is a header, blocks of deflate, a checksum and a length (RFC 1952). The blocks here are the
beginning and the end of an answer, stored as they are, around a block that was compressed before. No block
refers to another, so any of them may stand between others (RFC 1951, section 2).
"""

import zlib
from dataclasses import dataclass
from typing import Final

from resourceserver.api.packing import LEVEL

_HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
"""Deflate, without a name, a time or a system."""
_RAW: Final = -zlib.MAX_WBITS
"""Deflate without a header of its own."""


@dataclass(frozen=True)
class Prepacked:
    """A part of answers, and its compressed block."""

    plain: bytes
    block: bytes

    @classmethod
    def of(cls, plain: bytes) -> "Prepacked":
        """Compress a part."""
        compressor = zlib.compressobj(LEVEL, zlib.DEFLATED, _RAW)
        # A full flush ends the block at a byte, and is not the end of the stream.
        return cls(plain, compressor.compress(plain) + compressor.flush(zlib.Z_FULL_FLUSH))

    def between(self, begin: bytes, end: bytes) -> bytes:
        """Return the compressed answer that has this part between two short ones."""
        checksum = zlib.crc32(end, zlib.crc32(self.plain, zlib.crc32(begin)))
        length = len(begin) + len(self.plain) + len(end)
        return b"".join(
            (
                _HEADER,
                _stored(begin, is_last=False),
                self.block,
                _stored(end, is_last=True),
                checksum.to_bytes(4, "little"),
                (length % 2**32).to_bytes(4, "little"),
            )
        )


def _stored(plain: bytes, *, is_last: bool) -> bytes:
    """Return blocks with at most 65,535 bytes each as they are."""
    pieces = [plain[at : at + 0xFFFF] for at in range(0, len(plain), 0xFFFF)] or [b""]
    blocks = []
    for number, piece in enumerate(pieces, 1):
        final = is_last and number == len(pieces)
        size = len(piece)
        lengths = size.to_bytes(2, "little") + (size ^ 0xFFFF).to_bytes(2, "little")
        blocks.append((b"\x01" if final else b"\x00") + lengths + piece)
    return b"".join(blocks)
