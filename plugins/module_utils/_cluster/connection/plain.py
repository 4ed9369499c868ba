# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""A connection that a kubeconfig describes plainly, without the Kubernetes client.

Importing the client takes a third of a second, in each task, since every task is a process of its own. Most kubeconfigs
hold a certificate or a token, and only have to be read. Whatever is less plain (an
exec plugin, a proxy, impersonation, another connection option, a service account) is left to the client, and so is
whatever looks wrong, for its message.
"""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
import typing as t

from ansible.module_utils.common.yaml import yaml_load
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

try:
    import urllib3
    import yaml
except ImportError:
    HAS_LIBRARIES = False
else:
    HAS_LIBRARIES = True

CONNECTIONS = 16
"""How many connections stay open for requests in parallel. Each new one costs a TLS handshake."""

_CLUSTER_KEYS = {
    "server",
    "certificate-authority",
    "certificate-authority-data",
    "insecure-skip-tls-verify",
    "tls-server-name",
    "extensions",
}
_USER_KEYS = {
    "token",
    "client-certificate",
    "client-certificate-data",
    "client-key",
    "client-key-data",
    "extensions",
}
_OPTIONS = {"kubeconfig", "context"}

_NO_KUBECONFIG = (OSError, ValueError, TypeError, KeyError, AttributeError, StopIteration)
"""What reading a kubeconfig raises if it or its certificates are invalid."""


def connect(options: t.Mapping[str, t.Any]) -> Plain | None:
    """Return the connection if the options and the environment lead to a plain kubeconfig; otherwise None."""
    path = _path(options)
    if not HAS_LIBRARIES or path is None:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            config = yaml_load(file)
        context = _named(config["contexts"], "context", _context(options) or config["current-context"])
        cluster = _named(config["clusters"], "cluster", context["cluster"])
        user = _named(config["users"], "user", context["user"])
        return Plain(cluster, user, os.path.dirname(path)) if _is_plain(cluster, user) else None
    except (*_NO_KUBECONFIG, yaml.YAMLError):
        return None


def _path(options: t.Mapping[str, t.Any]) -> str | None:
    """Return the path of the only kubeconfig, or None if there is more than that to look at."""
    variables = {name for name, value in os.environ.items() if name.startswith("K8S_AUTH_") and value}
    proxies = [name for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY") if _variable(name)]
    if options.keys() - _OPTIONS or variables - {"K8S_AUTH_KUBECONFIG", "K8S_AUTH_CONTEXT"} or proxies:
        return None
    path = options.get("kubeconfig") or os.environ.get("K8S_AUTH_KUBECONFIG")
    if not path and not os.environ.get("KUBERNETES_SERVICE_HOST"):
        path = os.environ.get("KUBECONFIG", "~/.kube/config")
    return os.path.expanduser(path) if isinstance(path, str) and path and os.pathsep not in path else None


def _variable(name: str) -> str | None:
    return os.environ.get(name) or os.environ.get(name.lower())


def _context(options: t.Mapping[str, t.Any]) -> str | None:
    return options.get("context") or os.environ.get("K8S_AUTH_CONTEXT")


def _named(entries: list[Json], kind: str, name: str) -> Json:
    """Return the entry with a name. Two entries of one name are not plain."""
    (found,) = (entry[kind] for entry in entries if entry["name"] == name)
    return dict(found)


def _is_plain(cluster: Json, user: Json) -> bool:
    is_verified = {"certificate-authority", "certificate-authority-data"} & cluster.keys()
    has_authority = bool(is_verified or cluster.get("insecure-skip-tls-verify") is True)
    is_known = not (cluster.keys() - _CLUSTER_KEYS or user.keys() - _USER_KEYS)
    return is_known and has_authority and str(cluster["server"]).startswith("https://")


class Plain:
    """A connection with the TLS settings and the credentials of a kubeconfig. See `connect.Connection`."""

    def __init__(self, cluster: Json, user: Json, folder: str) -> None:
        self.host = str(cluster["server"]).rstrip("/")
        self._token = user.get("token")
        self._is_verified = cluster.get("insecure-skip-tls-verify") is not True
        self._authority = _content(cluster, "certificate-authority", folder) if self._is_verified else None
        self._certificate = _content(user, "client-certificate", folder)
        self._key = _content(user, "client-key", folder)
        self._server_name = cluster.get("tls-server-name")
        self._tls = self._context()
        names = {"server_hostname": self._server_name} if self._server_name else {}
        self.pool = urllib3.PoolManager(ssl_context=self._tls, maxsize=CONNECTIONS, **names)

    def _context(self) -> ssl.SSLContext:
        context = urllib3.util.ssl_.create_urllib3_context()
        if self._is_verified:
            context.load_verify_locations(cadata=(self._authority or b"").decode())
        else:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            urllib3.disable_warnings()
        if self._certificate:
            _load_pair(context, self._certificate, self._key or b"")
        return context

    def headers(self) -> dict[str, str]:
        """Return the headers of every request."""
        return {"authorization": f"Bearer {self._token}"} if self._token else {}

    def cluster(self) -> Json:
        """Return the cluster in the words of a kubeconfig."""
        return {
            "server": self.host,
            "insecure-skip-tls-verify": not self._is_verified,
            "tls-server-name": self._server_name,
            "certificate-authority-data": _encoded(self._authority),
        }

    def user(self) -> Json:
        """Return the user in the words of a kubeconfig."""
        pair = {"client-certificate-data": _encoded(self._certificate), "client-key-data": _encoded(self._key)}
        return {"token": self._token, **pair}

    def websocket(self, url: str) -> Json:
        """Return the options with which the websocket library connects as this connection does."""
        names = {"server_hostname": self._server_name} if self._server_name else {}
        return {"sslopt": {"context": self._tls, **names}}


def _content(settings: Json, name: str, folder: str) -> bytes | None:
    """Return what a setting holds: as data, which wins, or in a file."""
    data, path = settings.get(f"{name}-data"), settings.get(name)
    if data:
        return base64.b64decode(data, validate=True)
    if not path:
        return None
    with open(os.path.join(folder, path), "rb") as file:
        return file.read()


def _encoded(content: bytes | None) -> str | None:
    return base64.b64encode(content).decode() if content else None


def _load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a client certificate. OpenSSL reads it only from a file, which is temporary and private to this user."""
    with tempfile.NamedTemporaryFile(prefix="gpuops-") as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        context.load_cert_chain(file.name, password="")  # without this, an encrypted key asks the terminal
