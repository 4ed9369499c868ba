# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Failures of requests to the Kubernetes API, each as one sentence with a reason."""

from __future__ import annotations

import json
import re
from urllib.parse import urlsplit

from ansible.module_utils.basic import missing_required_lib
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError, Reason
from ansible_collections.gpuops.nvidia.plugins.module_utils._secrets import MASK
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

MINIMUM_KUBERNETES = "29.0.0"

MESSAGE_LENGTH = 2000
"""Longer messages from the API server are truncated."""

PAGE_OF_A_PROXY = 200
"""Longer texts of an answer that is no JSON, such as a load balancer's HTML page, are truncated."""


def missing() -> GpuOpsError:
    """Return the error of a Python that lacks the Kubernetes client."""
    return GpuOpsError(missing_required_lib(f"kubernetes >= {MINIMUM_KUBERNETES}"), reason="LibraryMissing")


def masked(method: str, path: str) -> GpuOpsError:
    """Return the error of a write with values of a result, in which secrets are hidden."""
    return GpuOpsError(
        f"{method} {urlsplit(path).path} would write {MASK}, which results have in the place of secrets. Give the "
        "values themselves.",
        reason="Invalid",
    )


def unreachable(error: Exception, host: str) -> GpuOpsError:
    """Turn a request without an answer into one sentence with its remedy."""
    where = f" at {host}" if host else ""
    if "407" in str(error):
        return asks_for_login(host)
    return GpuOpsError(
        f"Cannot reach the Kubernetes API{where}: {said(getattr(error, 'reason', None) or error)}. Check that the API "
        "server runs and that the kubeconfig's server address and certificate authority are right.",
        reason="Unreachable",
    )


def asks_for_login(host: str) -> GpuOpsError:
    """Return the error of a proxy that asks for a login, or for another one."""
    return GpuOpsError(
        f"The proxy before the Kubernetes API{f' at {host}' if host else ''} asks for a login (407). Give it in the "
        "proxy's URL, http://user:password@proxy:3128, in the kubeconfig's proxy-url, in K8S_AUTH_PROXY or in the "
        "option proxy, with the special characters of the password percent-encoded.",
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


def refused(status: int, body: bytes | str | None, method: str, path: str, host: str) -> GpuOpsError:
    """Turn an answer other than 2xx into one sentence with its remedy."""
    if status == 407:
        return asks_for_login(host)
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body or ""
    answer = parsed(text) or {}
    reason = _REASONS.get(status, "ServerError")
    if reason == "Conflict" and answer.get("reason") == "AlreadyExists":
        reason = "AlreadyExists"
    said = one_line(answer.get("message") or words(text))[:MESSAGE_LENGTH]
    request = f"{method} {urlsplit(path).path}"
    messages: dict[Reason, str] = {
        "Unauthorized": f"The Kubernetes API {host} refused the credentials (401). "
        "The token or client certificate is wrong or expired: renew it in the kubeconfig.",
        "Forbidden": f"No permission: {said}. Grant it to this user, or use a kubeconfig that has it.",
        "ServerError": f"The Kubernetes API failed on {request} ({status}): {said}.",
    }
    message = messages.get(reason, f"The Kubernetes API refused {request} ({status}): {said}.")
    return GpuOpsError(message, reason=reason, status=status, causes=(answer.get("details") or {}).get("causes") or [])


def parsed(text: str) -> Json | None:
    """Return an answer's JSON object, or None: a proxy may answer with an HTML page."""
    try:
        answer = json.loads(text)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def words(page: str) -> str:
    """Return the words of an answer that is no JSON object: the title of an HTML page, or its text."""
    title = re.search(r"(?is)<title[^>]*>(.*?)</title>", page)
    text = title[1] if title else re.sub(r"(?s)<[^>]*>", " ", page)
    return one_line(text)[:PAGE_OF_A_PROXY] or "no message"


def said(error: object) -> str:
    """Return an error as one line, without the login of a URL."""
    return re.sub(r"//[^/@\s]+@", "//", one_line(error))
