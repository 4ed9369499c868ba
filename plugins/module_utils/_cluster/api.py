# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Requests to the Kubernetes API. No other file imports the client libraries.

Answers are plain dicts and lists, as the API server sent them. There are no typed client objects and no discovery of
each kind: for 8,000 pods, typed objects take 13 s longer than plain JSON. Every failure is a `GpuOpsError` with one
sentence.
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

from ansible.module_utils.basic import missing_required_lib
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError, Reason
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line
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
    # The client's classes live as long as the process. The garbage collector need not walk them while nodes are parsed.
    gc.freeze()

MINIMUM_KUBERNETES = "29.0.0"
FIELD_MANAGER = "gpuops.nvidia"
"""The one field manager of every write, so that server-side apply knows which fields are ours."""

PAGE = 500
"""Objects per page of a list that can be large. A page of pods is about 5 MB."""

CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 60

THROTTLED_S = 15.0
"""How long to retry when the API server answers 429: it is busy, or its cache of a new CRD is not filled yet."""

MESSAGE_LENGTH = 2000
"""Longer messages from the API server are truncated."""

Rows = list[dict[str, t.Any]]


class Stream:
    """An open websocket. Failures raise `OSError`; see `Cluster.stream`."""

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


class Cluster:
    """One connection to one Kubernetes API server.

    ``options`` is ``module.params`` or a plugin's ``get_options()``: the connection options of
    ``kubernetes.core.k8s_auth_options``. ``check_mode`` turns every write into a server-side dry run.
    """

    def __init__(self, options: t.Mapping[str, t.Any], check_mode: bool = False) -> None:
        if not HAS_KUBERNETES:
            raise GpuOpsError(missing_required_lib(f"kubernetes >= {MINIMUM_KUBERNETES}"), reason="LibraryMissing")
        self.check_mode = check_mode
        self._date: str | None = None
        auth = {name: options[name] for name in AUTH_ARG_SPEC if options.get(name) is not None}
        try:
            self._api = get_api_client(**auth).client.client
        except (CoreException, kubernetes.config.ConfigException) as e:
            raise GpuOpsError(
                f"The Kubernetes connection settings do not work: {one_line(e)}. "
                "Check kubeconfig, context and the K8S_AUTH_* variables.",
                reason="BadConnectionSettings",
            ) from e
        except OSError as e:
            message = f"Cannot read the Kubernetes connection settings: {one_line(e)}."
            raise GpuOpsError(message, reason="BadConnectionSettings") from e
        except (kubernetes.client.exceptions.ApiException, kubernetes.dynamic.exceptions.DynamicApiError) as e:
            raise _refused(e.status, e.body, "GET", "/version", "") from e
        except urllib3.exceptions.HTTPError as e:
            raise _unreachable(e, "") from e

    @property
    def host(self) -> str:
        """The API server's URL."""
        return str(self._api.configuration.host)

    def now(self) -> float:
        """Return the API server's time at its last answer, in seconds since the epoch. Objects use this clock."""
        return email.utils.parsedate_to_datetime(self._date).timestamp() if self._date else time.time()

    def request(
        self,
        method: str,
        path: str,
        query: t.Mapping[str, t.Any] | None = None,
        body: Json | str | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> bytes:
        """Send one request and return the body of a 2xx answer.

        After a 429, the request is sent again after the delay that the API server asks for. A POST is not sent again,
        because its 429 can be final (a PodDisruptionBudget forbids an eviction). Raises `GpuOpsError` with reason
        Unreachable, Unauthorized, Forbidden, NotFound, AlreadyExists, Conflict, Invalid, TooManyRequests, Expired or
        ServerError; ``status`` is the HTTP code and ``causes`` the API's own list of causes.
        """
        # The API server compresses answers over 128 kB. For 1,000 nodes, decrypting 8 MB takes longer than unpacking.
        headers = {**self._api.default_headers, **self._token(), "Accept": accept, "Accept-Encoding": "gzip"}
        if body is not None:
            headers["Content-Type"] = content_type
        url = f"{self.host}{path}" + (f"?{urlencode(query)}" if query else "")
        data = json.dumps(body) if isinstance(body, dict) else body
        deadline = time.monotonic() + THROTTLED_S
        while True:
            reply = self._send(method, url, headers, data)
            if 200 <= reply.status < 300:
                return bytes(reply.data)
            pause_s = float(reply.headers.get("Retry-After") or 1)
            is_throttled = reply.status == 429 and method != "POST"
            if not is_throttled or time.monotonic() + pause_s > deadline:
                raise _refused(reply.status, reply.data, method, path, self.host)
            time.sleep(pause_s)

    def _send(self, method: str, url: str, headers: dict[str, str], data: str | None) -> t.Any:
        try:
            reply = self._api.rest_client.pool_manager.request(
                method,
                url,
                body=data,
                headers=headers,
                timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S),
                retries=False,
            )
        except urllib3.exceptions.HTTPError as e:
            raise _unreachable(e, self.host) from e
        self._date = reply.headers.get("Date")
        return reply

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

        ``selectors`` are the API's query parameters (``labelSelector``, ``fieldSelector``). The answer comes from the
        API server's watch cache in one piece (``resourceVersion=0``), which is the cheapest read. Use `pages` if the
        answer could be large.
        """
        answer = self.get(path, {"resourceVersion": "0", **selectors})
        return None if answer is None else t.cast("list[Json]", answer.get("items") or [])

    def pages(self, path: str, **selectors: str) -> t.Iterator[Json]:
        """Yield a large collection's objects, `PAGE` at a time, so that memory stays bounded."""
        token = ""
        while True:
            position = {"continue": token} if token else {}
            page = json.loads(self.request("GET", path, {"limit": PAGE, **position, **selectors}))
            yield from page.get("items") or []
            token = page.get("metadata", {}).get("continue") or ""
            if not token:
                return

    def table(self, path: str, **selectors: str) -> Rows:
        """Return a collection as the API server's own table: one dict for each row, with column names in lower case.

        For pods: name, ready ("1/1"), status ("Init:0/1"), restarts, age, ip, node. It is about 80 times smaller than
        the objects.
        """
        query = {"resourceVersion": "0", "includeObject": "None", **selectors}
        accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
        table = json.loads(self.request("GET", path, query, accept=accept))
        names = [column["name"].lower() for column in table.get("columnDefinitions") or []]
        return [dict(zip(names, row["cells"])) for row in table.get("rows") or []]

    def text(self, path: str, query: t.Mapping[str, t.Any] | None = None) -> str:
        """Return a plain-text answer, such as a pod's log."""
        return self.request("GET", path, query, accept="text/plain, */*").decode("utf-8", "replace")

    def apply(self, path: str, body: Json | str, force: bool = False, dry_run: bool | None = None) -> Json:
        """Server-side apply ``body`` (an object, or its YAML text) at ``path``; return the object.

        ``dry_run`` defaults to check mode. A conflict raises reason Conflict whose ``causes`` name managers and fields.
        """
        query = {**self._strict(dry_run), "force": "true" if force else "false"}
        answer = self.request("PATCH", path, query, body, content_type="application/apply-patch+yaml")
        return t.cast(Json, json.loads(answer))

    def create(self, path: str, body: Json) -> Json:
        """Create ``body`` in the collection at ``path``; return the object."""
        return t.cast(Json, json.loads(self.request("POST", path, self._strict(), body)))

    def merge(self, path: str, body: Json) -> Json:
        """Send ``body`` as a JSON merge patch (None removes a key); return the object."""
        answer = self.request("PATCH", path, self._strict(), body, content_type="application/merge-patch+json")
        return t.cast(Json, json.loads(answer))

    def delete(self, path: str, propagation: str = "Background", grace_period_s: int | None = None) -> bool:
        """Delete the object at ``path``; return False if there was none."""
        options = {"propagationPolicy": propagation, **self._delete_options(grace_period_s)}
        try:
            self.request("DELETE", path, body=options)
        except GpuOpsError as e:
            if e.reason == "NotFound":
                return False
            raise
        return True

    def evict(self, namespace: str, pod: str, uid: str, grace_period_s: int | None = None) -> None:
        """Evict the pod with this ``uid``; a newer pod with the same name raises reason Conflict.

        A PodDisruptionBudget that forbids the eviction raises reason TooManyRequests.
        """
        options = {"preconditions": {"uid": uid}, **self._delete_options(grace_period_s)}
        metadata = {"name": pod, "namespace": namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options}
        self.request("POST", namespaced("v1", namespace, "pods", pod) + "/eviction", body=body)

    @contextlib.contextmanager
    def stream(self, path: str, protocol: str, timeout_s: float) -> t.Iterator[Stream]:
        """Open a websocket at ``path`` for the duration of a ``with`` block.

        A refusal by the API server raises a `GpuOpsError`, as in `request`. A connection that breaks or times out
        raises an `OSError`.
        """
        try:
            with contextlib.closing(self._websocket(path, protocol, timeout_s)) as connection:
                yield Stream(connection)
        except websocket.WebSocketBadStatusException as e:
            raise _refused(e.status_code, e.resp_body, "GET", path, self.host) from e
        except websocket.WebSocketException as e:
            raise ConnectionError(str(e)) from e

    def _token(self) -> dict[str, str]:
        """Return the header with the connection's bearer token, if it has one. The client renews an expired token here.

        The token has two names in the configuration, and each version of the client looks for it in its own way.
        """
        configuration = self._api.configuration
        tokens = (configuration.get_api_key_with_prefix(name) for name in ("authorization", "BearerToken"))
        token = next(filter(None, tokens), None)
        return {"authorization": str(token)} if token else {}

    def _websocket(self, path: str, protocol: str, timeout_s: float) -> t.Any:
        """Open a websocket with this connection's credentials. The client library's own function has no time-out."""
        config = self._api.configuration
        headers = self._token()
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

    def _strict(self, dry_run: bool | None = None) -> dict[str, str]:
        """Return the query of a write: strict field validation, and a dry run if asked for or in check mode."""
        is_dry = self.check_mode if dry_run is None else dry_run
        return {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict", **({"dryRun": "All"} if is_dry else {})}

    def _delete_options(self, grace_period_s: int | None) -> Json:
        """Return the options of a deletion for its body. The API server ignores the query if there is a body."""
        grace = {} if grace_period_s is None else {"gracePeriodSeconds": grace_period_s}
        return {**grace, **({"dryRun": ["All"]} if self.check_mode else {})}


# Paths of requests, and errors for failures


def namespaced(group_version: str, namespace: str | None, plural: str, name: str = "") -> str:
    """Return an API path, for example ``namespaced("apps/v1", "gpu-operator", "daemonsets")``.

    Without a namespace, the path is for the whole cluster.
    """
    root = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
    middle = f"/namespaces/{quote(namespace)}" if namespace else ""
    return f"{root}{middle}/{plural}" + (f"/{quote(name)}" if name else "")


def _unreachable(error: Exception, host: str) -> GpuOpsError:
    where = f" at {host}" if host else ""
    cause = one_line(getattr(error, "reason", None) or error)
    return GpuOpsError(
        f"Cannot reach the Kubernetes API{where}: {cause}. Check that the API server runs and that the kubeconfig's "
        "server address and certificate authority are right.",
        reason="Unreachable",
    )


_REASONS: dict[int, Reason] = {
    400: "Invalid",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
}


def _refused(status: int, body: bytes | str | None, method: str, path: str, host: str) -> GpuOpsError:
    """Turn an answer other than 2xx into one sentence with its remedy."""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body or ""
    answer = _parsed(text)
    reason = _REASONS.get(status, "ServerError")
    if reason == "Conflict" and answer.get("reason") == "AlreadyExists":
        reason = "AlreadyExists"
    said = one_line(answer.get("message") or text or "no message")[:MESSAGE_LENGTH]
    request = f"{method} {urlsplit(path).path}"
    messages: dict[Reason, str] = {
        "Unauthorized": f"The Kubernetes API {host} refused the credentials (401). "
        "The token or client certificate is wrong or expired: renew it in the kubeconfig.",
        "Forbidden": f"No permission: {said}. Grant it to this user, or use a kubeconfig that has it.",
        "ServerError": f"The Kubernetes API failed on {request} ({status}): {said}.",
    }
    message = messages.get(reason, f"The Kubernetes API refused {request} ({status}): {said}.")
    return GpuOpsError(message, reason=reason, status=status, causes=(answer.get("details") or {}).get("causes") or [])


def _parsed(text: str) -> Json:
    """Return an answer's JSON object, or an empty dict: a proxy may answer with an HTML page."""
    try:
        answer = json.loads(text)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
