"""OpenID Connect providers on this machine.

`serving_provider` runs one from PyPI as a process. `ForgingProvider` signs whatever a test wants,
and checks what the other doesn't: the PKCE verifier, and that codes are used once.
"""

import base64
import hashlib
import json
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote_plus

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import RSAAlgorithm

from tests.servers.ports import free_port, wait_for

CLIENT_ID, CLIENT_SECRET = "gateway", "a secret: of +two= words"


@contextmanager
def serving_provider(users: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Run `oidc-provider-mock` with these users and their claims; yields its issuer."""
    port = free_port()
    claims = [json.dumps({"sub": name, **user}) for name, user in users.items()]
    options = [option for user in claims for option in ("--user-claims", user)]
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "oidc_provider_mock", "--port", str(port)),
            *("--require-nonce", "true", *options),
        ],
        env={**os.environ, "AUTHLIB_INSECURE_TRANSPORT": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(port, process)
        # Another site than 127.0.0.1, as it is for most people.
        yield f"http://localhost:{port}"
    finally:
        process.terminate()
        process.wait()


class ForgingProvider:
    """A provider whose ID tokens a test may forge. `keys` are its private keys by id."""

    def __init__(self) -> None:
        self.keys = {"one": new_key()}
        self.issuer = ""
        self.metadata: dict[str, Any] = {}
        self._codes: dict[str, tuple[str, str]] = {}

    def claims(self, expected: str, **changes: Any) -> dict[str, Any]:  # noqa: ANN401
        """Valid claims of Ada for this nonce, with changes; None leaves a claim out."""
        at = int(time.time())
        found = {
            "iss": self.issuer,
            "sub": "ada-7",
            "aud": CLIENT_ID,
            "nonce": expected,
            "iat": at,
            "exp": at + 300,
            "preferred_username": "ada",
            "groups": ["clerks"],
            **changes,
        }
        return {name: value for name, value in found.items() if value is not None}

    def sign(self, claims: Mapping[str, Any], key: str = "one") -> str:
        return jwt.encode(dict(claims), self.keys[key], "RS256", {"kid": key})

    def public_pem(self, key: str = "one") -> bytes:
        public = self.keys[key].public_key()
        return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def issue(self, challenge: str, token: str) -> str:
        """A code for this ID token."""
        code = secrets.token_urlsafe(16)
        self._codes[code] = (challenge, token)
        return code

    def answer(self, path: str, form: Mapping[str, str], authorization: str) -> tuple[int, Any]:
        if path == "/.well-known/openid-configuration":
            return 200, {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                "end_session_endpoint": f"{self.issuer}/logout",
                **self.metadata,
            }
        if path == "/keys":
            keys = [
                {**RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": name, "use": "sig"}
                for name, key in self.keys.items()
            ]
            return 200, {"keys": keys}
        assert path == "/token", path
        pair = f"{quote_plus(CLIENT_ID)}:{quote_plus(CLIENT_SECRET)}"
        basic = base64.b64encode(pair.encode()).decode()
        if authorization != f"Basic {basic}":
            return 401, {"error": "invalid_client"}
        challenge, token = self._codes.pop(form["code"], ("", ""))
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != challenge:
            return 400, {"error": "invalid_grant"}
        return 200, {"access_token": "none", "token_type": "Bearer", "id_token": token}


def new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@contextmanager
def forging_provider() -> Iterator[ForgingProvider]:
    """Serve a ForgingProvider."""
    provider = ForgingProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._answer({name: values[0] for name, values in parse_qs(body).items()})

        def _answer(self, form: Mapping[str, str]) -> None:
            authorization = self.headers.get("Authorization", "")
            status, answer = provider.answer(self.path, form, authorization)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.issuer = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, name="provider")
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
