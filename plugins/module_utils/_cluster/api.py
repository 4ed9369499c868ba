# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The only door to the Kubernetes API, and the only file that imports ``kubernetes`` and ``kubernetes.core``.

Answers are plain dicts and lists as the API server sent them: no typed client objects and no discovery per kind, because at
8,000 pods building typed objects costs 13 s more than reading the JSON. Every failure is a `GpuOpsError` with one sentence.
"""

from __future__ import annotations

import contextlib
import email.utils
import gc
import json
import ssl
import time
import typing as t
from urllib.parse import quote, urlencode, urlsplit

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError, Reason
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import get_api_client
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.exceptions import CoreException

try:
    import kubernetes
    import urllib3
    import websocket
    from kubernetes.stream.ws_client import websocket_proxycare
except ImportError:
    HAS_KUBERNETES = False
else:
    HAS_KUBERNETES = True
    # The client's classes live as long as the process. The garbage collector would walk them again and again while 1,000 nodes are parsed.
    gc.freeze()

MINIMUM_KUBERNETES = "29.0.0"
FIELD_MANAGER = "gpuops.nvidia"
"""The one field manager of every write, so that server-side apply knows which fields are ours."""

PAGE = 500
"""Objects per page of a list that can be large (pods): about 5 MB each time."""

CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 60
THROTTLED_S = 15.0
"""How long to come back to an API server that says 429: it is busy, or its cache of a new CRD is not filled yet."""

Rows = list[dict[str, t.Any]]


class Stream:
    """An open websocket. Its failures are an `OSError`, see `Cluster.stream`."""

    def __init__(self, connection: t.Any) -> None:
        self._connection = connection

    def send(self, data: bytes) -> None:
        """Send one binary frame."""
        self._connection.send_binary(data)

    def receive(self, timeout_s: float) -> bytes | None:
        """Return the next frame that carries data, or None if the other side closes the connection."""
        deadline = time.monotonic() + timeout_s
        while True:
            self._connection.settimeout(max(deadline - time.monotonic(), 0.001))
            opcode, frame = t.cast("tuple[int, bytes]", self._connection.recv_data(control_frame=True))
            if opcode == websocket.ABNF.OPCODE_CLOSE:
                return None
            if opcode == websocket.ABNF.OPCODE_BINARY and frame:
                return frame


def argument_spec(**options: t.Any) -> dict[str, t.Any]:
    """Return a module's argument spec: its own options plus kubernetes.core's connection options."""
    return {**AUTH_ARG_SPEC, **options}


def assert_libraries(module: AnsibleModule) -> None:
    """Fail the module with the name of the missing library. Called by ``main()`` before it connects."""
    if not HAS_KUBERNETES:
        module.fail_json(msg=missing_required_lib(f"kubernetes >= {MINIMUM_KUBERNETES}"))


class Cluster:
    """One connection to one Kubernetes API server.

    ``options`` is ``module.params`` or a plugin's ``get_options()``: the connection options of
    ``kubernetes.core.k8s_auth_options``. ``check_mode`` turns every write into a server-side dry run.
    """

    def __init__(self, options: t.Mapping[str, t.Any], check_mode: bool = False) -> None:
        self.check_mode = check_mode
        self._date: str | None = None
        auth = {name: options[name] for name in AUTH_ARG_SPEC if options.get(name) is not None}
        try:
            self._api = get_api_client(**auth).client.client
        except (CoreException, kubernetes.config.ConfigException) as e:
            raise GpuOpsError(
                f"The Kubernetes connection settings do not work: {_one_line(e)}. Check kubeconfig, context and the K8S_AUTH_* variables.",
                reason="BadConnectionSettings",
            ) from e
        except OSError as e:
            raise GpuOpsError(
                f"Cannot read the Kubernetes connection settings: {_one_line(e)}.", reason="BadConnectionSettings"
            ) from e
        except kubernetes.client.exceptions.ApiException as e:
            raise _error(e.status, e.body, "GET", "/version", "") from e
        except kubernetes.dynamic.exceptions.DynamicApiError as e:
            raise _error(e.status, e.body, "GET", "/version", "") from e
        except urllib3.exceptions.HTTPError as e:
            raise _unreachable(e, "") from e

    @property
    def host(self) -> str:
        """The API server's URL."""
        return str(self._api.configuration.host)

    def now(self) -> float:
        """Return the API server's clock at its last answer, in seconds since the epoch: ages of its objects need the same clock."""
        return email.utils.parsedate_to_datetime(self._date).timestamp() if self._date else time.time()

    def request(
        self,
        method: str,
        path: str,
        query: t.Mapping[str, t.Any] | None = None,
        body: t.Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        read_timeout_s: float = READ_TIMEOUT_S,
    ) -> bytes:
        """Send one request and return the body of a 2xx answer.

        A 429 is retried when the API server says, except for a POST: there it can be an answer (an eviction that a
        PodDisruptionBudget forbids). Raises `GpuOpsError` with reason Unreachable, Unauthorized, Forbidden, NotFound, AlreadyExists, Conflict, Invalid,
        TooManyRequests, Expired or ServerError; ``status`` is the HTTP code and ``causes`` the API's own list of causes.
        """
        # The API server compresses what is over 128 kB: 1,000 nodes are 8 MB plain, and take longer to decrypt than to unpack.
        headers = {**self._api.default_headers, "Accept": accept, "Accept-Encoding": "gzip"}
        if body is not None:
            headers["Content-Type"] = content_type
        self._api.update_params_for_auth(headers, [], ["BearerToken"], path, method, None)
        url = f"{self.host}{path}" + (f"?{urlencode(query)}" if query else "")
        data = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
        deadline = time.monotonic() + THROTTLED_S
        while True:
            try:
                reply = self._api.rest_client.pool_manager.request(
                    method,
                    url,
                    body=data,
                    headers=headers,
                    timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=read_timeout_s),
                    retries=False,
                )
            except urllib3.exceptions.HTTPError as e:
                raise _unreachable(e, self.host) from e
            self._date = reply.headers.get("Date")
            if 200 <= reply.status < 300:
                return bytes(reply.data)
            pause_s = float(reply.headers.get("Retry-After") or 1)
            if reply.status != 429 or method == "POST" or time.monotonic() + pause_s > deadline:
                raise _error(reply.status, reply.data, method, path, self.host)
            time.sleep(pause_s)

    def get(self, path: str, query: t.Mapping[str, t.Any] | None = None) -> Json | None:
        """Return the object at ``path``, or None when it (or its kind) does not exist."""
        try:
            return t.cast(Json, json.loads(self.request("GET", path, query)))
        except GpuOpsError as e:
            if e.reason == "NotFound":
                return None
            raise

    def list(self, path: str, **selectors: str) -> list[Json] | None:
        """Return every object at a collection's ``path``, or None when the kind does not exist.

        ``selectors`` are the API's query parameters (``labelSelector``, ``fieldSelector``). The answer comes from the API
        server's watch cache in one piece (``resourceVersion=0``), which is the cheapest read and never older than the
        cache; use `pages` where the answer could be large.
        """
        answer = self.get(path, {"resourceVersion": "0", **selectors})
        return None if answer is None else t.cast("list[Json]", answer.get("items") or [])

    def pages(self, path: str, **selectors: str) -> t.Iterator[Json]:
        """Yield a large collection's objects, `PAGE` at a time, so that memory stays bounded."""
        token = ""
        while True:
            page = json.loads(
                self.request("GET", path, {"limit": PAGE, **({"continue": token} if token else {}), **selectors})
            )
            yield from page.get("items") or []
            token = page.get("metadata", {}).get("continue") or ""
            if not token:
                return

    def table(self, path: str, **selectors: str) -> Rows:
        """Return a collection as the API server's own table: one dict per row, keyed by lower-case column name.

        For pods: name, ready ("1/1"), status ("Init:0/1"), restarts, age, ip, node. About 80 times smaller than the objects.
        """
        body = self.request(
            "GET",
            path,
            {"resourceVersion": "0", "includeObject": "None", **selectors},
            accept="application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        )
        table = json.loads(body)
        names = [column["name"].lower() for column in table.get("columnDefinitions") or []]
        return [dict(zip(names, row["cells"])) for row in table.get("rows") or []]

    def text(self, path: str, query: t.Mapping[str, t.Any] | None = None) -> str:
        """Return a plain-text answer, such as a pod's log."""
        return self.request("GET", path, query, accept="text/plain, */*").decode("utf-8", "replace")

    def apply(self, path: str, body: Json | str, force: bool = False, dry_run: bool | None = None) -> Json:
        """Server-side apply ``body`` (an object, or its YAML text) at ``path`` as `FIELD_MANAGER` with strict field validation; return the object.

        ``dry_run`` defaults to check mode. A conflict raises reason Conflict with ``causes`` naming managers and fields.
        """
        query = {
            "fieldManager": FIELD_MANAGER,
            "fieldValidation": "Strict",
            "force": "true" if force else "false",
            **self._dry(dry_run),
        }
        return t.cast(
            Json, json.loads(self.request("PATCH", path, query, body, content_type="application/apply-patch+yaml"))
        )

    def create(self, path: str, body: Json) -> Json:
        """Create ``body`` in the collection at ``path``; return the object."""
        query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict", **self._dry()}
        return t.cast(Json, json.loads(self.request("POST", path, query, body)))

    def merge(self, path: str, body: Json) -> Json:
        """JSON merge patch (None removes a key); return the object."""
        query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict", **self._dry()}
        return t.cast(
            Json, json.loads(self.request("PATCH", path, query, body, content_type="application/merge-patch+json"))
        )

    def delete(self, path: str, propagation: str = "Background", grace_period_s: int | None = None) -> bool:
        """Delete the object at ``path``; False when it was not there."""
        options: Json = {"propagationPolicy": propagation}
        if grace_period_s is not None:
            options["gracePeriodSeconds"] = grace_period_s
        if self.check_mode:
            # With a body the API server does not look at the query, where the other verbs have it.
            options["dryRun"] = ["All"]
        try:
            self.request("DELETE", path, body=options)
        except GpuOpsError as e:
            if e.reason == "NotFound":
                return False
            raise
        return True

    def evict(self, namespace: str, pod: str, uid: str, grace_period_s: int | None = None) -> None:
        """Evict this very pod, not a successor of the same name (which is a Conflict). TooManyRequests is a disruption budget's no."""
        options: Json = {"preconditions": {"uid": uid}}
        if grace_period_s is not None:
            options["gracePeriodSeconds"] = grace_period_s
        if self.check_mode:
            options["dryRun"] = ["All"]
        metadata = {"name": pod, "namespace": namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options}
        self.request("POST", namespaced("v1", namespace, "pods", pod) + "/eviction", body=body)

    @contextlib.contextmanager
    def stream(self, path: str, protocol: str, timeout_s: float) -> t.Iterator[Stream]:
        """Open a websocket at ``path`` for the duration of a ``with`` block.

        A refusal by the API server raises a `GpuOpsError`, as in `request`. A connection that breaks or times out raises an `OSError`.
        """
        try:
            with contextlib.closing(self._websocket(path, protocol, timeout_s)) as connection:
                yield Stream(connection)
        except websocket.WebSocketBadStatusException as e:
            raise _error(e.status_code, e.resp_body, "GET", path, self.host) from e
        except websocket.WebSocketException as e:
            raise ConnectionError(str(e)) from e

    def _websocket(self, path: str, protocol: str, timeout_s: float) -> t.Any:
        """Open a websocket with this connection's credentials. The client library's own way has no time-out."""
        config = self._api.configuration
        headers: dict[str, str] = {}
        self._api.update_params_for_auth(headers, [], ["BearerToken"], path, "GET", None)
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
        url = f"{self.host.replace('http', 'ws', 1)}{path}"
        options: Json = {
            "header": [f"{key}: {value}" for key, value in headers.items()],
            "subprotocols": [protocol],
            "timeout": timeout_s,
        }
        if config.proxy or config.proxy_headers:
            options = websocket_proxycare(options, config, url, headers)
        return websocket.create_connection(
            url, sslopt={**tls, **{key: value for key, value in files.items() if value}}, **options
        )

    def _dry(self, dry_run: bool | None = None) -> dict[str, str]:
        return {"dryRun": "All"} if (self.check_mode if dry_run is None else dry_run) else {}


def _one_line(error: t.Any) -> str:
    return " ".join(str(error).split()).rstrip(".")


def _unreachable(error: Exception, host: str) -> GpuOpsError:
    where = f" at {host}" if host else ""
    cause = getattr(error, "reason", None) or error
    return GpuOpsError(
        f"Cannot reach the Kubernetes API{where}: {_one_line(cause)}. Check that the API server runs and that the kubeconfig's "
        "server address and certificate authority are right.",
        reason="Unreachable",
    )


_REASONS: dict[int, Reason] = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    400: "Invalid",
    429: "TooManyRequests",
}


