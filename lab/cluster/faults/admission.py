# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Admission policies of the lab, which change new pods and pod controllers. They work with any operator."""

from __future__ import annotations

import time
import typing as t

from lab.cluster.api import Api, ApiError, Json
from lab.cluster.lab import Lab
from lab.cluster.nodes.fleet import NOTE
from lab.errors import LabError

MANAGER = "lab-faults"
MANAGED = "app.kubernetes.io/managed-by"
API_VERSION = "admissionregistration.k8s.io/v1"
ROOT = f"/apis/{API_VERSION}"
_POLICIES = f"{ROOT}/mutatingadmissionpolicies"
_BINDINGS = f"{ROOT}/mutatingadmissionpolicybindings"
PROPAGATION = 2.0
"""Seconds until the API server applies a new policy, or no longer applies a deleted one, to every pod."""
PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
CONTROLLERS = {
    "apiGroups": ["apps"],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["daemonsets", "deployments"],
}


def api_of(lab: Lab) -> Api:
    """Return a client of the lab's API server, as administrator."""
    return Api(str(lab.kubeconfig))


def note(item: Json, name: str) -> str | None:
    """Return one of the lab's annotations of an object."""
    return t.cast("str | None", (item["metadata"].get("annotations") or {}).get(NOTE + name))


def metadata(name: str, summary: str, **notes: str) -> Json:
    """Return the metadata of an object of a fault. `active` prints the summary."""
    annotations = {f"{NOTE}{key}": value for key, value in {"summary": summary, **notes}.items()}
    return {"name": name, "labels": {MANAGED: MANAGER}, "annotations": annotations}


def of_app(app: str) -> Json:
    """Return the CEL condition that chooses the pods with a label ``app``."""
    labels = "object.metadata.?labels"
    return {"name": "app", "expression": f"{labels}[?'app'].orValue('') == '{app}'"}


def on_node(node: str) -> Json:
    """Return the CEL condition that chooses the pods of DaemonSets on a node.

    The DaemonSet controller binds each new pod to a node by an affinity to the node's name.
    """
    affinity = "object.spec.?affinity.?nodeAffinity.?requiredDuringSchedulingIgnoredDuringExecution"
    names_node = f"exists(f, '{node}' in f.values)"
    expression = f"{affinity}.?nodeSelectorTerms.orValue([]).exists(t, t.?matchFields.orValue([]).{names_node})"
    return {"name": "node", "expression": expression}


def bound_to(node: str) -> Json:
    """Return the affinity of a DaemonSet's pod on a node."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def annotating(notes: t.Mapping[str, str]) -> str:
    """Return the CEL expression that gives a pod the lab's annotations."""
    pairs = ", ".join(f'"{NOTE}{key}": "{value}"' for key, value in notes.items())
    return f"Object{{metadata: Object.metadata{{annotations: {{{pairs}}}}}}}"


def mutate(lab: Lab, meta: Json, rule: Json, conditions: list[Json], expression: str) -> None:
    """Change new objects by a CEL expression, which yields the fields to apply."""
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": conditions,
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
    }
    for path, kind, content in (
        (_POLICIES, "MutatingAdmissionPolicy", spec),
        (_BINDINGS, "MutatingAdmissionPolicyBinding", {"policyName": meta["name"]}),
    ):
        item = {"apiVersion": API_VERSION, "kind": kind, "metadata": meta, "spec": content}
        api_of(lab).apply(f"{path}/{meta['name']}", item, MANAGER)


def own(lab: Lab, path: str, prefix: str = "") -> list[Json]:
    """Return the objects of faults in a collection whose names begin with a prefix."""
    items = api_of(lab).list(path, labelSelector=f"{MANAGED}={MANAGER}")
    return [item for item in items if item["metadata"]["name"].startswith(prefix)]


def mutations(lab: Lab, prefix: str) -> list[Json]:
    """Return the policies that `mutate` made."""
    return own(lab, _POLICIES, prefix)


