# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Ask registries whether images exist. An answer leaves out what a registry says, and all credentials.

The protocol is the OCI Distribution Specification (``HEAD /v2/<name>/manifests/<reference>``) with the token flow of
Docker's registry ("Token Authentication Specification"), which nvcr.io uses too.
"""

from __future__ import annotations

import dataclasses
import http
import http.client
import json
import re
import socket
import ssl
import typing as t
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit

from ansible.module_utils.urls import open_url
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks.registry import image_name
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks.registry import keys as _keys
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

State = t.Literal["exists", "missing", "refused", "unreachable", "unasked"]

_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_ACCEPT = ", ".join((*_INDEXES, *_MANIFESTS))
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_HEADER = "Authorization"


@dataclasses.dataclass(frozen=True)
class RegistrySettings:
    """How registries are asked."""

    mirrors: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    insecure: t.Collection[str] = ()
    """Registries whose certificate is not checked, and that may be asked without encryption."""
    key: _keys.Key | None = None
    """The credentials for all registries, in place of those of pull secrets."""
    ca_path: str | None = None
    timeout_s: int = 10


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a registry says about an image. ``asked`` is the image's name where it was asked for."""

    image: str
    asked: str
    state: State
    message: str = ""
    lacks: tuple[str, ...] = ()
    """The architectures that the image is not published for, of those that were asked for."""
    digest: str = ""
    """The digest of the image or index, if the registry says it."""


class _RefusalError(Exception):
    """The registry cannot or will not say. ``state`` and the message are for the answer."""

    def __init__(self, state: State, message: str) -> None:
        super().__init__(message)
        self.state, self.message = state, message


class _Reply(t.NamedTuple):
    status: int
    headers: t.Mapping[str, str]
    body: bytes


