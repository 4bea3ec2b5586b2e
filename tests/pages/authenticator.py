"""A passkey in software, which answers as a browser with an authenticator does, or as a thief would."""

import base64
import hashlib
import html
import json
import re
import secrets
import struct
from dataclasses import dataclass, field
from typing import Any

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from httpx2 import Response

ORIGIN = "http://localhost:8400"
PRESENT, VERIFIED, ATTESTED = 0x01, 0x04, 0x40


def spelled(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def read(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "==")


def options(page: Response) -> dict[str, Any]:
    """Return the options of the only passkey form of a page."""
    found = re.search(r'data-options="([^"]+)"', page.text)
    assert found is not None, page.text
    asked: dict[str, Any] = json.loads(html.unescape(found[1]))
    return asked


@dataclass
class Authenticator:
    """A passkey. Its counter increases by ``step`` with each response."""

    step: int = 1
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )
    credential_id: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    user_handle: bytes = b""
    count: int = 0

    def make(
        self, asked: dict[str, Any], *, origin: str = ORIGIN, flags: int = PRESENT | VERIFIED
    ) -> str:
        """Return the response to the options of a page that adds a passkey."""
        self.user_handle = read(asked["user"]["id"])
        numbers = self.key.public_key().public_numbers()
        public_key = cbor2.dumps(
            {1: 2, 3: -7, -1: 1, -2: numbers.x.to_bytes(32), -3: numbers.y.to_bytes(32)}
        )
        attested = bytes(16) + struct.pack(">H", len(self.credential_id)) + self.credential_id
        data = self._data(asked["rp"]["id"], flags | ATTESTED) + attested + public_key
        return self._answer(
            {
                "clientDataJSON": spelled(_client_data("create", asked, origin)),
                "attestationObject": spelled(
                    cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})
                ),
                "transports": ["internal", "hybrid"],
            }
        )

    def sign(
        self,
        asked: dict[str, Any],
        *,
        origin: str = ORIGIN,
        rp_id: str | None = None,
        flags: int = PRESENT | VERIFIED,
        user_handle: bytes | None = None,
        client_data: dict[str, Any] | None = None,
    ) -> str:
        """Return the response to the options of a sign-in page."""
        self.count += self.step
        data = self._data(rp_id or asked["rpId"], flags)
        collected = _client_data("get", asked, origin, **(client_data or {}))
        signed = data + hashlib.sha256(collected).digest()
        handle = self.user_handle if user_handle is None else user_handle
        return self._answer(
            {
                "clientDataJSON": spelled(collected),
                "authenticatorData": spelled(data),
                "signature": spelled(self.key.sign(signed, ec.ECDSA(hashes.SHA256()))),
                "userHandle": spelled(handle),
            }
        )

    def _data(self, rp_id: str, flags: int) -> bytes:
        return hashlib.sha256(rp_id.encode()).digest() + struct.pack(">BI", flags, self.count)

    def _answer(self, response: dict[str, Any]) -> str:
        credential_id = spelled(self.credential_id)
        return json.dumps(
            {
                "id": credential_id,
                "rawId": credential_id,
                "type": "public-key",
                "response": response,
            }
        )


def _client_data(kind: str, asked: dict[str, Any], origin: str, **changed: Any) -> bytes:
    collected = {
        "type": f"webauthn.{kind}",
        "challenge": asked["challenge"],
        "origin": origin,
        "crossOrigin": False,
    }
    return json.dumps(collected | changed).encode()
