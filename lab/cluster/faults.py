# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults that a user or a test injects into a lab.

A fault of an operand is an admission policy that annotates the operand's new pods, so it works with any operator.
"""

from __future__ import annotations

import argparse
import time
import typing as t

from lab.cluster.api import Api, Json
from lab.cluster.lab import Lab
from lab.cluster.nodes.fleet import NOTE
from lab.errors import LabError

POD_FAULTS = ("image-pull-backoff", "crash-loop", "hang-init")
_TAINT = {"key": f"{NOTE}fault", "value": "tainted", "effect": "NoExecute"}
_ADMISSION = "admissionregistration.k8s.io/v1"
_POLICIES = f"/apis/{_ADMISSION}/mutatingadmissionpolicies"
_BINDINGS = f"/apis/{_ADMISSION}/mutatingadmissionpolicybindings"
_SETTINGS = "/api/v1/namespaces/kube-system/configmaps/lab-faults"
_MANAGER = "lab-faults"
_PROPAGATION = 2.0
"""Seconds until the API server applies a new policy, or no longer applies a deleted one, to every pod."""
_DRIVER = "nvidia-driver-daemonset"

Change = t.Callable[[Lab, argparse.Namespace], None]


def operand(lab: Lab, app: str, fault: str, node: str | None = None) -> None:
    """Give a fault to the existing and future pods with the label ``app``, on one node or on all."""
    _check_names(lab, app, node)
    _annotate_new_pods(lab, app, "fault", fault, node)
    _replace_pods(lab, app, node, lambda pod: _note(pod) == fault)


def slow(lab: Lab, app: str, seconds: int) -> None:
    """Delay the start of an operand's future pods by a number of seconds."""
    _annotate_new_pods(lab, app, "start-delay", f"{seconds}s", None)


def node(lab: Lab, name: str, fault: str) -> None:
    """Make a node NotReady, or give it a taint that evicts its pods."""
    body: Json = {"metadata": {"annotations": {f"{NOTE}fault": "not-ready"}}}
    if fault == "taint":
        body = {"spec": {"taints": [*_other_taints(lab, name), _TAINT]}}
    if _api(lab).merge(f"/api/v1/nodes/{name}", body) is None:
        raise LabError(f"There is no node {name!r}.")


def operator_down(lab: Lab) -> None:
    """Kill the operator's process. Its Deployment stays Available, so no object in the cluster shows the failure."""
    lab.component("operator").kill()


def stale_status(lab: Lab) -> None:
    """Stop the stand-in from updating the status of its custom resources."""
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "lab-faults"},
        "data": {"stale-status": "true"},
    }
    _api(lab).apply(_SETTINGS, body, _MANAGER)


