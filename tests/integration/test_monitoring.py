# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""gpu_monitoring on the lab, and a real Prometheus that scrapes the exporters it has set up."""

from __future__ import annotations

import json
import time
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.monitoring.monitoring_objects import RELABELINGS

from lab import prometheus
from lab.cluster import Lab, faults, monitoring
from lab.errors import LabError, UnavailableError
from tests.support.ansible import ROOT, Playbook, Run, on
from tests.support.labs import running_lab
from tests.support.monitoring import (
    apply,
    install_kinds,
    prometheus_object,
    remove_kinds,
    scrape_configuration,
    status_targets,
)

pytestmark = pytest.mark.slow("exporters are replaced one after the other, and scraped")

MODULE = "gpuops.nvidia.gpu_monitoring"
PLAYBOOK = ROOT / "playbooks" / "monitoring.yml"
STATUS_ON = json.dumps({"spec": {"nodeStatusExporter": {"enabled": True}}})
PICKY = {"serviceMonitorSelector": {"matchLabels": {"release": "kps"}}, "serviceMonitorNamespaceSelector": {}}
PICKY |= {"ruleSelector": {"matchLabels": {"release": "kps"}}, "ruleNamespaceSelector": {}}


@pytest.fixture(scope="module", name="lab")
def own_lab() -> t.Iterator[Lab]:
    with running_lab("monitoring") as found:
        found.deploy()
        yield found


@pytest.fixture(name="ansible")
def playbooks(lab: Lab) -> Playbook:
    return on(lab)


@pytest.fixture
def kinds(lab: Lab) -> t.Iterator[None]:
    install_kinds(lab)
    lab.kubectl("create", "namespace", "monitoring")
    yield
    remove_kinds(lab)
    lab.kubectl("delete", "namespace", "monitoring")


def answer(run: Run) -> dict[str, t.Any]:
    assert run.status == 0, run.output
    return dict(json.loads(run.output.partition("=> ")[2]))


def check(ansible: Playbook, **options: t.Any) -> dict[str, t.Any]:
    command = ["ansible", "localhost", "--check", "--diff", "--module-name", MODULE, "--args", json.dumps(options)]
    run = ansible.finish(ansible.command(command), 120)
    assert run.status == 0, run.output
    return dict(json.loads(run.output[run.output.index("=> ") + 3 :]))


def state_of(lab: Lab) -> str:
    kinds = "configmaps,servicemonitors,prometheusrules"
    found = lab.kubectl(
        "get", kinds, "--namespace=gpu-operator", "--selector=gpuops.nvidia/monitoring", "--output=name"
    )
    spec = lab.kubectl("get", "clusterpolicies", "--output=jsonpath={.items[0].spec.dcgmExporter}")
    return found + spec


@pytest.mark.usefixtures("kinds")
def test_metrics_come_and_go(lab: Lab, ansible: Playbook) -> None:
    apply(lab, prometheus_object("kps", **PICKY))
    before = state_of(lab)
    options = {"dashboards": {"fleet": {"title": "Fleet"}}, "alert_labels": {"team": "gpu"}}
    foretold = check(ansible, **options)
    assert foretold["changed"] and state_of(lab) == before
    made = answer(ansible.module(MODULE, **options))
    assert {key: made[key] for key in ("objects", "removed", "fields", "alerts")} == {
        key: foretold[key] for key in ("objects", "removed", "fields", "alerts")
    }
    assert "DCGM_FI_DEV_ROW_REMAP_PENDING" in made["metrics"] and "GpuLost" in made["alerts"]
    name = made["config_map"].partition("/")[2]
    assert name in lab.kubectl("get", "daemonset", "nvidia-dcgm-exporter", "--namespace=gpu-operator", "--output=json")
    labels = json.loads(lab.kubectl("get", "servicemonitors,prometheusrules", "--all-namespaces", "--output=json"))
    chosen = {item["metadata"]["name"]: item["metadata"]["labels"].get("release") for item in labels["items"]}
    ours = ("gpuops-dcgm-exporter", "gpuops-gpu-operator", "gpuops-node-status-exporter", "gpuops-gpu-rules")
    assert chosen == dict.fromkeys(ours, "kps") | {"nvidia-dcgm-exporter": None}
    assert not answer(ansible.module(MODULE, **options))["changed"]

    without = {"DCGM_EXP_XID_ERRORS_COUNT", "DCGM_EXP_CLOCK_EVENTS_COUNT"}
    served = answer(ansible.module("gpuops.nvidia.dcgm_exporter_info", metrics=sorted({*made["metrics"]} - without)))
    assert served["ok"], served["reason"]

    changed = answer(ansible.module(MODULE, **options, presets=["default"], alerts=False))
    assert changed["changed"] and made["config_map"] in "".join(changed["removed"])
    gone = check(ansible, state="absent")
    assert gone["changed"]
    removed = answer(ansible.module(MODULE, state="absent"))
    assert removed["removed"] == gone["removed"] and state_of(lab) == before
    assert not answer(ansible.module(MODULE, state="absent"))["changed"]


