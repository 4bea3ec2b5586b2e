"""Compressed answers that are the same but for their short end, such as lists: they are compressed once.

A gzip member is a header, blocks of deflate, a checksum and a length (RFC 1952). The first block here was
compressed before, and the end follows it in a block that is stored as it is (RFC 1951, section 3.2.4). The
checksum of the whole goes on from that of the first block.
"""

import struct
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
    """The beginning of answers, with its compressed block."""

    plain: bytes
    block: bytes
    """The header of the member, and the block."""
    checksum: int

    @classmethod
    def of(cls, plain: bytes) -> "Prepacked":
        """Compress the beginning of answers."""
        compressor = zlib.compressobj(LEVEL, zlib.DEFLATED, _RAW)
        # A full flush ends the block at a byte, and is not the end of the stream.
        block = compressor.compress(plain) + compressor.flush(zlib.Z_FULL_FLUSH)
        return cls(plain, _HEADER + block, zlib.crc32(plain))

    def then(self, end: bytes) -> bytes:
        """Return the compressed answer with this end."""
        checksum = zlib.crc32(end, self.checksum)
        length = (len(self.plain) + len(end)) % 2**32
        return b"%b%b%b" % (self.block, _stored(end), struct.pack("<LL", checksum, length))


def _stored(plain: bytes) -> bytes:
    """Return blocks with at most 65,535 bytes each as they are; the last one ends the stream."""
    pieces = [plain[at : at + 0xFFFF] for at in range(0, len(plain), 0xFFFF)] or [b""]
    return b"".join(
        struct.pack("<BHH", number == len(pieces), len(piece), len(piece) ^ 0xFFFF) + piece
        for number, piece in enumerate(pieces, 1)
    )
