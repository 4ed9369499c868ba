# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A running registry: its process, its account, and the images that tests put into it."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http
import json
import shutil
import tempfile
import time
import typing as t
from pathlib import Path

import urllib3
import yaml

from lab import ports, programs
from lab.cluster.controlplane.pki import Authority
from lab.errors import LabError
from lab.process import Component
from lab.registry import client, tokens
from lab.registry.client import Credentials, Session

Json = dict[str, t.Any]
AUTHS = ("none", "basic", "token")
_USER, _PASSWORD = "lab", "lab-password"
_HASH = "lab:$2b$04$aN3r5oPodHpK5memQrfSwOOSoVugLELjACx8NOV1Ccc09i4WX2Y9y\n"
"""The account in the format of htpasswd. The registry accepts only bcrypt, which Python's standard library lacks."""
_IMAGE, _LIST = client.MANIFESTS[:2]
_CONFIG = "application/vnd.docker.container.image.v1+json"


class Registry:
    """A registry on a free port of 127.0.0.1. ``auth`` is one of `AUTHS`."""

    def __init__(self, auth: str = "none", *, tls: bool = False) -> None:
        if auth not in AUTHS:
            raise LabError(f"A registry has no authentication {auth!r}: choose from {', '.join(AUTHS)}.")
        self._binary = programs.provide("docker-registry")
        self._folder = Path(tempfile.mkdtemp(prefix="gpuops-registry-"))
        self._authority = Authority(self._folder / "pki")
        self._authority.create()
        port, token_port = ports.free(2)
        self.host = f"127.0.0.1:{port}"
        """The registry in the names of its images."""
        self.url = f"http{'s' if tls else ''}://{self.host}"
        self.user, self.password = ("", "") if auth == "none" else (_USER, _PASSWORD)
        self.ca = self._authority.ca.cert if tls else None
        """The certificate of the CA that a client must trust; None without TLS."""
        self._tokens: tokens.TokenServer | None = None
        if auth == "token":
            self._tokens = tokens.TokenServer(token_port, self._authority, _USER, _PASSWORD)
        self._process = self._component(auth, token_port)

    def start(self) -> None:
        """Start the registry, and wait until it answers. Its images are still there after `stop`."""
        self._process.start()
        deadline = time.monotonic() + 30
        while not self._answers():
            if not self._process.alive or time.monotonic() > deadline:
                raise LabError(f"The registry does not answer. The end of its log:\n{self._process.log_end()}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop the registry, so that its port is free."""
        self._process.stop()

    def remove(self) -> None:
        """Stop the registry and its token server, and remove its images."""
        self.stop()
        if self._tokens:
            self._tokens.close()
            self._tokens = None
        shutil.rmtree(self._folder, ignore_errors=True)

    # ---- images -----------------------------------------------------------------------------------------------------

    def push(self, repository: str, tag: str, architectures: t.Sequence[str] = ()) -> str:
        """Put an image into the registry, or a list of images for several architectures, and return its digest.

        The image has no layers: who only asks whether it exists does not notice.
        """
        if not architectures:
            return self._put(repository, tag, _IMAGE, self._image(repository, "amd64"))
        entries = []
        for architecture in architectures:
            manifest = self._image(repository, architecture)
            digest = self._put(repository, _digest(manifest), _IMAGE, manifest)
            platform = {"os": "linux", "architecture": architecture}
            entries.append({"mediaType": _IMAGE, "size": len(manifest), "digest": digest, "platform": platform})
        return self._put(repository, tag, _LIST, _json({"schemaVersion": 2, "mediaType": _LIST, "manifests": entries}))

    def delete(self, repository: str, digest: str) -> None:
        """Remove an image by its digest."""
        self._expect("DELETE", f"/v2/{repository}/manifests/{digest}", http.HTTPStatus.ACCEPTED)

    def image(self, repository: str, tag: str) -> str:
        """Return the full name of an image."""
        return f"{self.host}/{repository}:{tag}"

    def docker_config(self, *, password: str | None = None) -> Json:
        """Return the content of a pull secret's ``.dockerconfigjson``, also with a wrong password."""
        account = Credentials(self.user, self.password if password is None else password)
        encoded = account.header.removeprefix("Basic ")
        return {"auths": {self.host: {"username": account.user, "password": account.password, "auth": encoded}}}

    def pull_secret(self, name: str, namespace: str = "gpu-operator", *, password: str | None = None) -> Json:
        """Return a Secret with which a kubelet pulls from this registry, also with a wrong password."""
        config = base64.b64encode(_json(self.docker_config(password=password))).decode()
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace},
            "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": config},
        }

    def requests(self) -> list[str]:
        """Return the requests that the registry has answered, such as ``HEAD /v2/nvidia/driver/manifests/595``."""
        found = []
        for line in self._process.log.read_text(errors="replace").splitlines():
            # The access log has the format of Apache: address, user, time, "request", status.
            if '"' in line and line.startswith("127.0.0.1 "):
                method, target, _version = line.split('"')[1].split(" ")
                found.append(f"{method} {target}")
        return found

    def _image(self, repository: str, architecture: str) -> bytes:
        config = _json({"architecture": architecture, "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}})
        self._upload(repository, config)
        described = {"mediaType": _CONFIG, "size": len(config), "digest": _digest(config)}
        return _json({"schemaVersion": 2, "mediaType": _IMAGE, "config": described, "layers": []})

    def _upload(self, repository: str, blob: bytes) -> None:
        begun = self._expect("POST", f"/v2/{repository}/blobs/uploads/", http.HTTPStatus.ACCEPTED)
        address = begun.headers["Location"]
        joined = f"{address}{'&' if '?' in address else '?'}digest={_digest(blob)}"
        self._expect("PUT", joined, http.HTTPStatus.CREATED, blob, "application/octet-stream")

    def _put(self, repository: str, reference: str, kind: str, manifest: bytes) -> str:
        self._expect("PUT", f"/v2/{repository}/manifests/{reference}", http.HTTPStatus.CREATED, manifest, kind)
        return _digest(manifest)

    def _expect(
        self, method: str, target: str, status: http.HTTPStatus, body: bytes | None = None, kind: str = ""
    ) -> urllib3.BaseHTTPResponse:
        headers = {"Content-Type": kind} if kind else {}
        answer = self._session().request(method, target, body, headers)
        if answer.status != status:
            raise LabError(f"{method} {target} at the registry got {answer.status}: {answer.data.decode()[:300]}")
        return answer

    def _session(self) -> Session:
        account = Credentials(self.user, self.password) if self.user else None
        return Session(self.url, account, str(self.ca) if self.ca else None)

    # ---- process ----------------------------------------------------------------------------------------------------

    def _answers(self) -> bool:
        try:
            return self._session().request("GET", "/v2/").status == http.HTTPStatus.OK
        except urllib3.exceptions.HTTPError:
            return False

    def _component(self, auth: str, token_port: int) -> Component:
        config: Json = {
            "version": "0.1",
            "log": {"level": "warn", "accesslog": {"disabled": False}},
            "storage": {
                "filesystem": {"rootdirectory": str(self._folder / "images")},
                "delete": {"enabled": True},
                "maintenance": {"uploadpurging": {"enabled": False}},
            },
            "http": {"addr": self.host, "secret": "lab", **({"tls": self._certificate()} if self.ca else {})},
            **({} if auth == "none" else {"auth": self._auth(auth, token_port)}),
        }
        path = self._folder / "config.yml"
        path.write_text(yaml.safe_dump(config))
        argv = [str(self._binary), "serve", str(path)]
        # Its traces would go to a collector that does not exist.
        env = {"OTEL_TRACES_EXPORTER": "none"}
        return Component("docker-registry", argv, self._folder / "registry.log", self._folder, env)

    def _certificate(self) -> Json:
        pair = self._authority.server("registry")
        return {"certificate": str(pair.cert), "key": str(pair.key)}

    def _auth(self, auth: str, token_port: int) -> Json:
        if auth == "basic":
            accounts = self._folder / "htpasswd"
            accounts.write_text(_HASH)
            return {"htpasswd": {"realm": "lab", "path": str(accounts)}}
        return {
            "token": {
                "realm": f"http://127.0.0.1:{token_port}/token",
                "service": tokens.SERVICE,
                "issuer": tokens.ISSUER,
                "rootcertbundle": str(self._authority.ca.cert),
            }
        }


@contextlib.contextmanager
def running(auth: str = "none", *, tls: bool = False) -> t.Iterator[Registry]:
    """Run a registry during a block. Raise UnavailableError if this machine cannot have its program."""
    registry = Registry(auth, tls=tls)
    try:
        registry.start()
        yield registry
    finally:
        registry.remove()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _json(content: Json) -> bytes:
    return json.dumps(content).encode()
