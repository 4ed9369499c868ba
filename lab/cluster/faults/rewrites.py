# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Clusters that change pods on their way in: a registry mirror, and a service mesh's sidecar."""

from __future__ import annotations

import functools

from lab.cluster.api import Json
from lab.cluster.faults import admission
from lab.cluster.faults.admission import api_of
from lab.cluster.lab import Lab

_PREFIX = "lab-rewrite-"
_SIDECAR = "istio-proxy"
_RULES = {"pods": admission.PODS, "controllers": admission.CONTROLLERS}


def mirror(lab: Lab, registry: str, app: str, *, controllers: bool = False) -> None:
    """Replace the registry in the images of an operand: of its pods, or of its controller as Kyverno's autogen does."""
    found = admission.controllers(lab, app)
    kind = "controllers" if controllers else "pods"
    expression = _mirrored("object.spec.template", "Object.spec.template", registry)
    expression = f"Object{{spec: Object.spec{{template: Object.spec.template{{spec: {expression}}}}}}}"
    if not controllers:
        expression = f"Object{{spec: {_mirrored('object', 'Object', registry)}}}"
    meta = admission.metadata(f"{_PREFIX}{kind}-{app}", f"images of {app} ({kind}) come from {registry}", app=app)
    admission.mutate(lab, meta, _RULES[kind], [_of_template(app) if controllers else admission.of_app(app)], expression)
    if controllers:
        _touch_until_mirrored(lab, found, registry)
    else:
        admission.replace_pods(lab, {"labelSelector": f"app={app}"}, lambda pod: _comes_from(pod["spec"], registry))


def sidecar(lab: Lab, app: str) -> None:
    """Add a container and an environment variable to an operand's pods."""
    admission.controllers(lab, app)
    added = 'Object.spec.containers{name: "istio-proxy", image: "docker.io/istio/proxyv2:1.28.0"}'
    env = 'Object.spec.containers.env{name: "HTTPS_PROXY", value: "http://proxy.example:3128"}'
    changed = f"object.spec.containers.map(c, Object.spec.containers{{name: c.name, env: [{env}]}})"
    expression = f"Object{{spec: Object.spec{{containers: {changed} + [{added}]}}}}"
    meta = admission.metadata(f"{_PREFIX}sidecar-{app}", f"pods of {app} get a sidecar", app=app)
    admission.mutate(lab, meta, admission.PODS, [admission.of_app(app)], expression)
    admission.replace_pods(lab, {"labelSelector": f"app={app}"}, _has_sidecar)


def active(lab: Lab) -> list[str]:
    """Return one line for each of these changes."""
    return admission.summaries(admission.mutations(lab, _PREFIX))


def clear(lab: Lab) -> None:
    """Remove these changes, and replace the pods that have one. A controller keeps its images until its next update."""
    for policy in admission.mutations(lab, _PREFIX):
        admission.remove(lab, policy)
        name, query = policy["metadata"]["name"], {"labelSelector": f"app={admission.note(policy, 'app')}"}
        if name.startswith(f"{_PREFIX}pods-"):
            registry = (admission.note(policy, "summary") or "").rpartition(" come from ")[2]
            admission.replace_pods(lab, query, functools.partial(_comes_from_elsewhere, registry))
        elif name.startswith(f"{_PREFIX}sidecar-"):
            admission.replace_pods(lab, query, lambda pod: not _has_sidecar(pod))


def _mirrored(template: str, kind: str, registry: str) -> str:
    """Return the CEL expression of a pod's spec whose images come from another registry."""
    parts = []
    for group, items in (
        ("containers", f"{template}.spec.containers"),
        ("initContainers", f"{template}.spec.?initContainers.orValue([])"),
    ):
        image = f"'{registry}/' + c.image.substring(c.image.indexOf('/') + 1)"
        # An image that was rewritten stays as it is.
        chosen = f"c.image.startsWith('{registry}/') ? c.image : {image}"
        parts.append(f"{group}: {items}.map(c, {kind}.spec.{group}{{name: c.name, image: {chosen}}})")
    return f"{kind}.spec{{{', '.join(parts)}}}"


def _of_template(app: str) -> Json:
    labels = "object.spec.template.metadata.?labels"
    return {"name": "app", "expression": f"{labels}[?'app'].orValue('') == '{app}'"}


def _touch_until_mirrored(lab: Lab, found: list[Json], registry: str) -> None:
    for controller in found:
        for _ in range(50):
            admission.touch(lab, controller)
            present = api_of(lab).get(controller["path"]) or controller
            if _comes_from(present["spec"]["template"]["spec"], registry):
                break


def _comes_from(spec: Json, registry: str) -> bool:
    return all(container["image"].startswith(f"{registry}/") for container in spec["containers"])


def _comes_from_elsewhere(registry: str, pod: Json) -> bool:
    return not _comes_from(pod["spec"], registry)


def _has_sidecar(pod: Json) -> bool:
    return any(container["name"] == _SIDECAR for container in pod["spec"]["containers"])