def clear(lab: Lab) -> None:
    """Remove every fault, and replace the pods that have one."""
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
    """Return one line for each active fault."""
    api = _api(lab)
    lines = [policy["metadata"]["annotations"][f"{NOTE}summary"] for policy in _own_policies(api)]
    for item in api.list("/api/v1/nodes"):
        name = item["metadata"]["name"]
        lines += [f"node {name}: {_note(item)}"] if _note(item) else []
        lines += [f"node {name}: taint" for taint in item["spec"].get("taints", []) if taint["key"] == _TAINT["key"]]
    lines += ["stale status"] if api.get(_SETTINGS) else []
    lines += ["operator down"] if "operator" in lab.status().died else []
    return lines


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add the faults to the command ``fault``. Each sets ``change``, the function that injects or clears faults."""
    commands = parser.add_subparsers(required=True, metavar="FAULT")
    pods = _command(commands, "operand", "Keep the pods of an operand from starting.", _operand)
    pods.add_argument("app", help="label `app` of the pods, such as nvidia-driver-daemonset")
    pods.add_argument("fault", choices=POD_FAULTS)
    pods.add_argument("--node", help="only on this node (default: on every node)")
    machine = _command(commands, "node", "Make a node NotReady, or give it a NoExecute taint.", _node)
    machine.add_argument("node", help="name of the node")
    machine.add_argument("fault", choices=["not-ready", "taint"])
    late = _command(commands, "slow-driver", "Delay the start of new driver pods.", _slow_driver)
    late.add_argument("seconds", type=int)
    _command(commands, "operator-down", "Kill the operator's process.", lambda lab, given: operator_down(lab))
    _command(commands, "stale-status", "Stop the stand-in's status updates.", lambda lab, given: stale_status(lab))
    _command(commands, "clear", "Clear all faults.", lambda lab, given: clear(lab))
    _command(commands, "list", "Change nothing.", lambda lab, given: None)


def _command(commands: t.Any, name: str, summary: str, change: Change) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=summary)
    parser.set_defaults(change=change)
    # The command `fault` has this option and its default already. Here it may also follow the name of the fault.
    parser.add_argument("--name", default=argparse.SUPPRESS, help="name of the lab")
    return parser


def _operand(lab: Lab, given: argparse.Namespace) -> None:
    operand(lab, given.app, given.fault, given.node)


def _node(lab: Lab, given: argparse.Namespace) -> None:
    node(lab, given.node, given.fault)


def _slow_driver(lab: Lab, given: argparse.Namespace) -> None:
    slow(lab, _DRIVER, given.seconds)


def _check_names(lab: Lab, app: str, node_name: str | None) -> None:
    templates = [item["spec"]["template"]["metadata"] for item in _api(lab).list("/apis/apps/v1/daemonsets")]
    apps = sorted({str((metadata.get("labels") or {}).get("app")) for metadata in templates} - {"None"})
    if app not in apps:
        raise LabError(
            f"No DaemonSet has pods with the label app={app}. These labels exist: {', '.join(apps) or 'none yet'}."
        )
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
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    annotations = f'{{"{NOTE}{note}": "{value}"}}'
    expression = f"Object{{metadata: Object.metadata{{annotations: {annotations}}}}}"
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": _conditions(app, node_name),
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
    }
    for path, kind, content in (
        (_POLICIES, "MutatingAdmissionPolicy", spec),
        (_BINDINGS, "MutatingAdmissionPolicyBinding", {"policyName": name}),
    ):
        item = {"apiVersion": _ADMISSION, "kind": kind, "metadata": metadata, "spec": content}
        _api(lab).apply(f"{path}/{name}", item, _MANAGER)


def _conditions(app: str, node_name: str | None) -> list[Json]:
    """Return the CEL conditions that choose the pods of an operand, on one node or on all."""
    labels = "object.metadata.labels"
    conditions = [{"name": "app", "expression": f"has({labels}) && 'app' in {labels} && {labels}['app'] == '{app}'"}]
    if node_name:
        # The DaemonSet controller binds each new pod to a node by an affinity to the node's name.
        affinity = "object.spec.?affinity.?nodeAffinity.?requiredDuringSchedulingIgnoredDuringExecution"
        names_node = f"exists(f, '{node_name}' in f.values)"
        expression = f"{affinity}.?nodeSelectorTerms.orValue([]).exists(t, t.?matchFields.orValue([]).{names_node})"
        conditions.append({"name": "node", "expression": expression})
    return conditions


def _replace_pods(
    lab: Lab, app: str, node_name: str | None, right: t.Callable[[Json], bool], timeout: float = 60
) -> None:
    """Delete pods until every new one is right.

    The API server takes a moment to apply a new policy, and to forget a deleted one.
    """
    api, deadline = _api(lab), time.monotonic() + timeout
    query = {"labelSelector": f"app={app}"} | ({"fieldSelector": f"spec.nodeName={node_name}"} if node_name else {})
    all_right_since = time.monotonic()
    while time.monotonic() < all_right_since + _PROPAGATION:
        wrong = [pod for pod in api.list("/api/v1/pods", **query) if not right(pod)]
        if wrong:
            all_right_since = time.monotonic()
        if time.monotonic() > deadline:
            names = ", ".join(pod["metadata"]["name"] for pod in wrong)
            raise LabError(f"The pods of {app} did not change within {timeout:.0f} s: {names}.")
        for pod in wrong:
            if "deletionTimestamp" not in pod["metadata"]:
                api.delete(f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}")
        time.sleep(0.3)
