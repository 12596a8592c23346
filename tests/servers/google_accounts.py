"""Service accounts of Google Cloud: key files, and who sends a request, by its token."""

import json
import secrets
import time
from pathlib import Path
from typing import Any

from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth import jwt

PROJECT = "test-project"
# In Google's own, its library would ask Google where the account may be used from.
UNIVERSE = "cloud.test"
EMAIL = f"launcher@{PROJECT}.iam.gserviceaccount.com"


class Accounts:
    """One account with a key. Tokens are those that it signs, and those got with one."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._public = self._key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self._given: dict[str, float] = {}

    def key_file(self, path: Path, url: str) -> Path:
        """What `gcloud iam service-accounts keys create` writes; tokens are got from `url`."""
        private = self._key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        key = {
            "type": "service_account",
            "project_id": PROJECT,
            "private_key_id": "1",
            "private_key": private.decode(),
            "client_email": EMAIL,
            "universe_domain": UNIVERSE,
            "token_uri": f"{url}/token",
        }
        path.write_text(json.dumps(key))
        return path

    async def token(self, request: web.Request) -> web.Response:
        """A token for an assertion that the account signed."""
        form = await request.post()
        if not self._signed(str(form["assertion"])):
            wrong = {"error": "invalid_grant", "error_description": "Invalid JWT Signature."}
            return web.json_response(wrong, status=400)
        token = f"ya29.{secrets.token_hex(16)}"
        self._given[token] = time.time() + 3600
        said = {"access_token": token, "expires_in": 3600, "token_type": "Bearer"}
        return web.json_response(said)

    def knows(self, authorization: str) -> bool:
        token = authorization.removeprefix("Bearer ")
        return self._given.get(token, 0) > time.time() or self._signed(token)

    def _signed(self, token: str) -> bool:
        try:
            claims: dict[str, Any] = jwt.decode(token, certs=self._public)
        except ValueError:
            return False
        return bool(claims["iss"] == EMAIL)
