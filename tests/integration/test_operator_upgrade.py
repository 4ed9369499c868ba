# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operator moves to the next line and back, while drivers and GPU pods stay, also when it fails or is killed."""

from __future__ import annotations

import json
import shutil
import stat
import typing as t
from pathlib import Path

import pytest

from lab.cluster import Lab, faults
from tests.integration.test_lines import JOB, managers, policy, replace
from tests.support import waits
from tests.support.ansible import OPERATOR, ROOT, SITE, Playbook, Run, kill_all

pytestmark = pytest.mark.slow("the operator moves to the next line and back, and pods become ready each time")

UPGRADE = ROOT / "playbooks" / "upgrade_operator.yml"
SKIP = "nvidia.com/gpu-driver-upgrade.skip"
OLD, NEW = "v26.3.3", "v26.7.0"
OLD_DRIVER = "580.126.20"


@pytest.fixture
def former(lab: Lab, tmp_path: Path) -> str:
    return older_chart(lab, tmp_path)


def older_chart(lab: Lab, folder: Path) -> str:
    """Return a chart like v26.3.3: with the ClusterPolicy, an older CRD, and an older driver."""
    chart = folder / "gpu-operator"
    shutil.copytree(lab.chart, chart)
    replace(chart / "Chart.yaml", r"v26\.7\.0", OLD)
    replace(chart / "values.yaml", r"(?m)^clusterPolicy:\n  deployCR: true\n", "")
    replace(chart / "values.yaml", r"595\.91\.07", OLD_DRIVER)
    replace(chart / "templates" / "clusterpolicy.yaml", r"\.Values\.clusterPolicy\.deployCR", "true")
    replace(chart / "templates" / "validations.yaml", r"\$v\.clusterPolicy\.deployCR", "true")
    replace(chart / "crds" / "nvidia.com_clusterpolicies.yaml", r" *kubeletRootDir: \{.*\}\n", "")
    # Node Feature Discovery 0.18.3 has no schema of its values.
    replace(chart / "Chart.yaml", r"0\.19\.0", "0.18.3")
    discovery = chart / "charts" / "node-feature-discovery"
    replace(discovery / "Chart.yaml", r"0\.19\.0", "0.18.3")
    (discovery / "values.schema.json").unlink()
    return str(chart)


@pytest.fixture
def wanted(lab: Lab, ansible: Playbook, former: str, tmp_path: Path) -> t.Iterator[dict[str, t.Any]]:
    """Install the older operator with a GPU pod, and return the variables of its upgrade."""
    ansible.set_up("clean")
    succeeded(ansible.run(OPERATOR, operator_chart_ref=former))
    lab.kubectl("create", "--filename=-", stdin=json.dumps(JOB))
    yield {"operator_upgrade_former_chart_ref": former, "operator_upgrade_snapshot_folder": str(tmp_path / "kept")}
    faults.clear(lab)
    lab.kubectl("delete", "pod", "training", "--force", "--grace-period=0", "--ignore-not-found")
    # Otherwise the operator upgrades the drivers as soon as they are no longer held, in the middle of another test.
    ansible.set_up("clean")
    for name in held(lab):
        lab.kubectl("label", "node", name, f"{SKIP}-")
        lab.kubectl("annotate", "node", name, "gpuops.nvidia/driver-rollout-")


def uids(lab: Lab, *query: str) -> set[str]:
    listed = lab.kubectl("get", "pods", *query, "--output=jsonpath={.items[*].metadata.uid}")
    return set(listed.split())


def drivers(lab: Lab) -> set[str]:
    return uids(lab, "--namespace=gpu-operator", "--selector=app=nvidia-driver-daemonset")


def held(lab: Lab) -> list[str]:
    listed = lab.kubectl("get", "nodes", f"--selector={SKIP}=true", "--output=jsonpath={.items[*].metadata.name}")
    return listed.split()


def operator_image(lab: Lab) -> str:
    path = "{.spec.template.spec.containers[0].image}"
    return lab.kubectl("get", "deployment", "gpu-operator", "--namespace=gpu-operator", f"--output=jsonpath={path}")


def knows_kubelet_root(lab: Lab) -> bool:
    return "kubeletRootDir" in lab.kubectl("get", "crd", "clusterpolicies.nvidia.com", "--output=json")


