# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One odd answer ends no run: each kind of request of each playbook fails, is lost, is refused or is slow once."""

from __future__ import annotations

import contextlib
import json
import typing as t

import pytest

from lab.cluster import Lab
from lab.cluster.proxy import Disturbance, Passage, Proxy, before, failed, too_many_requests
from tests.integration.test_driver_upgrade import versions
from tests.integration.test_mig import H100, is_in_service, offered, training
from tests.support.ansible import ROOT, Playbook, Run, on
from tests.support.labs import running_sharing_fleet

pytestmark = [pytest.mark.wide, pytest.mark.slow("each playbook changes nodes, once for each oddity")]

PLAYBOOKS = ROOT / "playbooks"
T4, L40S = "t4-0000", "l40s-0000"
LOST, SLOW, HUNG = Passage(is_lost=True), Passage(delay_s=2), Passage(delay_s=10)
ODDITIES: dict[str, tuple[Disturbance, ...]] = {
    "failures": (failed(),),
    "lost answers": (LOST,),
    "a busy and slow server": (too_many_requests("1"), SLOW),
}


@pytest.fixture(scope="module")
def fleet() -> t.Iterator[Lab]:
    """A100, H100, T4 and L40S with a ready stack, whose MIG manager is quick."""
    with running_sharing_fleet("odd", mig_seconds=0.5, validation_seconds=15) as lab:
        yield lab


@pytest.fixture(scope="module")
def between(fleet: Lab) -> t.Iterator[Proxy]:
    with before(fleet) as proxy:
        yield proxy


class Disturbed:
    """Runs through a proxy that disturbs each kind of request once."""

    def __init__(self, lab: Lab, proxy: Proxy, how: tuple[Disturbance, ...]) -> None:
        self.proxy, self._how = proxy, how
        self.ansible = on(lab)
        self.ansible.environment["K8S_AUTH_KUBECONFIG"] = str(proxy.kubeconfig)

    def __call__(self, run: t.Callable[[Playbook], Run], *kinds: str) -> Run:
        """Return what a run returns that succeeds although these kinds of requests, and others, were disturbed."""
        self.proxy.disturb_each_kind(*self._how)
        if SLOW in self._how:
            self.proxy.answer(HUNG, method="PATCH", target="/nodes/.*fieldManager")
        try:
            ended = run(self.ansible)
        finally:
            self.proxy.forget()
        told = "\n".join([ended.output, *self.proxy.disturbed])
        assert ended.status == 0 and set(kinds) <= set(self.proxy.disturbed), told
        return ended


@pytest.fixture(params=ODDITIES)
def disturbed(request: pytest.FixtureRequest, fleet: Lab, between: Proxy) -> Disturbed:
    return Disturbed(fleet, between, ODDITIES[request.param])


def test_mig(fleet: Lab, disturbed: Disturbed) -> None:
    layout = "all-1g.10gb" if "nvidia.com/mig-1g.10gb" not in offered(fleet, H100) else "all-3g.40gb"
    wish = {"mig_layouts": [{"layout": layout, "nodes": [H100]}], "mig_allow_disruption": True}
    with contextlib.ExitStack() as stack:
        if "nvidia.com/gpu" in offered(fleet, H100):
            stack.enter_context(training(fleet))
        disturbed(lambda ansible: ansible.run(PLAYBOOKS / "mig.yml", **wish), "PATCH nodes/NAME")
    assert list(offered(fleet, H100)) == [f"nvidia.com/mig-{layout.removeprefix('all-')}"]
    assert is_in_service(fleet, H100)


