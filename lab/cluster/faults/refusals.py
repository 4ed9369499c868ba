# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Clusters that refuse the pods of an operand, so that its controller only gets events ``FailedCreate``.

PodSecurity, quotas and webhooks are the API server's own, so their words are real. Behind the webhook stands `webhook`.
"""

from __future__ import annotations

import base64
import typing as t

from lab import ports
from lab.cluster.api import Api, Json
from lab.cluster.controlplane import components as controlplane
from lab.cluster.faults import admission
from lab.cluster.faults.admission import api_of, note
from lab.cluster.lab import Lab
from lab.cluster.nodes.fleet import NOTE

Refuse = t.Callable[[Lab, str, str], None]
_NAME = "lab-refusal"
_WEBHOOKS = f"{admission.ROOT}/validatingwebhookconfigurations"
_COMPONENT = "webhook"
_ENFORCE = "pod-security.kubernetes.io/enforce"
_BEFORE = f"{NOTE}pod-security"


def refuse(lab: Lab, app: str, by: str = "pod-security") -> None:
    """Delete the pods with the label ``app``, and refuse new ones by one of `REFUSALS`.

    PodSecurity and the quota refuse every new pod of the namespace, as they do in a real cluster.
    """
    namespaces = {controller["metadata"]["namespace"] for controller in admission.controllers(lab, app)}
    for namespace in namespaces:
        REFUSALS[by](lab, namespace, app)
        admission.until_probe(lab, namespace, app, lambda answer: isinstance(answer, str) and WORDS[by] in answer)
    admission.replace_pods(lab, {"labelSelector": f"app={app}"}, lambda pod: False)


def active(lab: Lab) -> list[str]:
    """Return one line for each refusal."""
    items = [*admission.own(lab, _WEBHOOKS), *admission.own(lab, "/api/v1/resourcequotas")]
    marked = [item for item in api_of(lab).list("/api/v1/namespaces") if note(item, "pod-security") is not None]
    named = [f"pods in namespace {item['metadata']['name']} are refused by pod-security" for item in marked]
    return admission.summaries(items) + named


def clear(lab: Lab) -> None:
    """Admit pods again, and let the controllers try at once."""
    refusing = bool(active(lab))
    api = api_of(lab)
    for item in admission.own(lab, _WEBHOOKS):
        api.delete(f"{_WEBHOOKS}/{item['metadata']['name']}")
    for item in admission.own(lab, "/api/v1/resourcequotas"):
        api.delete(f"/api/v1/namespaces/{item['metadata']['namespace']}/resourcequotas/{item['metadata']['name']}")
    for item in api.list("/api/v1/namespaces"):
        if note(item, "pod-security") is not None:
            before = note(item, "pod-security") or None
            body = {"labels": {_ENFORCE: before}, "annotations": {_BEFORE: None}}
            api.merge(f"/api/v1/namespaces/{item['metadata']['name']}", {"metadata": body})
    lab.remove_component(_COMPONENT)
    if refusing:
        _retry(lab, api)


def _retry(lab: Lab, api: Api) -> None:
    """Touch the controllers that lack pods: they have backed off, for up to 16 minutes."""
    for kind, count in (("daemonsets", "desiredNumberScheduled"), ("deployments", "replicas")):
        for item in api.list(f"/apis/apps/v1/{kind}"):
            meta, status = item["metadata"], item.get("status") or {}
            if status.get("numberAvailable", status.get("availableReplicas", 0)) < status.get(count, 1):
                admission.until_probe(lab, meta["namespace"], _app(item), lambda answer: not isinstance(answer, str))
                path = f"/apis/apps/v1/namespaces/{meta['namespace']}/{kind}/{meta['name']}"
                admission.touch(lab, {"path": path})


def _app(controller: Json) -> str:
    return str((controller["spec"]["template"]["metadata"].get("labels") or {}).get("app", ""))


def _pod_security(lab: Lab, namespace: str, app: str) -> None:
    api, path = api_of(lab), f"/api/v1/namespaces/{namespace}"
    before = ((api.get(path) or {"metadata": {}})["metadata"].get("labels") or {}).get(_ENFORCE, "")
    api.merge(path, {"metadata": {"labels": {_ENFORCE: "restricted"}, "annotations": {_BEFORE: before}}})


def _quota(lab: Lab, namespace: str, app: str) -> None:
    meta = admission.metadata(_NAME, f"pods in namespace {namespace} are refused by quota")
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": {"pods": "0"}}}
    api_of(lab).apply(f"/api/v1/namespaces/{namespace}/resourcequotas/{_NAME}", body, admission.MANAGER)


def _kyverno(lab: Lab, namespace: str, app: str) -> None:
    """Refuse by a webhook that answers as Kyverno does."""
    (port,) = ports.free(1)
    site = lab.site
    server = site.authority.server(_COMPONENT)
    arguments = ("--port", port, "--certificate", server.cert, "--key", server.key)
    lab.add_component(controlplane.python_component(site, _COMPONENT, "lab.cluster.faults.webhook", *arguments))
    bundle = base64.b64encode(site.authority.ca.cert.read_bytes()).decode()
    _webhook(lab, app, "kyverno", {"url": f"https://127.0.0.1:{port}/validate/fail", "caBundle": bundle})


def _webhook_down(lab: Lab, namespace: str, app: str) -> None:
    """Call a webhook whose service is gone."""
    service = {"namespace": "kyverno", "name": "kyverno-svc", "path": "/validate/fail", "port": 443}
    _webhook(lab, app, "webhook-down", {"service": service})


def _webhook(lab: Lab, app: str, by: str, client: Json) -> None:
    webhook = {
        "name": "validate.kyverno.svc-fail",
        "clientConfig": client,
        "rules": [admission.PODS],
        "matchConditions": [admission.of_app(app)],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    meta = admission.metadata(f"{_NAME}-{app}", f"pods of {app} are refused by {by}")
    kind = "ValidatingWebhookConfiguration"
    body = {"apiVersion": admission.API_VERSION, "kind": kind, "metadata": meta, "webhooks": [webhook]}
    api_of(lab).apply(f"{_WEBHOOKS}/{meta['name']}", body, admission.MANAGER)


WORDS = {
    "pod-security": "violates PodSecurity",
    "quota": "exceeded quota",
    "kyverno": "denied the request",
    "webhook-down": "failed calling webhook",
}
"""What the API server's refusal says once it is in force."""
REFUSALS: dict[str, Refuse] = {
    "pod-security": _pod_security,
    "quota": _quota,
    "kyverno": _kyverno,
    "webhook-down": _webhook_down,
}
