# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""New settings of the toolkit reach two nodes by the real ``main()``, with an operator and a kubelet in this process."""

from __future__ import annotations

import functools
import hashlib
import json
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from inline_snapshot import snapshot as wording

from tests.support.clock import LeapingClock
from tests.unit.fakes.api import ALL_PODS, DAEMONSETS, NODES, PODS, POLICIES, REVISIONS, FakeApi, Reply, refusal
from tests.unit.fakes.stack import Json, progress, workload

TOOLKIT, VALIDATOR = "nvidia-container-toolkit-daemonset", "nvidia-operator-validator"
APPS = (TOOLKIT, VALIDATOR)
ENV = [{"name": "CONTAINERD_CONFIG", "value": "/etc/containerd/config.toml"}]
HASH = "nvidia.com/last-applied-hash"
HELD = "gpuops.nvidia/maintenance.toolkit"


class Operands:
    """An operator that renders two DaemonSets, and Kubernetes, which makes their pods."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.broken: t.Callable[[str], bool] = lambda node: False
        """Whether the validator of a node crashes."""
        self.asleep = False
        self.log: list[str] = []
        """What happened to pods, in order."""
        self.count = 0
        self.revision = self.rendered()
        self.pods = {(app, node): self.pod(app, node) for app in APPS for node in ("gpu-0000", "gpu-0001")}
        self.log.clear()

    @property
    def policy(self) -> Json:
        return self.api.lists[POLICIES][0]

    def rendered(self) -> str:
        return hashlib.sha256(json.dumps(self.policy["spec"]["toolkit"]).encode()).hexdigest()[:8]

    def pod(self, app: str, node: str) -> Json:
        self.count += 1
        self.log.append(f"{'toolkit' if app == TOOLKIT else 'validator'} of {node}")
        is_ready = app == TOOLKIT or not self.broken(node)
        crashed = {"name": "toolkit-validation", "restartCount": 3, "state": {"waiting": {"message": "no runtime"}}}
        return {
            "metadata": {
                "name": f"{app}-{self.count}",
                "uid": f"uid-{self.count}",
                "labels": {"app": app, "controller-revision-hash": self.revision},
            },
            "spec": {"nodeName": node},
            "status": {
                "conditions": [{"type": "Ready", "status": str(is_ready)}],
                "initContainerStatuses": [] if is_ready else [crashed],
            },
        }

    def is_old(self, pod: Json) -> bool:
        labels = pod["metadata"]["labels"]
        return labels["app"] == TOOLKIT and labels["controller-revision-hash"] != self.revision

    def reconcile(self) -> None:
        """Render the DaemonSets as the ClusterPolicy says, and replace pods that need not wait."""
        if self.asleep:
            return
        strategy = (self.policy["spec"].get("daemonsets") or {}).get("updateStrategy") or "RollingUpdate"
        self.revision = self.rendered()
        for item in self.api.lists[DAEMONSETS]:
            if item["metadata"]["name"] != "nvidia-driver-daemonset":
                item["spec"]["updateStrategy"]["type"] = strategy
            item["metadata"]["annotations"] = {HASH: f"{strategy}-{self.revision}"}
            if item["metadata"]["name"] == TOOLKIT:
                old = sum(map(self.is_old, self.pods.values()))
                item["status"].update(progress(2, 2, 2 - old, 2))
        if strategy == "RollingUpdate":
            for (app, node), pod in list(self.pods.items()):
                if self.is_old(pod):
                    self.log.append("without its turn")
                    self.pods[app, node] = self.pod(app, node)

    def answer(self, method: str, path: str) -> Reply | None:
        query = self.api.log[-1][2]
        if method == "GET" and path in (DAEMONSETS, POLICIES):
            self.reconcile()
        if path == REVISIONS:
            columns = [{"name": name} for name in ("Name", "Controller", "Revision", "Age")]
            row = [f"{TOOLKIT}-{self.revision}", f"daemonset.apps/{TOOLKIT}", 2, "1m"]
            return 200, {"columnDefinitions": columns, "rows": [{"cells": row}]}
        if method == "GET" and path == PODS and "labelSelector" in query:
            return 200, self.selected(query)
        if method == "DELETE" and path.startswith(f"{PODS}/"):
            return self.delete(path.rpartition("/")[2], query)
        return None

    def selected(self, query: dict[str, str]) -> Json:
        on = query.get("fieldSelector", "").rpartition("=")[2]
        if on:
            return {"items": [pod for (dummy, node), pod in self.pods.items() if node == on], "metadata": {}}
        columns = ["Name", "Ready", "Status", "Restarts", "Age", "IP", "Node"]
        shown = [
            [pod["metadata"]["name"], "1/1", "Running", "0", "1m", "", node]
            for (app, node), pod in self.pods.items()
            if app == TOOLKIT and ("!=" not in query["labelSelector"] or self.is_old(pod))
        ]
        return {"columnDefinitions": [{"name": name} for name in columns], "rows": [{"cells": row} for row in shown]}

    def delete(self, name: str, query: dict[str, str]) -> Reply:
        key = next((key for key, pod in self.pods.items() if pod["metadata"]["name"] == name), None)
        if key is None:
            return refusal(404, "not found")
        if "dryRun" not in query:
            self.pods[key] = self.pod(*key)
        return 200, {}


@pytest.fixture
def operands(api: FakeApi, leaps: LeapingClock, monkeypatch: pytest.MonkeyPatch) -> Operands:
    monkeypatch.setattr(waiting, "POLL_S", 2.0)
    made = Operands(api)
    api.answer = made.answer
    return made


@pytest.fixture
def module(operands: Operands, api: FakeApi, run_module: t.Callable[..., t.Any]) -> t.Callable[..., t.Any]:
    wanted = {"toolkit": {"env": ENV}, "allow_disruption": True, "wait_timeout": 60}
    return functools.partial(run_module, "clusterpolicy", **{**wanted, **api.connection})


def strategy(api: FakeApi) -> str:
    """Return how pods are replaced. The CRD has a default."""
    return (api.lists[POLICIES][0]["spec"].get("daemonsets") or {}).get("updateStrategy") or "RollingUpdate"


def marks(api: FakeApi) -> list[str]:
    """Return all that a rollout has left on the ClusterPolicy and on nodes."""
    items = [*api.lists[POLICIES], *api.lists[NODES]]
    found = [key for item in items for key in item["metadata"].get("annotations") or {} if "gpuops" in key]
    return [*found, *(item["metadata"]["name"] for item in api.lists[NODES] if item["spec"].get("unschedulable"))]


def states(run: t.Any) -> dict[str, str]:
    return {row["node"]: row["state"] for row in run.result["toolkit_rollout"]["nodes"]}


IN_TURN = [f"{what} of gpu-000{i}" for i in range(2) for what in ("toolkit", "validator")]


def test_each_node_proves_the_new_settings_before_the_next_one_begins(
    module: t.Callable[..., t.Any], operands: Operands, api: FakeApi
) -> None:
    check = module(_ansible_check_mode=True)
    assert (check.rc, check.result["changed"], operands.log, strategy(api)) == (0, True, [], "RollingUpdate")
    assert states(check) == {"gpu-0000": "pending", "gpu-0001": "pending"}
    assert check.result["toolkit_rollout"]["fields"] == ["toolkit.env"]
    run = module()
    assert (run.rc, run.result["changed"], operands.log) == (0, True, IN_TURN), run.result
    assert states(run) == {"gpu-0000": "done", "gpu-0001": "done"} and run.result["toolkit_rollout"]["finished"]
    assert run.result["verdict"]["state"] == "ready" and run.result["clusterpolicy"]["spec"]["toolkit"]["env"] == ENV
    assert (strategy(api), marks(api)) == ("RollingUpdate", [])
    again = module()
    assert (again.rc, again.result["changed"], again.result["toolkit_rollout"]) == (0, False, None)
    assert operands.log == IN_TURN


def test_a_node_that_is_not_proved_stops_the_others_and_a_correction_goes_on(
    module: t.Callable[..., t.Any], operands: Operands, api: FakeApi
) -> None:
    operands.broken = lambda node: True
    run = module()
    assert (run.rc, run.result["reason"], run.result["changed"]) == (1, "NodesFailed", True)
    assert run.result["msg"] == wording(
        "The toolkit's new settings: 1 of 2 nodes failed, and max_failed allows 0. gpu-0000: It has waited 1 s for a pod of the validator to be ready: container toolkit-validation: no runtime. It stays cordoned for the purpose toolkit. gpu-0001 still has the former settings. Correct the settings if they are the cause, and run it again. It continues with the other nodes."
    )
    assert states(run) == {"gpu-0000": "failed", "gpu-0001": "pending"}
    assert operands.log == IN_TURN[:2], "The second node keeps the settings that work."
    assert strategy(api) == "OnDelete" and marks(api)[-1] == "gpu-0000"
    operands.broken = lambda node: False
    operands.log.clear()
    other = [{"name": "CONTAINERD_CONFIG", "value": "/etc/containerd/other.toml"}]
    check = module(toolkit={"env": other}, _ansible_check_mode=True)
    assert (check.rc, check.result["changed"], operands.log) == (0, True, [])
    healed = module(toolkit={"env": other})
    assert (healed.rc, operands.log) == (0, IN_TURN), healed.result
    assert (strategy(api), marks(api)) == ("RollingUpdate", [])


def test_updates_go_on_only_if_the_mig_managers_divide_no_gpus_in_use_by_then(
    module: t.Callable[..., t.Any], operands: Operands, api: FakeApi
) -> None:
    """The GPU pod and the failed layout come while the nodes get their turn."""

    labels = api.lists[NODES][0]["metadata"]["labels"]

    def comes(node: str) -> bool:
        labels.update({"nvidia.com/mig.config": "a", "nvidia.com/mig.config.state": "failed"})
        api.lists[ALL_PODS] = [workload("train")]
        return False

    operands.broken = comes
    asked = {"mig_manager": {"env": ENV}, "allow_disruption": False}
    run = module(**asked)
    assert (run.rc, run.result["reason"], run.result["changed"]) == (1, "Disruption", True), run.result
    assert "gpu-0000 (a, state failed)" in run.result["msg"] and operands.log == IN_TURN
    assert (strategy(api), states(run)) == ("OnDelete", {"gpu-0000": "done", "gpu-0001": "done"})
    assert not run.result["toolkit_rollout"]["finished"]
    labels["nvidia.com/mig.config.state"] = "success"
    again = module(**asked)
    assert (again.rc, strategy(api), marks(api)) == (0, "RollingUpdate", []), again.result
    assert operands.log == IN_TURN


def test_a_rollout_that_was_cut_off_goes_on_without_a_change(
    module: t.Callable[..., t.Any], operands: Operands, api: FakeApi
) -> None:
    """The first node is done. The second one fails, and is well later."""
    operands.broken = lambda node: node == "gpu-0001"
    assert module().rc == 1
    operands.broken, verdict = lambda node: False, module(_ansible_check_mode=True)
    assert verdict.result["changed"] and states(verdict) == {"gpu-0000": "unchanged", "gpu-0001": "pending"}
    operands.log.clear()
    run = module()
    assert (run.rc, operands.log) == (0, ["validator of gpu-0001"]), "The toolkit is new there. It lacks the proof."
    assert states(run) == {"gpu-0000": "unchanged", "gpu-0001": "done"} and marks(api) == []


def test_a_window_that_is_closed_leaves_the_nodes_as_they_are(
    module: t.Callable[..., t.Any], operands: Operands, api: FakeApi
) -> None:
    never = {"windows": ["mon 00:00-00:01"], "time_zone": "UTC"}
    check = module(toolkit_rollout=never, _ansible_check_mode=True)
    assert check.result["toolkit_rollout"]["finished"] is False and "maintenance window" in " ".join(check.warnings)
    run = module(toolkit_rollout=never)
    assert (run.rc, operands.log, strategy(api)) == (0, [], "OnDelete"), run.result
    assert run.result["toolkit_rollout"]["finished"] is False and run.result["verdict"]["state"] != "ready"
    waiting_still = module(toolkit_rollout=never)
    assert (waiting_still.rc, waiting_still.result["changed"]) == (0, False)
    opened = module()
    assert (opened.rc, operands.log, strategy(api)) == (0, IN_TURN, "RollingUpdate") and marks(api) == []


def test_a_node_that_is_not_ready_is_left_to_kubernetes(
    module: t.Callable[..., t.Any], operands: Operands, api: FakeApi
) -> None:
    api.lists[NODES][1]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    run = module(max_unready="1")
    assert (run.rc, states(run)) == (0, {"gpu-0000": "done"}), run.result
    assert operands.log == [*IN_TURN[:2], "without its turn", "toolkit of gpu-0001"]
    assert any("gpu-0001 is not Ready" in warning for warning in run.warnings)


@pytest.mark.parametrize("who", ["a user without the rights", "another manager", "a call that does not wait"])
def test_what_stands_in_the_way_is_said_and_kubernetes_replaces_the_pods(
    module: t.Callable[..., t.Any], operands: Operands, api: FakeApi, who: str
) -> None:
    if who == "another manager":
        fields = {"f:spec": {"f:daemonsets": {"f:updateStrategy": {}}}}
        entry = {"manager": "argocd", "operation": "Apply", "fieldsV1": fields}
        api.lists[POLICIES][0]["metadata"]["managedFields"] = [entry]
    elif who == "a user without the rights":
        forbidden = refusal(403, "no", "Forbidden")
        api.answer = lambda method, path: (
            forbidden if method == "PATCH" and path.startswith(NODES) else operands.answer(method, path)
        )
    run = module(wait=who != "a call that does not wait")
    assert (run.rc, run.result["toolkit_rollout"]) == (0, None), run.result
    operands.reconcile()
    assert operands.log.count("without its turn") == 2
    said = next(warning for warning in run.warnings if "without a proof" in warning)
    assert ("argocd owns" in said) == (who == "another manager") and ("wait: false" in said) == ("wait" in who)


@pytest.mark.parametrize("check", [True, False])
def test_a_rollout_that_has_not_ended_is_not_let_loose_by_a_call_that_cannot_go_on(
    module: t.Callable[..., t.Any], operands: Operands, api: FakeApi, check: bool
) -> None:
    operands.broken = lambda node: True
    assert module().rc == 1
    operands.log.clear()
    run = module(wait=False, _ansible_check_mode=check)
    assert (run.rc, run.result["reason"], operands.log, strategy(api)) == (1, "Conflict", [], "OnDelete")


def test_an_operator_that_does_not_follow_is_an_error(
    module: t.Callable[..., t.Any], operands: Operands, api: FakeApi
) -> None:
    module(_ansible_check_mode=True)
    operands.asleep = True
    run = module()
    assert (run.rc, run.result["reason"], run.result["changed"]) == (1, "TimedOut", True)
    assert run.result["msg"] == wording(
        "The operator has not taken daemonsets.updateStrategy within 60 s. Look whether it runs (gpuops.nvidia.diagnose), and run this again."
    )
    operands.asleep = False
    assert module().rc == 0 and operands.log == IN_TURN and marks(api) == []


@pytest.mark.parametrize(
    "options",
    [{"daemonsets": {"update_strategy": "OnDelete"}}, {"toolkit": {"env": []}}, {"state": "absent"}],
)
def test_what_is_no_rollout(module: t.Callable[..., t.Any], operands: Operands, options: dict[str, t.Any]) -> None:
    run = module(**options, _ansible_check_mode=True)
    assert run.rc == 0 and run.result.get("toolkit_rollout") is None


def test_pods_that_have_waited_for_a_deletion_get_their_turn_when_they_need_not_wait_any_more(
    module: t.Callable[..., t.Any], operands: Operands, api: FakeApi
) -> None:
    by_hand = {"daemonsets": {"update_strategy": "OnDelete"}}
    assert module(**by_hand, wait=False).rc == 0 and operands.log == []
    operands.reconcile()
    run = module(daemonsets={"update_strategy": "RollingUpdate"})
    assert run.result["toolkit_rollout"]["fields"] == ["daemonsets.updateStrategy"]
    assert (run.rc, operands.log, marks(api)) == (0, IN_TURN, []), run.result


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"canary": ["gpu-0009"]}, "toolkit_rollout.canary names gpu-0009"),
        ({"waves": ["some"]}, "waves"),
        ({"timeout": 0}, "timeout"),
    ],
)
def test_options_that_cannot_be_meant(
    module: t.Callable[..., t.Any], operands: Operands, api: FakeApi, options: dict[str, t.Any], said: str
) -> None:
    run = module(toolkit_rollout=options)
    assert (run.rc, run.result["reason"]) == (1, "Invalid") and said in run.result["msg"]
    assert operands.log == [] and strategy(api) == "RollingUpdate"