def test_a_real_prometheus_names_the_node_that_lost_a_gpu(lab: Lab, ansible: Playbook) -> None:
    made = answer(ansible.module(MODULE, scrape=True))
    groups = yaml.safe_load(made["rules"])["groups"]
    del next(rule for rule in groups[1]["rules"] if rule["alert"] == "GpuLost")["for"]
    try:
        with prometheus.running(scrape_configuration(lab, RELABELINGS), {"groups": groups}) as server:
            until(lambda: len(server.values("gpuops:node_gpus:count == 8")) == 4)
            for field in made["metrics"]:
                if not field.startswith("DCGM_EXP_"):
                    labels = [each["metric"] for each in server.values(field)]
                    assert len(labels) == 32 and not {"pod", "namespace"} & set(labels[0]), field
            assert server.alerts() == []
            faults.exporter(lab, "gpu-0001", 7)
            until(lambda: bool(server.alerts()))
            (alert,) = server.alerts()
            assert alert["labels"] == {"alertname": "GpuLost", "node": "gpu-0001", "severity": "critical"}
            assert "gpu-0001" in alert["annotations"]["summary"] and "#gpulost" in alert["annotations"]["runbook_url"]
    except UnavailableError as reason:
        pytest.skip(str(reason))
    finally:
        faults.clear(lab)


@pytest.mark.wide
def test_a_real_prometheus_names_the_node_whose_driver_does_not_answer(lab: Lab, ansible: Playbook) -> None:
    groups = yaml.safe_load(answer(ansible.module(MODULE, scrape=True))["rules"])["groups"]
    del next(rule for rule in groups[1]["rules"] if rule["alert"] == "GpuDriverNotAnswering")["for"]
    name = lab.kubectl("get", "clusterpolicies", "--output=jsonpath={.items[0].metadata.name}")
    lab.kubectl("patch", "clusterpolicy", name, "--type=merge", f"--patch={STATUS_ON}")
    until(lambda: len(status_targets(lab)) == 4)
    job = {"job_name": "nvidia-node-status-exporter", "honor_labels": True, "static_configs": status_targets(lab)}
    timing = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    try:
        with prometheus.running({"global": timing, "scrape_configs": [job]}, {"groups": groups}) as server:
            until(lambda: len(server.values("gpu_operator_node_driver_validation == 1")) == 4)
            assert server.alerts() == []
            faults.silent_driver(lab, "gpu-0002")
            until(lambda: bool(server.alerts()))
            (alert,) = server.alerts()
            assert (alert["labels"]["alertname"], alert["labels"]["node"]) == ("GpuDriverNotAnswering", "gpu-0002")
    except UnavailableError as reason:
        pytest.skip(str(reason))
    finally:
        faults.clear(lab)


@pytest.mark.wide
def test_a_newcomer_sees_the_alert_of_a_fault_in_a_real_prometheus(lab: Lab, ansible: Playbook, tmp_path: Path) -> None:
    """What docs/start/lab.md shows."""
    assert ansible.run(PLAYBOOK, monitoring_folder=str(tmp_path)).status == 0
    with pytest.raises(LabError, match=r"There is no file .*rules\.yml"):
        monitoring.serve(lab, tmp_path / "rules.yml")
    try:
        url, nodes = monitoring.serve(lab, tmp_path / "gpu_rules.yml")
    except UnavailableError as reason:
        pytest.skip(str(reason))
    server = prometheus.Prometheus(url)
    until(lambda: len(server.values("gpuops:node_gpus:count == 8")) == nodes == 4)
    assert server.alerts() == [] and lab.status().phase == "up"
    faults.xid(lab, "gpu-0003", 79)
    assert faults.active(lab) == ["node gpu-0003: Xid 79"]
    until(lambda: bool(server.alerts()))
    (alert,) = server.alerts()
    assert (alert["labels"]["alertname"], alert["labels"]["node"]) == ("GpuXidReboot", "gpu-0003")
    assert "restart the machine" in alert["annotations"]["description"]
    faults.clear(lab)
    assert monitoring.serve(lab, tmp_path / "gpu_rules.yml")[0] == url
    (tmp_path / "odd.yml").write_text("groups: 1")
    with pytest.raises(LabError, match="Prometheus did not start"):
        monitoring.serve(lab, tmp_path / "odd.yml")
    assert "prometheus" not in lab.state.components


