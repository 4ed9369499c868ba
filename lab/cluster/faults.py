# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults by command. What befalls an operand's pods is an admission policy that annotates them, so any operator's pods can have it."""

from __future__ import annotations

import argparse
import time
import typing as t

from lab.cluster.api import Api, Json
from lab.cluster.nodes.fleet import NOTE
from lab.errors import LabError

if t.TYPE_CHECKING:
    from lab.cluster.lab import Lab

POD_FAULTS = ("image-pull-backoff", "crash-loop", "hang-init")
_TAINT = {"key": f"{NOTE}fault", "value": "tainted", "effect": "NoExecute"}
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_POLICIES, _BINDINGS = f"{_ADMISSION}/mutatingadmissionpolicies", f"{_ADMISSION}/mutatingadmissionpolicybindings"
_SETTINGS = "/api/v1/namespaces/kube-system/configmaps/lab-faults"
_MANAGER = "lab-faults"
_HEED = 2.0
"""Seconds after which the API server has surely heard of a policy: a pod may still come without what it says, or with it."""


def operand(lab: Lab, app: str, fault: str, node: str | None = None) -> None:
    """Give the pods with this label `app` a fault, on one node or on all: those that there are, and those to come."""
    _check_names(lab, app, node)
    _annotate_new_pods(lab, app, "fault", fault, node)
    _replace_pods(lab, app, node, lambda pod: _note(pod) == fault)


def slow(lab: Lab, app: str, seconds: int) -> None:
    """Let the pods of an operand that start from now on take this long to become ready."""
    _annotate_new_pods(lab, app, "start-delay", f"{seconds}s", None)


def node(lab: Lab, name: str, fault: str) -> None:
    """Make a node NotReady, or taint it so that its pods leave."""
    body: Json = {"metadata": {"annotations": {f"{NOTE}fault": "not-ready"}}}
    if fault == "taint":
        body = {"spec": {"taints": [*_other_taints(lab, name), _TAINT]}}
    if _api(lab).merge(f"/api/v1/nodes/{name}", body) is None:
        raise LabError(f"There is no node {name!r}.")


def operator_down(lab: Lab) -> None:
    """End the operator's process. Its Deployment stays as it is: nobody acts any more, and nothing says so."""
    lab.component("operator").kill()


def stale_status(lab: Lab) -> None:
    """Let the stand-in leave the ClusterPolicy's status as it is, whatever happens."""
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "lab-faults"},
        "data": {"stale-status": "true"},
    }
    _api(lab).apply(_SETTINGS, body, _MANAGER)


def clear(lab: Lab) -> None:
    """Take every fault back, and replace the pods that have one."""
    api = _api(lab)
    for policy in _own_policies(api):
        name = policy["metadata"]["name"]
        app = policy["metadata"]["annotations"][f"{NOTE}app"]
        api.delete(f"{_BINDINGS}/{name}")
        api.delete(f"{_POLICIES}/{name}")
        _replace_pods(lab, app, None, lambda pod: _note(pod) is None)
    for item in api.list("/api/v1/nodes"):
        path = f"/api/v1/nodes/{item['metadata']['name']}"
        if _note(item):
            api.merge(path, {"metadata": {"annotations": {f"{NOTE}fault": None}}})
        if _TAINT["key"] in (taint["key"] for taint in item["spec"].get("taints", [])):
            api.merge(path, {"spec": {"taints": _other_taints(lab, item["metadata"]["name"])}})
    api.delete(_SETTINGS)
    if "operator" in lab.status().died:
        lab.component("operator").restart()


def active(lab: Lab) -> list[str]:
    """The faults at work, one line each."""
    api = _api(lab)
    lines = [policy["metadata"]["annotations"][f"{NOTE}summary"] for policy in _own_policies(api)]
    for item in api.list("/api/v1/nodes"):
        name = item["metadata"]["name"]
        lines += [f"node {name}: {_note(item)}"] if _note(item) else []
        lines += [f"node {name}: taint" for taint in item["spec"].get("taints", []) if taint["key"] == _TAINT["key"]]
    lines += ["stale status"] if api.get(_SETTINGS) else []
    lines += ["operator down"] if "operator" in lab.status().died else []
    return lines