def kept(wanted: dict[str, t.Any]) -> tuple[Path, dict[str, t.Any]]:
    [path] = Path(wanted["operator_upgrade_snapshot_folder"]).glob("*.json")
    return path, json.loads(path.read_text())


def succeeded(run: Run) -> Run:
    assert run.status == 0, run.output
    return run


def test_up_with_the_drivers_held(lab: Lab, ansible: Playbook, wanted: dict[str, t.Any]) -> None:
    running = (drivers(lab), uids(lab))
    check = succeeded(ansible.run(UPGRADE, "--check", **wanted))
    assert "interrupts" not in check.output and held(lab) == [] and operator_image(lab).endswith(OLD)
    first = succeeded(ansible.run(UPGRADE, **wanted))
    assert first.changed == check.changed > 0, check.output + first.output
    owners = {"gpuops.nvidia", "gpuops.nvidia-kept-driver"}
    assert operator_image(lab).endswith(NEW) and managers(lab) == owners and knows_kubelet_root(lab)
    assert (drivers(lab), uids(lab)) == running, "Drivers and GPU pods should stay."
    assert policy(lab)["spec"]["driver"]["version"] == OLD_DRIVER and len(held(lab)) == len(drivers(lab)) > 0
    assert "driver pods" in first.output
    path, content = kept(wanted)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and content["closed"] == "upgraded"
    assert content["release"]["app_version"] == OLD and content["target"] == NEW
    again = succeeded(ansible.run(UPGRADE, **wanted))
    assert again.changed == 0, again.output
    site = succeeded(ansible.run(SITE, "--check"))
    assert site.changed == 0, f"The kept driver should be no change for site.yml. {site.output}"


@pytest.mark.wide
def test_values_that_the_next_node_feature_discovery_refuses_stop_the_upgrade(
    lab: Lab, ansible: Playbook, wanted: dict[str, t.Any], former: str
) -> None:
    values = {"node-feature-discovery": {"worker": {"config": "sources: {}"}}}
    succeeded(ansible.run(OPERATOR, operator_chart_ref=former, operator_values=values))
    for arguments in (["--check"], []):
        refused = ansible.run(UPGRADE, *arguments, operator_values=values, **wanted)
        assert (refused.status, refused.changed) == (2, 0), refused.output
        assert "node-feature-discovery: at '/worker/config': got string, want null or object" in refused.output
    assert operator_image(lab).endswith(OLD) and not Path(wanted["operator_upgrade_snapshot_folder"]).exists()
    assert not knows_kubelet_root(lab) and held(lab) == []


@pytest.mark.wide
def test_back_with_the_drivers_held(lab: Lab, ansible: Playbook, wanted: dict[str, t.Any]) -> None:
    running, spec = (drivers(lab), uids(lab)), policy(lab)["spec"]
    succeeded(ansible.run(UPGRADE, **wanted))
    predicted = succeeded(ansible.run(UPGRADE, "--check", operator_upgrade_state="restored", **wanted))
    back = succeeded(ansible.run(UPGRADE, operator_upgrade_state="restored", **wanted))
    assert back.changed == predicted.changed > 0, predicted.output + back.output
    assert operator_image(lab).endswith(OLD) and managers(lab) == {"helm"} and not knows_kubelet_root(lab)
    assert policy(lab)["spec"] == spec and (drivers(lab), uids(lab)) == running and held(lab) == []
    assert not lab.kubectl("get", "nodes", "--selector=nvidia.com/gpu-driver-upgrade-state=upgrade-required", "-oname")
    assert kept(wanted)[1]["closed"] == "restored"
    once_more = succeeded(ansible.run(UPGRADE, operator_upgrade_state="restored", **wanted))
    assert once_more.changed == 0, once_more.output


