"""CRC-32C (Castagnoli), and the mask that TFRecord puts on it. Standard library, Python >= 3.6.

The polynomial, reflected, is 0x82F63B78 (RFC 3720, section 12.1). The mask is that of
tensorflow/core/lib/hash/crc32c.h (`Mask`).
"""

POLYNOMIAL = 0x82F63B78
_MASK_DELTA = 0xA282EAD8


def _table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _table()


def of(data):
    """Give the CRC-32C of some bytes."""
    crc, table = 0xFFFFFFFF, _TABLE
    for byte in bytearray(data):
        crc = table[(crc ^ byte) & 255] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def masked(crc):
    """Give a CRC as TFRecord stores it: a CRC of data that hold CRCs would tell little."""
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF
