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

import base64
import contextlib
import dataclasses
import email.utils
import gc
import json
import os
import re
import ssl
import time
import typing as t
from urllib.parse import quote, unquote, urlencode, urlsplit

from ansible.module_utils.basic import missing_required_lib
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError, Reason
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line, whole_number
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import get_api_client
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.exceptions import CoreException

try:
    import kubernetes
    import urllib3
    import websocket
    import yaml
    from kubernetes.config.kube_config import KubeConfigMerger
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

WATCH_S = 1
"""How long to listen for changes. The API server sends those that have happened already at once."""

CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 60

THROTTLED_S = 15.0
"""How long to retry when the API server answers 429: it is busy, or its cache of a new CRD is not filled yet."""

RESTARTS = 3
"""How often a paged list begins again after its pages have expired (410)."""

METADATA_ONLY = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
"""What to accept for a list without specs and statuses."""

MESSAGE_LENGTH = 2000
"""Longer messages from the API server are truncated."""

PAGE_OF_A_PROXY = 200
"""Longer texts of an answer that is no JSON, such as a load balancer's HTML page, are truncated."""

_MALFORMED: tuple[type[Exception], ...] = (ValueError, TypeError, AttributeError)
"""What the client raises for a kubeconfig that is none: wrong YAML, lists in place of mappings, bad base64."""
if HAS_KUBERNETES:
    _MALFORMED = (*_MALFORMED, yaml.YAMLError)

Rows = list[dict[str, t.Any]]
Objects = list[Json]
Changes = list[tuple[str, Json]]


@dataclasses.dataclass(frozen=True)
class Listed:
    """A collection that this user may perhaps not read. With a refusal, its objects are unknown, not absent."""

    items: list[Json]
    is_served: bool = True
    """Whether the API server knows the kind."""
    refusal: str = ""
    """The message with which the API server refused the list, or an empty string."""


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
        _assert_new_enough(str(kubernetes.__version__))
        self.check_mode = check_mode
        self._date: str | None = None
        auth = {name: options[name] for name in AUTH_ARG_SPEC if options.get(name) is not None}
        _assert_one_cluster(auth)
        try:
            self._api = get_api_client(**_with_proxy_login(auth)).client.client
        except (CoreException, kubernetes.config.ConfigException, *_MALFORMED) as e:
            raise GpuOpsError(
                f"The Kubernetes connection settings do not work: {_said(e)}. "
                "Check kubeconfig, context and the K8S_AUTH_* variables.",
                reason="BadConnectionSettings",
            ) from e
        except OSError as e:
            message = f"Cannot read the Kubernetes connection settings: {_said(e)}."
            raise GpuOpsError(message, reason="BadConnectionSettings") from e
        except (kubernetes.client.exceptions.ApiException, kubernetes.dynamic.exceptions.DynamicApiError) as e:
            raise _refused(e.status, e.body, "GET", "/version", "") from e
        except urllib3.exceptions.HTTPError as e:
            raise _unreachable(e, "") from e
        _keep_options(self._api.configuration, auth)

    @property
    def host(self) -> str:
        """The API server's URL."""
        return str(self._api.configuration.host)

    def kubeconfig(self, context: str) -> Json:
        """Return a kubeconfig with which another program reaches the same API server as the same user.

        Its only context has the given name. Files become content, and a token is one that is valid now.
        """
        config = self._api.configuration
        tls = {"certificate-authority-data": _content(config.ssl_ca_cert)} if config.verify_ssl else {}
        cluster = {
            "server": self.host,
            "insecure-skip-tls-verify": not config.verify_ssl,
            "tls-server-name": config.tls_server_name,
            "proxy-url": self._proxy_url(),
            **tls,
        }
        token = re.sub("(?i)^bearer ", "", self._token().get("authorization", ""))
        certificate = {
            "client-certificate-data": _content(config.cert_file),
            "client-key-data": _content(config.key_file),
        }
        user = {"token": token, **certificate, **self._impersonation()}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": context,
            "contexts": [{"name": context, "context": {"cluster": "gpuops", "user": "gpuops"}}],
            "clusters": [{"name": "gpuops", "cluster": _without_empty(cluster)}],
            "users": [{"name": "gpuops", "user": _without_empty(user)}],
        }

    def _impersonation(self) -> Json:
        """Return whom this connection acts as, in the words of a kubeconfig."""
        # A name that repeats is a string of kubernetes.core's that equals no other string.
        headers = [(str(name).lower(), value) for name, value in self._api.default_headers.items()]
        groups = [value for name, value in headers if name == "impersonate-group"]
        return {"as": dict(headers).get("impersonate-user"), "as-groups": groups}

    def _proxy_url(self) -> str | None:
        """Return the URL of the proxy that this connection uses, with its login."""
        manager = self._api.rest_client.pool_manager
        if getattr(manager, "proxy", None) is None:
            return None
        url = urlsplit(manager.proxy.url)
        login = (manager.proxy_headers or {}).get("proxy-authorization", "").removeprefix("Basic ")
        user, dummy, password = base64.b64decode(login).decode().partition(":")
        place = url.netloc.rpartition("@")[2]
        netloc = f"{quote(user, '')}:{quote(password, '')}@{place}" if login else place
        return str(url._replace(netloc=netloc).geturl())

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

        After a 429, the request is sent again after the delay that the API server asks for. An eviction is not sent
        again, because its 429 says that a PodDisruptionBudget forbids it. Raises `GpuOpsError` with reason Unreachable,
        Unauthorized, Forbidden, NotFound, AlreadyExists, Conflict, Invalid, TooManyRequests, Expired or ServerError;
        ``status`` is the HTTP code and ``causes`` the API's own list of causes.
        """
        # The API server compresses answers over 128 kB. For 1,000 nodes, decrypting 8 MB takes longer than unpacking.
        headers = {"Accept": accept, "Accept-Encoding": "gzip"}
        if body is not None:
            headers["Content-Type"] = content_type
        data = json.dumps(body) if isinstance(body, dict) else body
        return bytes(self._reply(method, path, query, headers, data).data)

    def _reply(
        self,
        method: str,
        path: str,
        query: t.Mapping[str, t.Any] | None,
        headers: dict[str, str],
        data: str | None = None,
        whole: bool = True,
    ) -> t.Any:
        """Send one request and return the 2xx reply, with its ``whole`` body or with one that is still to be read."""
        headers = {**self._api.default_headers, **self._token(), **headers}
        url = f"{self.host}{path}" + (f"?{urlencode(query)}" if query else "")
        deadline = time.monotonic() + THROTTLED_S
        while True:
            reply = self._send(method, url, headers, data, whole)
            if 200 <= reply.status < 300:
                return reply
            pause_s = _pause_s(reply.headers.get("Retry-After"), self.now())
            is_throttled = reply.status == 429 and not path.endswith("/eviction")
            if not is_throttled or time.monotonic() + pause_s > deadline:
                raise _refused(reply.status, reply.data, method, path, self.host)
            time.sleep(pause_s)

    def _send(self, method: str, url: str, headers: dict[str, str], data: str | None, whole: bool) -> t.Any:
        try:
            reply = self._api.rest_client.pool_manager.request(
                method,
                url,
                body=data,
                headers=headers,
                timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S),
                retries=False,
                preload_content=whole,
            )
        except urllib3.exceptions.HTTPError as e:
            raise _unreachable(e, self.host) from e
        self._date = reply.headers.get("Date")
        return reply

    def ask(self, method: str, path: str, *arguments: t.Any, **keywords: t.Any) -> Json:
        """Send one `request` and return the JSON object of the answer."""
        return _object(self.request(method, path, *arguments, **keywords), method, path)

    def get(self, path: str, query: t.Mapping[str, t.Any] | None = None) -> Json | None:
        """Return the object at ``path``, or None when it (or its kind) does not exist."""
        try:
            return self.ask("GET", path, query)
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

    def large_list(self, path: str, keep: t.Callable[[Json], Json]) -> tuple[Objects, str]:
        """Return what ``keep`` keeps of every object of a collection, and the collection's version for `changes`.

        The answer is parsed while it arrives: 5,000 nodes are 105 MB, which would take 600 MB of memory as a whole. It
        is not compressed, since that takes the API server longer than to send it.
        """
        reader = objects.ListReader()
        reply = self._reply("GET", path, {"resourceVersion": "0"}, {"Accept": "application/json"}, whole=False)
        try:
            kept = [keep(item) for item in reader.objects(reply.stream(objects.PIECE, decode_content=True))]
        except urllib3.exceptions.HTTPError as e:
            raise _unreachable(e, self.host) from e
        except ValueError as e:
            message = f"The Kubernetes API failed on GET {path}: its answer is no list, or broke off."
            raise GpuOpsError(message, reason="ServerError") from e
        finally:
            reply.close()
        return kept, str((reader.envelope.get("metadata") or {}).get("resourceVersion") or "")

    def changes(self, path: str, version: str) -> tuple[Changes, str]:
        """Return the changes of a collection since a version, as pairs of type and object, and the version after them.

        Types are ADDED, MODIFIED and DELETED. Takes `WATCH_S`. Raises reason Expired if the API server no longer knows
        the version.
        """
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": WATCH_S, "allowWatchBookmarks": "true"}
        found: Changes = []
        for line in self.request("GET", path, query).splitlines():
            event = _object(line, "GET", path)
            item = event.get("object") or {}
            if event.get("type") == "ERROR":
                raise _refused(int(item.get("code") or 500), json.dumps(item), "GET", path, self.host)
            version = str(item["metadata"]["resourceVersion"])
            if event["type"] != "BOOKMARK":
                found.append((event["type"], item))
        return found, version

    def list_readable(self, path: str, **selectors: str) -> Listed:
        """List like `list`, and return the refusal if this user may not read the collection.

        The API server also answers 403 for a kind that does not exist, if the user may not list it.
        """
        try:
            items = self.list(path, **selectors)
        except GpuOpsError as e:
            if e.reason != "Forbidden":
                raise
            return Listed([], refusal=e.msg)
        return Listed(items or [], is_served=items is not None)

    def pages(self, path: str, **selectors: str) -> t.Iterator[Json]:
        """Yield a large collection's objects, `PAGE` at a time, so that memory stays bounded.

        The API server keeps the pages of a list for some minutes only. After that, the list begins again, without the
        objects that were yielded already.
        """
        seen = set[str]()
        for restart in range(RESTARTS + 1):
            try:
                for item in self._all_pages(path, selectors):
                    if _identity(item) not in seen:
                        seen.add(_identity(item))
                        yield item
                return
            except GpuOpsError as e:
                if e.reason != "Expired" or restart == RESTARTS:
                    raise

    def _all_pages(self, path: str, selectors: t.Mapping[str, str]) -> t.Iterator[Json]:
        token = ""
        while True:
            position = {"continue": token} if token else {}
            page = self.ask("GET", path, {"limit": PAGE, **position, **selectors})
            yield from page.get("items") or []
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return

    def table(self, path: str, **selectors: str) -> Rows:
        """Return a collection as the API server's own table: one dict for each row, with column names in lower case.

        For pods: name, ready ("1/1"), status ("Init:0/1"), restarts, age, ip, node. It is about 80 times smaller than
        the objects.
        """
        query = {"resourceVersion": "0", "includeObject": "None", **selectors}
        accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
        table = self.ask("GET", path, query, accept=accept)
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
        return self.ask("PATCH", path, query, body, content_type="application/apply-patch+yaml")

    def create(self, path: str, body: Json) -> Json:
        """Create ``body`` in the collection at ``path``; return the object."""
        return self.ask("POST", path, self._strict(), body)

    def merge(self, path: str, body: Json) -> Json:
        """Send ``body`` as a JSON merge patch (None removes a key); return the object."""
        return self.ask("PATCH", path, self._strict(), body, content_type="application/merge-patch+json")

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
        headers = {**self._api.default_headers, **self._token()}
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


def _assert_new_enough(version: str) -> None:
    major = whole_number(version.partition(".")[0])
    if major is not None and major < int(MINIMUM_KUBERNETES.partition(".")[0]):
        raise GpuOpsError(
            f"The Python package kubernetes is {version} here, and this collection needs {MINIMUM_KUBERNETES} or "
            "newer: pip install --upgrade kubernetes.",
            reason="LibraryMissing",
        )


def _content(path: str | None) -> str | None:
    """Return a file's content in base64, or None without a path."""
    if not path:
        return None
    with open(path, "rb") as file:
        return base64.b64encode(file.read()).decode()


def _without_empty(settings: Json) -> Json:
    return {name: value for name, value in settings.items() if value}


def _identity(item: Json) -> str:
    meta = item["metadata"]
    return str(meta.get("uid") or f"{meta.get('namespace')}/{meta['name']}")


def _pause_s(retry_after: str | None, now: float) -> float:
    """Return the delay that a Retry-After header asks for, in seconds or as a date; without a usable one, a second."""
    if re.fullmatch(r"\d+(\.\d+)?", retry_after or ""):
        return float(retry_after or 1)
    try:
        return max(email.utils.parsedate_to_datetime(str(retry_after)).timestamp() - now, 0.0)
    except (ValueError, TypeError, OverflowError):
        return 1.0


def _object(data: bytes, method: str, path: str) -> Json:
    """Return the JSON object of an answer. A proxy may answer in the API server's place, with a page for people."""
    answer = _parsed(data.decode("utf-8", "replace"))
    if answer is None:
        raise GpuOpsError(
            f"Not the Kubernetes API but something before it answered {method} {urlsplit(path).path}: "
            f"{_words(data.decode('utf-8', 'replace'))}. Check the server's address, the proxy and the load balancer.",
            reason="ServerError",
        )
    return answer


def _unreachable(error: Exception, host: str) -> GpuOpsError:
    where = f" at {host}" if host else ""
    return GpuOpsError(
        f"Cannot reach the Kubernetes API{where}: {_said(getattr(error, 'reason', None) or error)}. Check that the API "
        "server runs and that the kubeconfig's server address and certificate authority are right.",
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
    answer = _parsed(text) or {}
    reason = _REASONS.get(status, "ServerError")
    if reason == "Conflict" and answer.get("reason") == "AlreadyExists":
        reason = "AlreadyExists"
    said = one_line(answer.get("message") or _words(text))[:MESSAGE_LENGTH]
    request = f"{method} {urlsplit(path).path}"
    messages: dict[Reason, str] = {
        "Unauthorized": f"The Kubernetes API {host} refused the credentials (401). "
        "The token or client certificate is wrong or expired: renew it in the kubeconfig.",
        "Forbidden": f"No permission: {said}. Grant it to this user, or use a kubeconfig that has it.",
        "ServerError": f"The Kubernetes API failed on {request} ({status}): {said}.",
    }
    message = messages.get(reason, f"The Kubernetes API refused {request} ({status}): {said}.")
    return GpuOpsError(message, reason=reason, status=status, causes=(answer.get("details") or {}).get("causes") or [])


def _parsed(text: str) -> Json | None:
    """Return an answer's JSON object, or None: a proxy may answer with an HTML page."""
    try:
        answer = json.loads(text)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _words(page: str) -> str:
    """Return the words of an answer that is no JSON object: the title of an HTML page, or its text."""
    title = re.search(r"(?is)<title[^>]*>(.*?)</title>", page)
    text = title[1] if title else re.sub(r"(?s)<[^>]*>", " ", page)
    return one_line(text)[:PAGE_OF_A_PROXY] or "no message"


def _said(error: object) -> str:
    """Return an error as one line, without the login of a URL."""
    return re.sub(r"//[^/@\s]+@", "//", one_line(error))


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
    """Refuse a pod whose service account and kubeconfig name different clusters: nothing says which one is meant."""
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
    try:
        merged = KubeConfigMerger(os.environ.get("KUBECONFIG") or "~/.kube/config").config
        context = merged["contexts"].get_with_name(merged["current-context"])
        server = merged["clusters"].get_with_name(context["context"]["cluster"])["cluster"]["server"]
    except (kubernetes.config.ConfigException, OSError, *_MALFORMED):
        return None
    return str(server).rstrip("/")


def _with_proxy_login(auth: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return the options with the login of the proxy's URL as a header: the client ignores it in the URL."""
    url = urlsplit(_setting(auth, "proxy") or "")
    if not url.username or auth.get("proxy_headers"):
        return auth
    login = f"{unquote(url.username)}:{unquote(url.password or '')}"
    return {**auth, "proxy_headers": {"proxy_basic_auth": login}}