@pytest.mark.wide
def test_without_the_permission_to_interrupt_gpu_pods_nothing_is_begun(
    lab: Lab, ansible: Playbook, wanted: dict[str, t.Any], former: str
) -> None:
    newer = Path(former).parent / "newer"
    shutil.copytree(lab.chart, newer)
    replace(newer / "values.yaml", r"(?m)(^toolkit:\n(?:  .*\n)*?  version: ).*$", r"\1v9.9.9")
    run = ansible.run(UPGRADE, operator_chart_ref=str(newer), **wanted)
    assert run.status == 2 and run.changed == 0, run.output
    assert "toolkit.version" in run.message and "(default/training) on 1 node" in run.message, run.message
    assert "operator_allow_disruption" in run.message and "evicts" not in run.message
    assert operator_image(lab).endswith(OLD) and held(lab) == []
    assert not list(Path(wanted["operator_upgrade_snapshot_folder"]).glob("*.json"))


@pytest.mark.wide
def test_an_upgrade_divides_no_gpu_that_a_pod_uses(lab: Lab, ansible: Playbook, wanted: dict[str, t.Any]) -> None:
    """Each upgrade starts the MIG managers again, and they try once more what failed before."""
    name = JOB["spec"]["nodeName"]
    state = ("get", "node", name, r"--output=jsonpath={.metadata.labels.nvidia\.com/mig\.config\.state}")
    lab.kubectl("label", "node", name, "nvidia.com/mig.config=all-1g.10gb", "--overwrite")
    try:
        waits.sees(lambda: lab.kubectl(*state) == "failed", 60)
        accepted = {**wanted, "operator_upgrade_accept": ["not_ready"]}
        for flags in (["--check"], []):
            run = ansible.run(UPGRADE, *flags, **accepted)
            assert run.status == 2 and run.changed == 0, run.output
            assert f"divide the GPUs of {name} (all-1g.10gb, state failed)" in run.message, run.message
            assert f"1 GPU pod (default/training) on 1 node ({name})" in run.message, run.message
        assert "warning mig_layouts" in run.output, run.output
        assert operator_image(lab).endswith(OLD) and held(lab) == []
    finally:
        lab.kubectl("delete", "pod", "training", "--force", "--grace-period=0")
        succeeded(ansible.module("gpuops.nvidia.mig_config", layout="all-disabled", nodes=[name], timeout=60))


@pytest.mark.deep
def test_a_failed_upgrade_goes_back_and_says_what_it_put_back(
    lab: Lab, ansible: Playbook, wanted: dict[str, t.Any]
) -> None:
    running, spec = (drivers(lab), uids(lab)), policy(lab)["spec"]
    faults.stuck_operator(lab, rollout=False)
    run = ansible.run(UPGRADE, operator_wait_timeout=60, **wanted)
    assert run.status == 2 and f"The upgrade to {NEW} failed: " in run.message, run.output
    assert f"back at {OLD}" in run.message and "Helm release gpu-operator" in run.message
    assert "ClusterPolicy cluster-policy: set back" in run.message
    assert operator_image(lab).endswith(OLD) and policy(lab)["spec"] == spec and not knows_kubelet_root(lab)
    assert (drivers(lab), uids(lab)) == running and held(lab) == []


@pytest.mark.deep
def test_a_killed_upgrade_goes_on_and_still_knows_the_way_back(
    lab: Lab, ansible: Playbook, wanted: dict[str, t.Any]
) -> None:
    running = (drivers(lab), uids(lab))
    process = ansible.plain.start(UPGRADE, **wanted)
    waits.sees(lambda: operator_image(lab).endswith(NEW), 120)
    kill_all(process)
    assert kept(wanted)[1]["closed"] == "" and len(held(lab)) > 0
    succeeded(ansible.run(UPGRADE, operator_break_lock=True, operator_helm_timeout="1s", **wanted))
    assert (drivers(lab), uids(lab)) == running and kept(wanted)[1]["release"]["app_version"] == OLD
    assert kept(wanted)[1]["closed"] == "upgraded" and operator_image(lab).endswith(NEW)


@pytest.mark.wide
def test_what_is_not_known_or_not_supported_is_refused(
    lab: Lab, ansible: Playbook, wanted: dict[str, t.Any], former: str
) -> None:
    replace(Path(former) / "Chart.yaml", OLD.replace(".", r"\."), "v26.9.0")
    run = ansible.run(UPGRADE, **{**wanted, "operator_chart_ref": former})
    assert run.status == 2 and "from v26.7 to v26.9" in run.message, run.output
    assert operator_image(lab).endswith(OLD) and held(lab) == [] and run.changed == 0