def until(condition: t.Callable[[], bool], timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"The condition was not met within {timeout:.0f} s."
        time.sleep(0.5)


def test_the_playbook_writes_files_and_takes_them_away(lab: Lab, ansible: Playbook, tmp_path: Path) -> None:
    answer(ansible.module(MODULE, state="absent"))
    before, folder = state_of_policy(lab), tmp_path / "monitoring"
    wanted = {"monitoring_folder": str(folder), "monitoring_alerts_off": ["GpuHeldIdle"]}
    wanted["monitoring_job_directory"] = "/run/jobs"
    files = json.dumps({"0": "4711\n\n4712\n", "1": ""})
    lab.kubectl("annotate", "node", "gpu-0000", f"lab.gpuops.nvidia/jobs={files}")
    check, run, again = (ansible.run(PLAYBOOK, *options, **wanted) for options in (["--check"], [], []))
    assert check.status == run.status == again.status == 0, run.output
    assert check.changed == run.changed > 0 == again.changed, run.output
    assert " of 4 exporters" in run.output, "How many answer at once depends on how busy the lab is."
    odd = "gpu-0000: The files of jobs have an empty line for GPU 0."
    seen = answer(ansible.module("gpuops.nvidia.gpu_metrics_info", nodes=["gpu-0000"]))
    assert [gpu["jobs"] for gpu in seen["gpus"][:2]] == [["4711", "4712"], []]
    assert odd in again.output
    rules, jobs = folder / "gpu_rules.yml", folder / "gpu_scrape.yml"
    try:
        assert prometheus.promtool("check", "rules", rules)[0] == 0
        # Debian's build knows no service discovery of Kubernetes.
        known = yaml.safe_load(jobs.read_text())
        found = [job.pop("kubernetes_sd_configs") for job in known["scrape_configs"]]
        (tmp_path / "jobs.yml").write_text(yaml.safe_dump(known))
        assert prometheus.promtool("check", "config", tmp_path / "jobs.yml")[0] == 0
        assert found == [[{"role": "pod", "namespaces": {"names": ["gpu-operator"]}}]] * 3
    except UnavailableError as reason:
        pytest.skip(str(reason))
    assert "GpuLost" in rules.read_text() and "GpuHeldIdle" not in rules.read_text()
    assert "GpuLost" in str(yaml.safe_load((folder / "gpu_alertmanager.yml").read_text())["inhibit_rules"])
    gone = ansible.run(PLAYBOOK, monitoring_state="absent", **wanted)
    assert gone.status == 0 and list(folder.iterdir()) == [] and state_of_policy(lab) == before, gone.output


WRONG: dict[str, tuple[dict[str, t.Any], str]] = {
    "field": (
        {"fields": [{"name": "DCGM_FI_DEV_GPU_TMP", "type": "gauge", "help": "x"}]},
        "use DCGM_FI_DEV_GPU_TEMP",
    ),
    "twice": ({"fields": [{"name": "DCGM_FI_DEV_FB_TOTAL", "type": "gauge", "help": "x"}] * 2}, "is there 2 times"),
    "alert": ({"alerts_off": ["GpuIdle"]}, "There is no alert GpuIdle"),
    "duration": ({"thresholds": {"idle_after": "2 hours"}}, "thresholds.idle_after is '2 hours'"),
    "dashboard": ({"dashboards": {"fleet": "{"}}, "dashboards.fleet is no JSON"),
}


def test_wrong_options_change_nothing_and_are_named(lab: Lab, ansible: Playbook) -> None:
    before = state_of_policy(lab)
    for options, said in WRONG.values():
        run = ansible.module(MODULE, **options)
        assert run.status != 0 and said in run.message, run.output
    assert state_of_policy(lab) == before


def state_of_policy(lab: Lab) -> str:
    return lab.kubectl("get", "clusterpolicies", "--output=jsonpath={.items[0].spec}")


@pytest.mark.usefixtures("kinds")
def test_a_prometheus_that_would_ignore_the_objects(lab: Lab, ansible: Playbook) -> None:
    before = state_of_policy(lab)
    apply(lab, prometheus_object("one", **{**PICKY, "ruleNamespaceSelector": {"matchLabels": {"watched": "yes"}}}))
    run = ansible.module(MODULE, scrape=True)
    assert "ruleNamespaceSelector of Prometheus monitoring/one does not choose" in run.message, run.output
    apply(lab, prometheus_object("two", **PICKY))
    run = ansible.module(MODULE, scrape=True)
    assert "several Prometheus objects: monitoring/one, monitoring/two" in run.message, run.output
    assert state_of_policy(lab) == before


def test_the_objects_go_with_the_clusterpolicy(lab: Lab, ansible: Playbook) -> None:
    name = answer(ansible.module(MODULE, scrape=True))["config_map"].partition("/")[2]
    lists = ["get", "configmaps", "--namespace=gpu-operator", "--selector=gpuops.nvidia/monitoring", "--output=name"]
    assert lab.kubectl(*lists).strip() == f"configmap/{name}"
    lab.kubectl("delete", "clusterpolicies", "--all")
    until(lambda: not lab.kubectl(*lists).strip())