def test_sharing(fleet: Lab, disturbed: Disturbed) -> None:
    four = {"name": "four", "strategy": "time-slicing", "replicas": 4, "nodes": [T4, L40S]}
    kinds = ("PATCH nodes/NAME", "PATCH configmaps/NAME", "PATCH clusterpolicies/NAME")
    disturbed(lambda ansible: ansible.run(PLAYBOOKS / "sharing.yml", sharing_configs=[four]), *kinds)
    assert offered(fleet, T4)["nvidia.com/gpu"] == "16"
    gone = {"sharing_state": "absent"}
    disturbed(lambda ansible: ansible.run(PLAYBOOKS / "sharing.yml", **gone), "DELETE configmaps/NAME")
    assert offered(fleet, T4)["nvidia.com/gpu"] == "4" and is_in_service(fleet, T4)


def test_drivers(fleet: Lab, disturbed: Disturbed) -> None:
    first, second = "595.91.07", "600.10.01"
    version = second if set(versions(fleet).values()) == {first} else first
    fast = {"max_unavailable": "100%", "allow_disruption": True, "force_conflicts": True, "timeout": 60}
    wish = {"driver_container_version": version, "driver_container_registry": {"mode": "offline"}}
    wish |= {f"driver_container_{name}": value for name, value in fast.items()}
    kinds = ("PATCH nodes/NAME", "PATCH clusterpolicies/NAME")
    disturbed(lambda ansible: ansible.run(PLAYBOOKS / "upgrade_driver.yml", **wish), *kinds)
    assert set(versions(fleet).values()) == {version}


def test_a_drain(fleet: Lab, disturbed: Disturbed) -> None:
    body = {"metadata": {"name": "plain"}, "spec": {"nodeName": T4, "containers": [{"name": "c", "image": "c"}]}}
    fleet.kubectl("create", "--filename=-", stdin=json.dumps({"apiVersion": "v1", "kind": "Pod"} | body))
    options = {"nodes": [T4], "purpose": "test", "evict": "all", "force": True, "timeout": 60}
    disturbed(
        lambda ansible: ansible.module("gpuops.nvidia.node_maintenance", state="drained", **options),
        *("PATCH nodes/NAME", "POST pods/NAME/eviction"),
    )
    assert fleet.kubectl("get", "pods", "--namespace=default", "--field-selector=metadata.name=plain", "-oname") == ""
    restored = {"state": "restored", "purpose": "test"}
    disturbed(lambda ansible: ansible.module("gpuops.nvidia.node_maintenance", **restored), "PATCH nodes/NAME")
    assert is_in_service(fleet, T4)


def test_scheduling(fleet: Lab, disturbed: Disturbed) -> None:
    wish: dict[str, t.Any] = {
        "scheduling_quotas": [{"namespace": "research", "gpus": {"nvidia.com/gpu": 2}}],
        "scheduling_create_namespaces": True,
        "scheduling_priority_classes": [{"name": "gpu-training", "value": 1000}],
        "scheduling_taints": [{"key": "nvidia.com/gpu", "effect": "PreferNoSchedule", "nodes": [T4]}],
    }
    kinds = ("POST namespaces", "PATCH resourcequotas/NAME", "PATCH priorityclasses/NAME", "PATCH nodes/NAME")
    disturbed(lambda ansible: ansible.run(PLAYBOOKS / "scheduling.yml", **wish), *kinds)
    kinds = ("DELETE resourcequotas/NAME", "DELETE priorityclasses/NAME", "PATCH nodes/NAME")
    gone = disturbed(lambda ansible: ansible.run(PLAYBOOKS / "scheduling.yml"), *kinds)
    assert gone.changed == 2, gone.output
    fleet.kubectl("delete", "namespace", "research")


def test_a_removal(fleet: Lab, between: Proxy) -> None:
    disturbed = Disturbed(fleet, between, (failed(), LOST))
    gone = {"uninstall_allow_disruption": True, "uninstall_remove": ["all"]}
    kinds = ("DELETE clusterpolicies/NAME", "PATCH nodes/NAME", "DELETE namespaces/NAME")
    disturbed(lambda ansible: ansible.run(PLAYBOOKS / "uninstall.yml", **gone), *kinds)
    assert "gpu-operator" not in fleet.kubectl("get", "namespaces,deployments,daemonsets", "--all-namespaces", "-oname")
