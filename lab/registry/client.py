# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A client for a registry's HTTP API: it asks for manifests as a kubelet's container runtime does."""

from __future__ import annotations

import base64
import http
import json
import typing as t
import urllib.parse
import urllib.request
from dataclasses import dataclass

import urllib3

MANIFESTS = (
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
)
LOOPBACK = ("127.0.0.1", "localhost")


@dataclass(frozen=True)
class Credentials:
    """A user's name and password."""

    user: str
    password: str

    @property
    def header(self) -> str:
        """The value of the header Authorization."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


@dataclass(frozen=True)
class Reference:
    """The parts of an image's name."""

    host: str
    repository: str
    tag: str
    """A tag, or a digest."""

    @classmethod
    def of(cls, image: str) -> Reference:
        """Return the parts of an image whose name begins with a registry."""
        host, _, path = image.partition("/")
        repository, at, digest = path.partition("@")
        if at:
            return cls(host, repository.partition(":")[0], digest)
        repository, _, tag = path.partition(":")
        return cls(host, repository, tag or "latest")

    @property
    def local(self) -> bool:
        """Whether the registry is on loopback."""
        return self.host.rpartition(":")[0] in LOOPBACK


class Session:
    """Requests to a registry, which answers one that lacks a token with the address of its token server."""

    def __init__(self, base: str, credentials: Credentials | None = None, ca: str | None = None) -> None:
        self._base = base
        self._credentials = credentials
        # Without a CA, certificates are not checked: a container runtime can be told so for a registry on loopback.
        checks: dict[str, t.Any] = {"ca_certs": ca} if ca else {"cert_reqs": "CERT_NONE", "assert_hostname": False}
        self._pool = urllib3.PoolManager(timeout=10, retries=False, **checks)
        if ca is None:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)

    def request(
        self, method: str, target: str, body: bytes | None = None, headers: t.Mapping[str, str] | None = None
    ) -> urllib3.BaseHTTPResponse:
        """Send a request, again with credentials if the registry demands them, and return the last answer."""
        url, sent = urllib.parse.urljoin(self._base, target), dict(headers or {})
        answer = self._pool.request(method, url, body=body, headers=sent, redirect=False)
        if answer.status != http.HTTPStatus.UNAUTHORIZED:
            return answer
        scheme, _, rest = answer.headers.get("WWW-Authenticate", "").partition(" ")
        given = self._bearer(rest) if scheme.lower() == "bearer" else self._basic()
        if given is None:
            return answer
        return self._pool.request(method, url, body=body, headers={**sent, "Authorization": given}, redirect=False)

    def _basic(self) -> str | None:
        return self._credentials.header if self._credentials else None

    def _bearer(self, challenge: str) -> str | None:
        """Return a token from the token server that a challenge names; None if it refuses."""
        parts = urllib.request.parse_keqv_list(urllib.request.parse_http_list(challenge))
        query = urllib.parse.urlencode([(key, parts[key]) for key in ("service", "scope") if key in parts])
        headers = {"Authorization": self._credentials.header} if self._credentials else {}
        answer = self._pool.request("GET", f"{parts['realm']}?{query}", headers=headers, redirect=False)
        if answer.status != http.HTTPStatus.OK:
            return None
        return f"Bearer {json.loads(answer.data)['token']}"


_TROUBLES = {
    http.HTTPStatus.NOT_FOUND: "image-pull-backoff",
    http.HTTPStatus.UNAUTHORIZED: "image-unauthorized",
    http.HTTPStatus.FORBIDDEN: "image-unauthorized",
    http.HTTPStatus.TOO_MANY_REQUESTS: "image-rate-limited",
}


def trouble(image: str, credentials: Credentials | None = None) -> str | None:
    """Ask a registry on loopback for an image. Return None if it has it, or else the kubelet's trouble with it.

    Of a registry elsewhere, every image exists: the lab stays on the machine.
    """
    reference = Reference.of(image)
    if not reference.local:
        return None
    target = f"/v2/{reference.repository}/manifests/{reference.tag}"
    # As for a container runtime, a registry on loopback need not have TLS.
    for scheme in ("https", "http"):
        session = Session(f"{scheme}://{reference.host}", credentials)
        try:
            status = session.request("HEAD", target, headers={"Accept": ", ".join(MANIFESTS)}).status
        except urllib3.exceptions.HTTPError:
            continue
        return None if status == http.HTTPStatus.OK else _TROUBLES.get(http.HTTPStatus(status), "image-unreachable")
    return "image-unreachable"