def main(lab: Lab, rest: t.Sequence[str]) -> int:
    """The command ``fault``."""
    arguments = _parser().parse_args([argument for argument in rest if argument != "--"])
    arguments.run(lab, arguments)
    print("\n".join(active(lab)) or "No fault is at work.")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lab cluster fault",
        description="Let something fail, or take it back. Prints the faults at work.",
    )
    commands = parser.add_subparsers(required=True, metavar="FAULT")

    def command(name: str, summary: str, run: t.Callable[[Lab, argparse.Namespace], None]) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=summary, description=summary)
        sub.set_defaults(run=run)
        return sub

    pods = command(
        "operand",
        "the pods of an operand cannot start",
        lambda lab, given: operand(lab, given.app, given.fault, given.node),
    )
    pods.add_argument("app", help="the pods' label `app`, such as nvidia-driver-daemonset")
    pods.add_argument("fault", choices=POD_FAULTS)
    pods.add_argument("--node", help="only on this node")
    machine = command(
        "node", "a node is NotReady, or tainted NoExecute", lambda lab, given: node(lab, given.name, given.fault)
    )
    machine.add_argument("name")
    machine.add_argument("fault", choices=["not-ready", "taint"])
    late = command(
        "slow-driver",
        "driver pods take their time",
        lambda lab, given: slow(lab, "nvidia-driver-daemonset", given.seconds),
    )
    late.add_argument("seconds", type=int)
    command("operator-down", "the operator's process ends", lambda lab, given: operator_down(lab))
    command("stale-status", "the stand-in writes no status any more", lambda lab, given: stale_status(lab))
    command("clear", "take every fault back", lambda lab, given: clear(lab))
    command("list", "only list the faults", lambda lab, given: None)
    return parser


def _check_names(lab: Lab, app: str, node_name: str | None) -> None:
    templates = [item["spec"]["template"]["metadata"] for item in _api(lab).list("/apis/apps/v1/daemonsets")]
    apps = sorted({str((metadata.get("labels") or {}).get("app")) for metadata in templates} - {"None"})
    if app not in apps:
        raise LabError(f"No DaemonSet has pods with the label app={app}. There are: {', '.join(apps) or 'none yet'}.")
    if node_name and _api(lab).get(f"/api/v1/nodes/{node_name}") is None:
        raise LabError(f"There is no node {node_name!r}.")


def _api(lab: Lab) -> Api:
    return Api(str(lab.kubeconfig))


def _note(item: Json) -> str | None:
    return t.cast("str | None", (item["metadata"].get("annotations") or {}).get(f"{NOTE}fault"))


def _other_taints(lab: Lab, name: str) -> list[Json]:
    item = _api(lab).get(f"/api/v1/nodes/{name}") or {"spec": {}}
    return [taint for taint in item["spec"].get("taints", []) if taint["key"] != _TAINT["key"]]


def _own_policies(api: Api) -> list[Json]:
    return api.list(_POLICIES, labelSelector=f"app.kubernetes.io/managed-by={_MANAGER}")


def _annotate_new_pods(lab: Lab, app: str, note: str, value: str, node_name: str | None) -> None:
    name = f"lab-{note}-{app}"
    where = f" on {node_name}" if node_name else ""
    metadata = {
        "name": name,
        "labels": {"app.kubernetes.io/managed-by": _MANAGER},
        "annotations": {f"{NOTE}app": app, f"{NOTE}summary": f"operand {app}{where}: {note} {value}"},
    }
    conditions = [
        {
            "name": "app",
            "expression": f"has(object.metadata.labels) && 'app' in object.metadata.labels && object.metadata.labels['app'] == '{app}'",
        }
    ]
    if node_name:
        # A DaemonSet's pod is bound by an affinity to its node's name when it is created.
        terms = "object.spec.?affinity.?nodeAffinity.?requiredDuringSchedulingIgnoredDuringExecution.?nodeSelectorTerms.orValue([])"
        conditions.append(
            {
                "name": "node",
                "expression": f"{terms}.exists(t, t.?matchFields.orValue([]).exists(f, '{node_name}' in f.values))",
            }
        )
    annotations = f'{{"{NOTE}{note}": "{value}"}}'
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": metadata,
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
                ]
            },
            "matchConditions": conditions,
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "mutations": [
                {
                    "patchType": "ApplyConfiguration",
                    "applyConfiguration": {
                        "expression": f"Object{{metadata: Object.metadata{{annotations: {annotations}}}}}"
                    },
                }
            ],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": metadata,
        "spec": {"policyName": name},
    }
    _api(lab).apply(f"{_POLICIES}/{name}", policy, _MANAGER)
    _api(lab).apply(f"{_BINDINGS}/{name}", binding, _MANAGER)


def _replace_pods(
    lab: Lab, app: str, node_name: str | None, right: t.Callable[[Json], bool], timeout: float = 60
) -> None:
    """Delete pods until all that come are right: a policy takes a moment until the API server heeds it, or forgets it."""
    api, deadline = _api(lab), time.monotonic() + timeout
    query = {"labelSelector": f"app={app}"} | ({"fieldSelector": f"spec.nodeName={node_name}"} if node_name else {})
    all_right_since = time.monotonic()
    while time.monotonic() < all_right_since + _HEED:
        wrong = [pod for pod in api.list("/api/v1/pods", **query) if not right(pod)]
        if wrong:
            all_right_since = time.monotonic()
        if time.monotonic() > deadline:
            raise LabError(
                f"The pods of {app} did not change within {timeout:.0f} s: {', '.join(pod['metadata']['name'] for pod in wrong)}."
            )
        for pod in wrong:
            if "deletionTimestamp" not in pod["metadata"]:
                api.delete(f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}")
        time.sleep(0.3)
