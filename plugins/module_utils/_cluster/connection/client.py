# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""A connection that the Kubernetes client makes: whatever the options, the environment and kubeconfigs can say.

No other file imports the client, and this one is imported only where `plain` does not suffice.
"""

from __future__ import annotations

import base64
import gc
import os
import re
import ssl
import time
import typing as t
from urllib.parse import quote, unquote, urlsplit

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection import request_errors
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection.tries import Tries
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import whole_number
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import get_api_client
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.exceptions import CoreException

try:
    import kubernetes
    import urllib3
    import yaml
    from kubernetes.config.kube_config import ConfigNode, KubeConfigMerger
    from kubernetes.stream.ws_client import websocket_proxycare
except ImportError:
    HAS_KUBERNETES = False
else:
    HAS_KUBERNETES = True
    # The client's classes live as long as the process. The garbage collector need not walk them while nodes are parsed.
    gc.freeze()

_MALFORMED: tuple[type[Exception], ...] = (ValueError, TypeError, AttributeError)
"""What the client raises for an invalid kubeconfig: wrong YAML, lists in place of mappings, bad base64."""
if HAS_KUBERNETES:
    _MALFORMED = (*_MALFORMED, yaml.YAMLError)


def connect(options: Json) -> Client:
    """Return the connection that the options and the environment lead to."""
    if not HAS_KUBERNETES:
        raise request_errors.missing()
    _assert_new_enough(str(kubernetes.__version__))
    _assert_one_cluster(options)
    try:
        api = _first_answer(_with_proxy_login(options))
    except (CoreException, kubernetes.config.ConfigException, *_MALFORMED) as e:
        raise GpuOpsError(
            f"The Kubernetes connection settings do not work: {request_errors.said(e)}. "
            "Check kubeconfig, context and the K8S_AUTH_* variables.",
            reason="BadConnectionSettings",
        ) from e
    except OSError as e:
        message = f"Cannot read the Kubernetes connection settings: {request_errors.said(e)}."
        raise GpuOpsError(message, reason="BadConnectionSettings") from e
    except urllib3.exceptions.HTTPError as e:
        raise request_errors.unreachable(e, "") from e
    _keep_options(api.configuration, options)
    return Client(api)


def _first_answer(options: Json) -> t.Any:
    """Return the client of the library, which asks the API server for its version and its groups of kinds."""
    tries = Tries("GET", "/version", None, {})
    while True:
        try:
            return get_api_client(**options).client.client
        except (kubernetes.client.exceptions.ApiException, kubernetes.dynamic.exceptions.DynamicApiError) as e:
            pause_s = tries.pause_s(e.status, (e.headers or {}).get("Retry-After"), time.time())
            if pause_s is None:
                raise request_errors.refused(e.status, e.body, "GET", "/version", "") from e
        time.sleep(pause_s)


class Client:
    """A connection of the Kubernetes client. See `connect.Connection`."""

    def __init__(self, api: t.Any) -> None:
        self._api, self._configuration = api, api.configuration

    @property
    def host(self) -> str:
        """The API server's URL."""
        return str(self._configuration.host)

    @property
    def pool(self) -> t.Any:
        """The connections of urllib3."""
        return self._api.rest_client.pool_manager

    def headers(self) -> dict[str, str]:
        """Return the headers of every request. The client renews an expired token here.

        The token has two names in the configuration, and each version of the client looks for it in its own way.
        """
        tokens = (self._configuration.get_api_key_with_prefix(name) for name in ("authorization", "BearerToken"))
        token = next(filter(None, tokens), None)
        return {**self._api.default_headers, **({"authorization": str(token)} if token else {})}

    def cluster(self) -> Json:
        """Return the cluster in the words of a kubeconfig. Files become content."""
        config = self._configuration
        tls = {"certificate-authority-data": _content(config.ssl_ca_cert)} if config.verify_ssl else {}
        return {
            "server": self.host,
            "insecure-skip-tls-verify": not config.verify_ssl,
            "tls-server-name": config.tls_server_name,
            "proxy-url": self._proxy_url(),
            **tls,
        }

    def user(self) -> Json:
        """Return the user in the words of a kubeconfig. Files become content, and a token is one that is valid now."""
        # A name that repeats is a string of kubernetes.core's that equals no other string.
        headers = [(str(name).lower(), value) for name, value in self.headers().items()]
        return {
            "token": re.sub("(?i)^bearer ", "", dict(headers).get("authorization", "")),
            "client-certificate-data": _content(self._configuration.cert_file),
            "client-key-data": _content(self._configuration.key_file),
            "as": dict(headers).get("impersonate-user"),
            "as-groups": [value for name, value in headers if name == "impersonate-group"],
        }

    def _proxy_url(self) -> str | None:
        """Return the URL of the proxy that this connection uses, with its login."""
        manager = self.pool
        if getattr(manager, "proxy", None) is None:
            return None
        url = urlsplit(manager.proxy.url)
        login = (manager.proxy_headers or {}).get("proxy-authorization", "").removeprefix("Basic ")
        user, dummy, password = base64.b64decode(login).decode().partition(":")
        place = url.netloc.rpartition("@")[2]
        netloc = f"{quote(user, '')}:{quote(password, '')}@{place}" if login else place
        return str(url._replace(netloc=netloc).geturl())

    def websocket(self, url: str) -> Json:
        """Return the options with which the websocket library connects as this connection does."""
        config = self._configuration
        tls: Json = {
            "cert_reqs": ssl.CERT_REQUIRED if config.verify_ssl else ssl.CERT_NONE,
            "check_hostname": config.verify_ssl,
        }
        files = {
            "ca_certs": config.ssl_ca_cert,
            "certfile": config.cert_file,
            "keyfile": config.key_file,
            "server_hostname": config.tls_server_name,
        }
        options: Json = {"sslopt": {**tls, **{key: value for key, value in files.items() if value}}}
        if config.proxy or config.proxy_headers:
            options = websocket_proxycare(options, config, url, self.headers())
        return options


