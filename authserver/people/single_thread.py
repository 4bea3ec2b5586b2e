"""Verification of Argon2 hashes in one thread.

A hash of several lanes can be computed by fewer threads than it has lanes; the result is the same (RFC 9106,
section 3.1.1). The functions of ``argon2`` start a thread for each lane, twelve times a hash. Only their
binding of the C library's context separates the two numbers.
"""

import hmac
from base64 import b64decode
from typing import Final

from argon2 import extract_parameters
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError
from argon2.low_level import core, error_to_str, ffi

_OK: Final = 0


def verify(stored: str, password: str) -> None:
    """Verify that ``password`` matches the hash ``stored``, as ``PasswordHasher.verify`` does.

    Raises VerifyMismatchError, InvalidHashError and VerificationError.
    """
    parameters = extract_parameters(stored)
    salt, expected = (_decoded(part) for part in stored.split("$")[-2:])
    text = password.encode()
    # The context refers to this memory and does not keep it.
    computed = ffi.new("uint8_t[]", len(expected))
    password_bytes, salt_bytes = ffi.new("uint8_t[]", text), ffi.new("uint8_t[]", salt)
    context = ffi.new(
        "argon2_context *",
        {
            "version": parameters.version,
            "out": computed,
            "outlen": len(expected),
            "pwd": password_bytes,
            "pwdlen": len(text),
            "salt": salt_bytes,
            "saltlen": len(salt),
            "t_cost": parameters.time_cost,
            "m_cost": parameters.memory_cost,
            "lanes": parameters.parallelism,
            "threads": 1,
        },
    )
    status = core(context, parameters.type.value)
    if status != _OK:
        raise VerificationError(error_to_str(status))
    if not hmac.compare_digest(bytes(ffi.buffer(computed)), expected):
        raise VerifyMismatchError


def _decoded(part: str) -> bytes:
    """Decode base64 without padding."""
    try:
        return b64decode(part + "=" * (-len(part) % 4), validate=True)
    except ValueError as error:
        raise InvalidHashError from error
