# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The token server of a registry, as https://distribution.github.io/distribution/spec/auth/token/ describes it."""

from __future__ import annotations

import base64
import http.server
import json
import threading
import time
import typing as t
import urllib.parse
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

from lab.cluster.controlplane.pki import Authority, KeyPair

ISSUER = "lab-tokens"
SERVICE = "lab-registry"
LIFETIME_S = 300


@dataclass(frozen=True)
class Signer:
    """Signs tokens with a certificate that the registry trusts."""

    pair: KeyPair

    def token(self, account: str, scopes: t.Iterable[str]) -> str:
        """Return a token for the actions that the scopes name."""
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "sub": account,
            "aud": SERVICE,
            "exp": now + LIFETIME_S,
            "nbf": now - 10,
            "iat": now,
            "jti": f"{account}-{time.time_ns()}",
            "access": [_access(scope) for scope in scopes],
        }
        signed = f"{_b64(self._header())}.{_b64(claims)}"
        key = serialization.load_pem_private_key(self.pair.key.read_bytes(), None)
        signature = t.cast("ec.EllipticCurvePrivateKey", key).sign(signed.encode(), ec.ECDSA(hashes.SHA256()))
        r, s = utils.decode_dss_signature(signature)
        return f"{signed}.{_encoded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"

    def _header(self) -> dict[str, t.Any]:
        certificate = x509.load_pem_x509_certificate(self.pair.cert.read_bytes())
        der = certificate.public_bytes(serialization.Encoding.DER)
        return {"typ": "JWT", "alg": "ES256", "x5c": [base64.b64encode(der).decode()]}


class TokenServer:
    """An HTTP server that gives tokens to one account, in a thread of this process."""

    def __init__(self, port: int, authority: Authority, user: str, password: str) -> None:
        signer = Signer(authority.client("registry-tokens"))
        wanted = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
                if self.headers.get("Authorization") != wanted:
                    self._answer(401, {"errors": [{"code": "UNAUTHORIZED", "message": "authentication required"}]})
                    return
                token = signer.token(user, query.get("scope", []))
                self._answer(200, {"token": token, "access_token": token, "expires_in": LIFETIME_S})

            def _answer(self, status: int, body: dict[str, t.Any]) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *arguments: object) -> None:
                """Write no log: a request has the account's credentials."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()


def _access(scope: str) -> dict[str, t.Any]:
    """Return what a scope such as `repository:nvidia/driver:pull,push` asks for."""
    kind, _, rest = scope.partition(":")
    name, _, actions = rest.rpartition(":")
    return {"type": kind, "name": name, "actions": actions.split(",")}


def _b64(content: dict[str, t.Any]) -> str:
    return _encoded(json.dumps(content).encode())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