def summaries(items: list[Json]) -> list[str]:
    """Return the lines that `active` prints."""
    return [note(item, "summary") or "" for item in items]


def remove(lab: Lab, policy: Json) -> None:
    """Remove a policy that `mutate` made."""
    for path in (_BINDINGS, _POLICIES):
        api_of(lab).delete(f"{path}/{policy['metadata']['name']}")


def replace_pods(lab: Lab, query: Json, right: t.Callable[[Json], bool], timeout: float = 60) -> None:
    """Delete pods until every new one is right.

    The API server takes a moment to apply a new policy, and to forget a deleted one.
    """
    api, deadline = api_of(lab), time.monotonic() + timeout
    all_right_since = time.monotonic()
    while time.monotonic() < all_right_since + PROPAGATION:
        wrong = [pod for pod in api.list("/api/v1/pods", **query) if not right(pod)]
        if wrong:
            all_right_since = time.monotonic()
        if time.monotonic() > deadline:
            names = ", ".join(pod["metadata"]["name"] for pod in wrong)
            raise LabError(f"These pods did not change within {timeout:.0f} s: {names}.")
        for pod in wrong:
            if "deletionTimestamp" not in pod["metadata"]:
                api.delete(f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}")
        time.sleep(0.3)


def probe(lab: Lab, namespace: str, app: str) -> Json | str:
    """Return what the API server would make of a pod with a label ``app``, or the words in which it refuses it."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "probe-", "labels": {"app": app}},
        "spec": {"containers": [{"name": "probe", "image": "nvcr.io/nvidia/probe:v1"}]},
    }
    return _admitted(lab, namespace, pod)


def _admitted(lab: Lab, namespace: str, pod: Json) -> Json | str:
    try:
        return api_of(lab).request("POST", f"/api/v1/namespaces/{namespace}/pods", pod, dryRun="All")
    except ApiError as error:
        return str(error)


def until_mutated(lab: Lab, pod: Json, right: t.Callable[[Json], bool], namespace: str = "default") -> None:
    """Wait until the API server changes a new pod as it should."""
    _until(lambda: _admitted(lab, namespace, pod), lambda found: not isinstance(found, str) and right(found))


def until_probe(lab: Lab, namespace: str, app: str, right: t.Callable[[Json | str], bool]) -> None:
    """Wait until the API server treats a new pod as it should."""
    _until(lambda: probe(lab, namespace, app), right)


def _until(ask: t.Callable[[], Json | str], right: t.Callable[[Json | str], bool]) -> None:
    deadline = time.monotonic() + 30
    while not right(found := ask()):
        if time.monotonic() > deadline:
            raise LabError(f"The API server did not apply the fault within 30 s. A new pod gets this answer: {found}")
        time.sleep(0.2)


def controllers(lab: Lab, app: str) -> list[Json]:
    """Return the DaemonSets and Deployments whose pods have a label ``app``, each with its path."""
    found, apps = [], set()
    for kind in ("daemonsets", "deployments"):
        for item in api_of(lab).list(f"/apis/apps/v1/{kind}"):
            meta = item["metadata"]
            label = (item["spec"]["template"]["metadata"].get("labels") or {}).get("app")
            apps |= {label} if label else set()
            if label == app:
                found.append({**item, "path": f"/apis/apps/v1/namespaces/{meta['namespace']}/{kind}/{meta['name']}"})
    if not found:
        known = ", ".join(sorted(apps)) or "none yet"
        raise LabError(f"No DaemonSet or Deployment has pods with the label app={app}. These labels exist: {known}.")
    return found


def touch(lab: Lab, controller: Json) -> None:
    """Change an annotation of a controller, so that it acts at once, also after it has backed off."""
    stamp = {f"{NOTE}touched": str(time.time_ns())}
    api_of(lab).merge(controller["path"], {"metadata": {"annotations": stamp}})