class Asker:
    """Asks registries. One that could not be reached is not asked again."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._down: dict[str, str] = {}
        self._tokens: dict[tuple[str, str], str] = {}

    @classmethod
    def of(cls, registry: t.Mapping[str, t.Any], mirrors: t.Mapping[str, str]) -> Asker:
        """Return one for a module's option ``registry``. A user that it names serves for all registries."""
        given = _keys.Key(registry["username"], registry["password"]) if registry["username"] else None
        settings = RegistrySettings(mirrors, registry["insecure"], given, registry["ca_path"], registry["timeout"])
        return cls(settings)

    def ask(self, image: str, keys: _keys.Keys, architectures: t.Collection[str] = ()) -> Answer:
        """Return whether an image exists, and for which of these architectures it does not."""
        place = image_name.on_mirror(image_name.parse(image), self._settings.mirrors)
        if place.host in self._down:
            return Answer(image, str(place), "unreachable", self._down[place.host])
        key = self._settings.key or _keys.key_for(keys, place.host, place.repository)
        try:
            reply = self._manifest(place, key, "HEAD")
            if reply.status == http.HTTPStatus.METHOD_NOT_ALLOWED:
                reply = self._manifest(place, key, "GET")
            state, message = _state(reply.status, place, key)
            lacks = self._lacks(place, key, reply, architectures) if state == "exists" else ()
        except _RefusalError as e:
            if e.state == "unreachable":
                self._down[place.host] = e.message
            return Answer(image, str(place), e.state, e.message)
        digest = reply.headers.get("docker-content-digest", "") if state == "exists" else ""
        return Answer(image, str(place), state, message, lacks, digest)

    def _lacks(
        self, place: image_name.ImageName, key: _keys.Key | None, reply: _Reply, wanted: t.Collection[str]
    ) -> tuple[str, ...]:
        """Return the architectures that an index does not list. An image without an index does not say its own."""
        kind = reply.headers.get("content-type", "").partition(";")[0].strip()
        if not wanted or kind not in _INDEXES:
            return ()
        listed = _parsed(self._manifest(place, key, "GET").body).get("manifests") or []
        found = {str((item.get("platform") or {}).get("architecture")) for item in listed if isinstance(item, dict)}
        return tuple(sorted(set(wanted) - found)) if found - {"None", "unknown"} else ()

    # ---- requests

    def _manifest(self, place: image_name.ImageName, key: _keys.Key | None, method: str) -> _Reply:
        """Ask for a manifest, with a token if the registry wants one."""
        path = f"/v2/{place.repository}/manifests/{place.version}"
        known = self._tokens.get((place.host, place.repository))
        reply = self._registry(place, method, path, known)
        if reply.status == http.HTTPStatus.UNAUTHORIZED:
            given = self._authorization(place, reply.headers.get("www-authenticate", ""), key)
            if given is not None and given != known:
                self._tokens[place.host, place.repository] = given
                reply = self._registry(place, method, path, given)
        return reply

    def _registry(self, place: image_name.ImageName, method: str, path: str, authorization: str | None) -> _Reply:
        """Send a request to a registry. One that is insecure may speak plain HTTP."""
        headers = {"Accept": _ACCEPT, **({_HEADER: authorization} if authorization else {})}
        if place.host not in self._settings.insecure:
            return self._send(method, f"https://{place.api}{path}", headers, place.host)
        try:
            return self._send(method, f"https://{place.api}{path}", headers, place.host)
        except _RefusalError:
            return self._send(method, f"http://{place.api}{path}", headers, place.host)

    def _authorization(self, place: image_name.ImageName, challenge: str, key: _keys.Key | None) -> str | None:
        """Return what to send in answer to a challenge, or None if there is nothing to send."""
        kind, dummy, rest = challenge.partition(" ")
        if kind.lower() == "basic":
            return key.basic if key else None
        asked = dict(_CHALLENGE.findall(rest))
        if kind.lower() != "bearer" or not asked.get("realm"):
            raise _RefusalError("refused", f"{place.host} asks for credentials in a way that this module does not know")
        return self._token(place, asked, key)

    def _token(self, place: image_name.ImageName, asked: t.Mapping[str, str], key: _keys.Key | None) -> str:
        realm = asked["realm"]
        if urlsplit(realm).scheme != "https" and place.host not in self._settings.insecure:
            message = f"the token service of {place.host} is not encrypted. List the registry in registry.insecure"
            raise _RefusalError("refused", message)
        query = {"service": asked.get("service"), "scope": asked.get("scope"), "account": key.username if key else None}
        query["scope"] = query["scope"] or f"repository:{place.repository}:pull"
        address = f"{realm}{'&' if '?' in realm else '?'}{urlencode({k: v for k, v in query.items() if v})}"
        reply = self._send("GET", address, {_HEADER: key.basic} if key else {}, place.host)
        if reply.status in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN):
            raise _RefusalError("refused", _no_access(place, key))
        answer = _parsed(reply.body)
        token = answer.get("token") or answer.get("access_token")
        if reply.status != http.HTTPStatus.OK or not isinstance(token, str):
            raise _RefusalError("unreachable", f"the token service of {place.host} fails (status {reply.status})")
        return f"Bearer {token}"

    def _send(self, method: str, url: str, headers: dict[str, str], host: str) -> _Reply:
        settings = self._settings
        try:
            reply = open_url(
                url,
                method=method,
                headers=headers,
                timeout=settings.timeout_s,
                validate_certs=host not in settings.insecure,
                ca_path=settings.ca_path,
                follow_redirects="safe",
                # A registry may send a client to a storage that must not see its credentials.
                unredirected_headers=[_HEADER],
                use_netrc=False,
            )
            return _Reply(reply.status, _lower(reply.headers), reply.read() if method == "GET" else b"")
        except HTTPError as e:
            return _Reply(e.code, _lower(e.headers), b"")
        except (URLError, ConnectionError, TimeoutError, ssl.SSLError, http.client.HTTPException, ValueError) as e:
            raise _RefusalError("unreachable", f"{host} cannot be reached ({_cause(e)})") from e


def _state(status: int, place: image_name.ImageName, key: _keys.Key | None) -> tuple[State, str]:
    if status == http.HTTPStatus.OK:
        return "exists", ""
    if status == http.HTTPStatus.NOT_FOUND:
        return "missing", f"{place} does not exist"
    if status in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN):
        return "refused", _no_access(place, key)
    if status == http.HTTPStatus.TOO_MANY_REQUESTS:
        raise _RefusalError("unreachable", f"{place.host} answers no more questions for now (status {status})")
    raise _RefusalError("unreachable", f"{place.host} fails (status {status})")


def _no_access(place: image_name.ImageName, key: _keys.Key | None) -> str:
    if key:
        return f"{place.host} refuses the credentials for {place.repository}, or does not have it"
    return f"{place.host} gives {place.repository} only to known users, and there are no credentials for it"


def _cause(error: Exception) -> str:
    """Return why a connection failed, in words that are the same on every system and contain no address."""
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError) or "timed out" in str(reason):
        return "no answer in time"
    if isinstance(reason, ssl.SSLError) or "CERTIFICATE_VERIFY_FAILED" in str(reason) or "SSL" in str(reason):
        return "its certificate is not trusted, or it speaks no TLS"
    if isinstance(reason, socket.gaierror):
        return "its name is not known"
    if isinstance(reason, ConnectionRefusedError):
        return "the connection is refused"
    return type(reason).__name__


def _lower(headers: t.Any) -> dict[str, str]:
    return {str(key).lower(): str(value) for key, value in headers.items()}


def _parsed(body: bytes) -> Json:
    try:
        answer = json.loads(body)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
