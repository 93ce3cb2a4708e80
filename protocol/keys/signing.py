"""Signatures of what a leader sends to all hosts: Ed25519 (RFC 8032). Pure.

Every host can verify them, and none can make them: the private key is derived from the master key, which only controllers have.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

SIGNATURE_BYTES = 64
PUBLIC_BYTES = 32


class PublicKey:
    """Verifies a leader's signatures."""

    __slots__ = ("_key", "public")

    def __init__(self, public: bytes) -> None:
        """Raises ValueError: not a public key."""
        self.public = bytes(public)
        self._key = Ed25519PublicKey.from_public_bytes(self.public)

    def proves(self, data: bytes, tag: bytes) -> bool:
        """Whether `tag` is the leader's signature of `data`."""
        try:
            self._key.verify(tag, data)
        except InvalidSignature:
            return False
        return True


class Signer:
    """Signs as the leader."""

    __slots__ = ("_key", "public_key")

    def __init__(self, secret: bytes) -> None:
        """Raises ValueError: the secret is not 32 bytes."""
        self._key = Ed25519PrivateKey.from_private_bytes(secret)
        self.public_key = PublicKey(self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    def tag(self, data: bytes) -> bytes:
        """The signature of `data`, 64 bytes."""
        return self._key.sign(data)