def _error(status: int, body: t.Any, method: str, path: str, host: str) -> GpuOpsError:
    """Turn a non-2xx answer into one sentence with its remedy."""
    answer: Json = {}
    with contextlib.suppress(ValueError, TypeError):
        parsed = json.loads(body)
        answer = parsed if isinstance(parsed, dict) else {}
    said = _one_line(
        answer.get("message") or (body.decode("utf-8", "replace") if isinstance(body, bytes) else body) or "no message"
    )[:2000]
    causes = (answer.get("details") or {}).get("causes") or []
    reason: Reason = _REASONS.get(status, "ServerError")
    if status == 409 and answer.get("reason") == "AlreadyExists":
        reason = "AlreadyExists"
    where = f"{method} {urlsplit(path).path}"
    if reason == "Unauthorized":
        msg = f"The Kubernetes API {host} refused the credentials (401). The token or client certificate is wrong or expired: renew it in the kubeconfig."
    elif reason == "Forbidden":
        msg = f"No permission: {said}. Grant it to this user, or use a kubeconfig that has it."
    elif reason == "ServerError":
        msg = f"The Kubernetes API failed on {where} ({status}): {said}."
    else:
        msg = f"The Kubernetes API refused {where} ({status}): {said}."
    return GpuOpsError(msg, reason=reason, status=status, causes=causes)


def namespaced(group_version: str, namespace: str | None, plural: str, name: str = "") -> str:
    """Return an API path, for example ``namespaced("apps/v1", "gpu-operator", "daemonsets")``; ``namespace=None`` is cluster scope."""
    root = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
    middle = f"/namespaces/{quote(namespace)}" if namespace else ""
    return f"{root}{middle}/{plural}" + (f"/{quote(name)}" if name else "")