def _assert_new_enough(version: str) -> None:
    major = whole_number(version.partition(".")[0])
    if major is not None and major < int(request_errors.MINIMUM_KUBERNETES.partition(".")[0]):
        raise GpuOpsError(
            f"The Python package kubernetes is {version} here, and this collection needs "
            f"{request_errors.MINIMUM_KUBERNETES} or newer: pip install --upgrade kubernetes.",
            reason="LibraryMissing",
        )


def _content(path: str | None) -> str | None:
    """Return a file's content in base64, or None without a path."""
    if not path:
        return None
    with open(path, "rb") as file:
        return base64.b64encode(file.read()).decode()


# Which cluster


_OVERRIDES = {
    "verify_ssl": "validate_certs",
    "ssl_ca_cert": "ca_cert",
    "cert_file": "client_cert",
    "key_file": "client_key",
    "proxy": "proxy",
}
"""The client's own name for each connection option that a kubeconfig can set too."""


def _setting(auth: t.Mapping[str, t.Any], option: str, alias: str = "") -> t.Any:
    """Return a connection option, or the environment variable that kubernetes.core reads in its place."""
    if auth.get(option) is not None:
        return auth[option]
    names = [f"K8S_AUTH_{name.upper()}" for name in (option, alias)]
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _assert_one_cluster(auth: t.Mapping[str, t.Any]) -> None:
    """Refuse a pod whose service account and kubeconfig name different clusters: it is unclear which one is meant."""
    if any(_setting(auth, name) for name in ("kubeconfig", "context", "host")):
        return
    inside, outside = _server_of_this_pod(), _server_of_the_kubeconfig()
    if inside and outside and inside != outside:
        raise GpuOpsError(
            f"This pod's service account leads to the cluster {inside}, and its kubeconfig to {outside}. Set "
            "K8S_AUTH_KUBECONFIG, gpuops_kubeconfig or the option kubeconfig to choose, or unset KUBECONFIG.",
            reason="BadConnectionSettings",
        )


def _keep_options(configuration: t.Any, auth: t.Mapping[str, t.Any]) -> None:
    """Let options win over a kubeconfig for good: whenever the client looks at its token, it restores the kubeconfig.

    This cannot be done for the server, because the modules of kubernetes.core would talk to the other one.
    """
    restore = configuration.refresh_api_key_hook or (lambda renewed: None)
    host = str(_setting(auth, "host") or configuration.host).rstrip("/")
    restore(configuration)
    if host != configuration.host:
        raise GpuOpsError(
            f"The option host (K8S_AUTH_HOST) is {host}, and the kubeconfig leads to {configuration.host}, which the "
            "client prefers. Leave out one of the two.",
            reason="BadConnectionSettings",
        )
    given = {name: _setting(auth, option, name) for name, option in _OVERRIDES.items()}
    if given["verify_ssl"] is not None:
        given["verify_ssl"] = str(given["verify_ssl"]).lower() not in ("0", "false", "no")

    def refresh(renewed: t.Any) -> None:
        restore(renewed)
        for name, value in given.items():
            if value is not None:
                setattr(renewed, name, value)

    configuration.refresh_api_key_hook = refresh
    refresh(configuration)


def _server_of_this_pod() -> str | None:
    inside = kubernetes.client.Configuration()
    try:
        kubernetes.config.load_incluster_config(client_configuration=inside)
    except kubernetes.config.ConfigException:
        return None
    return str(inside.host)


def _server_of_the_kubeconfig() -> str | None:
    """Return the server of the current context in KUBECONFIG or ~/.kube/config, or None."""
    server = _of_the_kubeconfig({}, "server")
    return server.rstrip("/") if server else None


def _of_the_kubeconfig(auth: t.Mapping[str, t.Any], name: str) -> str | None:
    """Return a setting of the cluster that the kubeconfig leads to, or None."""
    given = _setting(auth, "kubeconfig") or os.environ.get("KUBECONFIG") or "~/.kube/config"
    try:
        config = ConfigNode("kubeconfig", given) if isinstance(given, dict) else KubeConfigMerger(given).config
        context = config["contexts"].get_with_name(_setting(auth, "context") or config["current-context"])
        cluster = config["clusters"].get_with_name(context["context"]["cluster"])["cluster"]
        return str(cluster[name]) if name in cluster else None
    except (kubernetes.config.ConfigException, OSError, *_MALFORMED):
        return None


def _proxy_of(auth: t.Mapping[str, t.Any]) -> str:
    """Return the URL of the proxy that the client will use: the option's, the kubeconfig's, or the environment's.

    A proxy gets no login that belongs to another one: the kubeconfig counts only where the client reads it.
    """
    given = _setting(auth, "proxy")
    reads_kubeconfig = _setting(auth, "kubeconfig") or _setting(auth, "context") or not _setting(auth, "host")
    if not given and reads_kubeconfig:
        given = _of_the_kubeconfig(auth, "proxy-url")
    variables = (os.environ.get(name) for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"))
    return str(given or next(filter(None, variables), ""))


def _with_proxy_login(auth: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return the options with the login of the proxy's URL as a header: the client ignores it in the URL."""
    url = urlsplit(_proxy_of(auth))
    if not url.username or auth.get("proxy_headers"):
        return auth
    login = f"{unquote(url.username)}:{unquote(url.password or '')}"
    return {**auth, "proxy_headers": {"proxy_basic_auth": login}}
