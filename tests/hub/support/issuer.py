"""An issuer of tokens (JWT), whose keys are in a file."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import HMACAlgorithm, OKPAlgorithm

__all__ = ["Issuer"]


@dataclass
class Issuer:
    """An issuer of tokens, whose keys are in a file."""

    file: Path

    def __post_init__(self) -> None:
        self.keys: dict[str, Ed25519PrivateKey] = {}
        self.add("one")

    def add(self, name: str) -> None:
        """Sign with another key from now on, and publish all."""
        self.keys[name] = Ed25519PrivateKey.generate()
        self.name = name
        self.file.write_text(self.published())

    def published(self) -> str:
        keys: list[Any] = [
            {**OKPAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": name} for name, key in self.keys.items()
        ]
        return json.dumps({"keys": [*keys, json.loads(HMACAlgorithm.to_jwk(b"a secret of 32 bytes, as it has to"))]})

    def token(self, **claims: object) -> str:
        """Return a token for ann of the group shop, which ends in ten minutes; None leaves a claim out."""
        given = {"sub": "ann", "groups": ["shop"], "aud": "hedwig", "iss": "us", "exp": time.time() + 600, **claims}
        wanted = {name: value for name, value in given.items() if value is not None}
        return jwt.encode(wanted, self.keys[self.name], "EdDSA", {"kid": self.name})
