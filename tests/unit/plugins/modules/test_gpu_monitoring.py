# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import ownership
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics import dcgm_fields
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import DAEMONSETS, DEPLOYMENTS, POLICIES, FakeApi, Reply, refusal
from tests.unit.fakes.managed import entry

Json = dict[str, t.Any]

MAPS = "/api/v1/namespaces/gpu-operator/configmaps"
MONITORING = "/apis/monitoring.coreos.com/v1"
MONITORS = f"{MONITORING}/namespaces/gpu-operator/servicemonitors"
RULES = f"{MONITORING}/namespaces/gpu-operator/prometheusrules"
SERVERS = f"{MONITORING}/prometheuses"
NAMESPACES = "/api/v1/namespaces"
DASHBOARD = {"fleet": {"title": "Fleet", "expr": "DCGM_FI_DEV_FB_TOTAL"}}


@pytest.fixture
def module(run_module: t.Callable, api: FakeApi) -> t.Callable:
    """The module on a stack whose operator gives the exporters the list that the ClusterPolicy names."""
    api.lists |= {MAPS: [], MONITORS: [], RULES: [], SERVERS: [], NAMESPACES: [namespace()]}
    real = api.handle

    def handle(method: str, target: str, accept: str, body: Json | None) -> t.Any:
        conflict = conflict_of(api, target, body) if method == "PATCH" else None
        reply = conflict or real(method, target, accept, body)
        if method == "PATCH" and "clusterpolicies" in target and "dryRun" not in target:
            mount(api, config(api).get("name"), folder=jobs(api).get("directory"))
        return reply

    api.handle = handle  # type: ignore[method-assign]
    mount(api, None)
    run_operator(api, "v26.7.0")
    return functools.partial(run_module, "gpu_monitoring", **api.connection)


def run_operator(api: FakeApi, tag: str) -> None:
    container = {"name": "gpu-operator", "image": f"nvcr.io/nvidia/gpu-operator:{tag}"}
    template = {"metadata": {"labels": {"app": "gpu-operator"}}, "spec": {"containers": [container]}}
    api.lists[DEPLOYMENTS][0].setdefault("spec", {})["template"] = template


def namespace(**labels: str) -> Json:
    return {"metadata": {"name": "gpu-operator", "labels": {"kubernetes.io/metadata.name": "gpu-operator", **labels}}}


def server(name: str = "kps", **spec: t.Any) -> Json:
    labels = {"matchLabels": {"release": name}}
    selectors = {"serviceMonitorSelector": labels, "serviceMonitorNamespaceSelector": {}}
    selectors |= {"ruleSelector": labels, "ruleNamespaceSelector": {}}
    return {"metadata": {"name": name, "namespace": "monitoring"}, "spec": {**selectors, **spec}}


def exporter(api: FakeApi) -> Json:
    return next(item for item in api.lists[DAEMONSETS] if item["metadata"]["name"] == "nvidia-dcgm-exporter")


def mount(api: FakeApi, name: str | None, updated: int = 2, folder: str | None = None) -> None:
    """Let the operator roll out the exporters."""
    item = exporter(api)
    volumes: list[Json] = [{"name": "metrics-config", "configMap": {"name": name}}] if name else []
    volumes += [{"name": "hpc-job-mapping", "hostPath": {"path": folder}}] if folder else []
    item["spec"].setdefault("template", {}).setdefault("spec", {})["volumes"] = volumes
    item["metadata"]["generation"] = 2
    item["status"] = {"observedGeneration": 2, "desiredNumberScheduled": 2, "updatedNumberScheduled": updated}


def policy(api: FakeApi) -> Json:
    return dict(api.lists[POLICIES][0]["spec"])


def config(api: FakeApi) -> Json:
    return dict((policy(api).get("dcgmExporter") or {}).get("config") or {})


def jobs(api: FakeApi) -> Json:
    return dict((policy(api).get("dcgmExporter") or {}).get("hpcJobMapping") or {})


def names(api: FakeApi, path: str) -> list[str]:
    return [item["metadata"]["name"] for item in api.lists[path]]


def writes(api: FakeApi) -> list[str]:
    return [f"{method} {path}" for method, path, query in api.log if method != "GET" and "dryRun" not in query]


def test_all_of_it_comes_and_a_second_run_changes_nothing(module: t.Callable, api: FakeApi) -> None:
    api.lists[SERVERS] = [server()]
    run = module(dashboards=DASHBOARD, alert_labels={"team": "gpu"})
    assert (run.rc, run.result["changed"], run.warnings) == (0, True, [])
    (name,) = [each for each in names(api, MAPS) if each.startswith("gpuops-dcgm-fields-")]
    assert config(api) == {"name": name} and run.result["config_map"] == f"gpu-operator/{name}"
    assert names(api, MAPS) == [name, "gpuops-dashboard-fleet"]
    assert names(api, MONITORS) == ["gpuops-dcgm-exporter", "gpuops-node-status-exporter", "gpuops-gpu-operator"]
    assert names(api, RULES) == ["gpuops-gpu-rules"]
    made = [item for path in (MAPS, MONITORS, RULES) for item in api.lists[path]]
    assert all(item["metadata"]["labels"]["gpuops.nvidia/monitoring"] == "cluster-policy" for item in made)
    assert all(item["metadata"]["ownerReferences"][0]["kind"] == "ClusterPolicy" for item in made)
    assert api.lists[RULES][0]["metadata"]["labels"]["release"] == "kps"
    listed = api.lists[MAPS][0]["data"]["dcgm-metrics.csv"]
    assert "DCGM_FI_DEV_FB_TOTAL,gauge," in listed and "DCGM_FI_DEV_ROW_REMAP_PENDING,gauge," in listed
    assert "DCGM_FI_DRIVER_VERSION" in run.result["fields"] and "DCGM_FI_DRIVER_VERSION" not in run.result["metrics"]
    rules = yaml.safe_load(run.result["rules"])
    assert rules == {"groups": api.lists[RULES][0]["spec"]["groups"]}
    assert {rule["labels"]["team"] for rule in rules["groups"][1]["rules"]} == {"gpu"}
    assert [rule["alert"] for rule in rules["groups"][1]["rules"]] == run.result["alerts"]
    assert len(yaml.safe_load(run.result["scrape_config"])["scrape_configs"]) == 3
    (route,) = yaml.safe_load(run.result["alertmanager_config"])["route"]["routes"]
    assert route["group_by"] == ["alertname"] and "receiver" not in route
    assert "gpuops-gpu-rules" in run.result["diff"]["after"] and name in run.result["diff"]["after"]
    done = writes(api)
    again = module(dashboards=DASHBOARD, alert_labels={"team": "gpu"})
    assert not again.result["changed"] and writes(api) == done
    assert again.result["objects"] == run.result["objects"]
    assert again.result["diff"]["before"] == again.result["diff"]["after"]


def test_check_mode_foretells_and_writes_nothing(module: t.Callable, api: FakeApi) -> None:
    foretold = module(dashboards=DASHBOARD, _ansible_check_mode=True)
    assert foretold.result["changed"] and writes(api) == []
    assert foretold.result == module(dashboards=DASHBOARD).result
    gone = module(state="absent", _ansible_check_mode=True)
    done = writes(api)
    assert gone.result["changed"] and writes(api) == done
    assert gone.result == module(state="absent").result


def test_another_list_replaces_the_former_once_the_exporters_have_it(module: t.Callable, api: FakeApi) -> None:
    (old,) = [module().result["config_map"].partition("/")[2]]
    foretold = module(presets=["default"], _ansible_check_mode=True)
    run = module(presets=["default"])
    assert run.result["removed"] == foretold.result["removed"] == [f"ConfigMap gpu-operator/{old}"]
    assert names(api, MAPS) == [config(api)["name"]] != [old]
    last, first = writes(api)[-1], writes(api).index(f"PATCH {MAPS}/{config(api)['name']}")
    assert last == f"DELETE {MAPS}/{old}" and first < len(writes(api)) - 1


def test_a_call_that_does_not_wait_leaves_the_former_list(module: t.Callable, api: FakeApi) -> None:
    old = module().result["config_map"].partition("/")[2]
    run = module(presets=["default"], wait=False)
    assert run.result["removed"] == [] and sorted(names(api, MAPS)) == sorted([old, config(api)["name"]])
    again = module(presets=["default"])
    assert again.result["changed"] and names(api, MAPS) == [config(api)["name"]]


def test_a_list_that_changed_since_it_was_read_stays(module: t.Callable, api: FakeApi) -> None:
    old = module().result["config_map"].partition("/")[2]
    api.answer = lambda method, path: (
        refusal(409, "the precondition does not match", "Conflict")
        if (method, path) == ("DELETE", f"{MAPS}/{old}")
        else None
    )
    run = module(presets=["default"])
    assert run.rc == 1 and run.result["reason"] == "Conflict" and old in names(api, MAPS)


def test_a_list_that_another_call_has_made_meanwhile_stays(module: t.Callable, api: FakeApi) -> None:
    old = module().result["config_map"].partition("/")[2]
    newer = {"metadata": {"name": "newer", "labels": dict(api.lists[MAPS][0]["metadata"]["labels"])}}

    def answer(method: str, path: str) -> None:
        if path == DAEMONSETS and "newer" not in names(api, MAPS):
            api.lists[MAPS].append({**newer, "data": {"dcgm-metrics.csv": ""}})

    api.answer = answer
    assert module(presets=["default"]).result["removed"] == [f"ConfigMap gpu-operator/{old}"]
    assert sorted(names(api, MAPS)) == sorted([config(api)["name"], "newer"])


def test_a_list_that_somebody_else_names_stays(module: t.Callable, api: FakeApi) -> None:
    name = module().result["config_map"].partition("/")[2]
    theirs = entry("helm", {"f:dcgmExporter": {"f:config": {"f:name": {}}}}, "Update")
    api.lists[POLICIES][0]["metadata"]["managedFields"].append(theirs)
    foretold = module(state="absent", _ansible_check_mode=True)
    run = module(state="absent")
    said = [each.replace(name, "NAME") for each in run.warnings]
    assert said == wording(["helm still names the ConfigMap NAME in the ClusterPolicy, so it stays."])
    assert foretold.warnings == run.warnings
    assert config(api) == {"name": name} and names(api, MAPS) == [name]
    assert foretold.result == run.result and f"ConfigMap gpu-operator/{name}" not in run.result["removed"]


def test_where_nothing_is_there_to_be_removed_nothing_is_waited_for(module: t.Callable, api: FakeApi) -> None:
    api.lists[DAEMONSETS].clear()
    run = module(state="absent", wait_timeout=0)
    assert run.rc == 0 and not run.result["changed"]


@pytest.mark.parametrize("is_there", [True, False], ids=["a list that nobody names", "a list that is gone"])
def test_what_is_left_of_a_list_is_waited_for(module: t.Callable, api: FakeApi, is_there: bool) -> None:
    module()
    api.answer = lambda method, path: mount(api, "x", updated=1) if path == DAEMONSETS else None
    if is_there:
        api.lists[POLICIES][0]["spec"]["dcgmExporter"] = {}
        api.lists[POLICIES][0]["metadata"]["managedFields"] = []
    else:
        api.lists[MAPS].clear()
    run = module(state="absent", wait_timeout=0)
    assert run.result["reason"] == "TimedOut" and len(names(api, MAPS)) == is_there


def test_it_goes_without_a_trace(module: t.Callable, api: FakeApi) -> None:
    api.lists[MAPS].append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs"}, "data": {}})
    before = policy(api)
    module(dashboards=DASHBOARD)
    run = module(state="absent")
    assert run.result["changed"] and len(run.result["removed"]) == 6 and run.result["config_map"] == ""
    assert (names(api, MAPS), names(api, MONITORS), names(api, RULES)) == (["theirs"], [], [])
    assert config(api) == {} and {**policy(api), "dcgmExporter": {}} == {**before, "dcgmExporter": {}}
    assert not module(state="absent").result["changed"]


def test_jobs_are_mapped_as_long_as_they_are_asked_for(module: t.Callable, api: FakeApi) -> None:
    foretold = module(job_directory="/run/jobs/", _ansible_check_mode=True)
    assert foretold.result["changed"] and jobs(api) == {}
    run = module(job_directory="/run/jobs/")
    assert jobs(api) == {"enabled": True, "directory": "/run/jobs"}
    assert run.result["diff"] == foretold.result["diff"] and '"directory": "/run/jobs"' in run.result["diff"]["after"]
    done = writes(api)
    assert not module(job_directory="/run/jobs").result["changed"] and writes(api) == done
    foretold = module(_ansible_check_mode=True)
    run = module()
    assert run.result["changed"] and jobs(api) == {} and run.result["diff"] == foretold.result["diff"]
    module(job_directory="/run/jobs")
    assert module(state="absent").result["changed"] and jobs(api) == {}


def test_what_somebody_else_maps_stays(module: t.Callable, api: FakeApi) -> None:
    api.lists[POLICIES][0]["spec"]["dcgmExporter"]["hpcJobMapping"] = {"enabled": True}
    module()
    module(state="absent")
    assert jobs(api) == {"enabled": True}


def test_exporters_that_do_not_read_the_folder_are_waited_for(module: t.Callable, api: FakeApi) -> None:
    module()
    api.lists[POLICIES][0]["spec"]["dcgmExporter"]["hpcJobMapping"] = {"enabled": True, "directory": "/run/jobs"}
    run = module(job_directory="/run/jobs", wait_timeout=0)
    assert run.rc and run.result["reason"] == "TimedOut"
    mount(api, config(api)["name"], folder="/run/jobs")
    assert not module(job_directory="/run/jobs").rc


def test_without_the_prometheus_operator_there_are_only_lists_and_dashboards(module: t.Callable, api: FakeApi) -> None:
    for path in (MONITORS, RULES, SERVERS):
        del api.lists[path]
    run = module(dashboards=DASHBOARD)
    assert [title.partition(" ")[0] for title in run.result["objects"]] == ["ConfigMap", "ConfigMap"]
    assert "GpuLost" in run.result["rules"]
    assert not module(dashboards=DASHBOARD).result["changed"]
    assert module(state="absent").result["changed"]


def test_alerts_and_scraping_can_stay_off(module: t.Callable, api: FakeApi) -> None:
    run = module(alerts=False, scrape=False, presets=["default"])
    assert (run.result["alerts"], run.result["rules"]) == ([], "") and len(run.result["fields"]) == 26
    assert names(api, MONITORS) == names(api, RULES) == []


@pytest.mark.parametrize(
    ("tag", "is_known", "has_newest"),
    [
        ("v25.10.1", True, False),
        ("v26.7.0", True, True),
        ("v27.1.0", True, True),
        ("main-latest", False, False),
        # The chart of a vendor's repository, and a registry with versions of its own.
        ("v1.0.0-devel", False, False),
        ("1.4.2", False, False),
    ],
)
def test_the_line_of_the_operator_decides_which_alerts_there_are(
    module: t.Callable, api: FakeApi, tag: str, is_known: bool, has_newest: bool
) -> None:
    run_operator(api, tag)
    run = module()
    assert ("GpuRecoveryAction" in run.result["alerts"]) == has_newest and "GpuLost" in run.result["alerts"]
    assert ("DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION" in run.result["fields"]) == has_newest
    assert is_known or {*run.result["fields"]} <= dcgm_fields.names((25, 10)) & dcgm_fields.names((26, 7))
    said = wording(
        "Which version of the GPU Operator runs is not known from its image and its chart, or it is not supported. Only fields that the exporters of all supported versions know are collected, with the alerts on them."
    )
    assert run.warnings == ([] if is_known else [said])


WRONG: dict[str, tuple[Json, str]] = {
    "field": ({"fields": [{"name": "DCGM_FI_DEV_GPU_TMP", "type": "gauge", "help": "x"}]}, "fields[0].name"),
    "alert": ({"alerts_off": ["GpuGone"]}, "GpuGone"),
    "duration": ({"interval": "often"}, "interval"),
    "server": ({"prometheus": "none"}, "none"),
    "folder": ({"job_directory": "jobs"}, "job_directory"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_options_change_nothing(module: t.Callable, api: FakeApi, wrong: str) -> None:
    options, named = WRONG[wrong]
    run = module(**options)
    assert run.rc == 1 and named in run.result["msg"] and writes(api) == []


def test_an_object_of_somebody_else_is_left_alone(module: t.Callable, api: FakeApi) -> None:
    api.lists[RULES] = [{"apiVersion": "monitoring.coreos.com/v1", "metadata": {"name": "gpuops-gpu-rules"}}]
    run = module()
    said = wording(
        "PrometheusRule gpu-operator/gpuops-gpu-rules exists, and somebody else has made it. Remove it, or rename it."
    )
    assert (run.result["msg"], run.result["reason"]) == (said, "AlreadyExists") and writes(api) == []


@pytest.mark.parametrize("number", [0, 1], ids=["list", "dashboard"])
@pytest.mark.parametrize("labels", [{}, {"gpuops.nvidia/monitoring": "another-policy"}], ids=["none", "another"])
def test_so_is_a_config_map_without_the_mark_of_this_policy(
    module: t.Callable, api: FakeApi, number: int, labels: Json
) -> None:
    title = module(dashboards=DASHBOARD, _ansible_check_mode=True).result["objects"][-number]
    name = title.rpartition("/")[2]
    api.lists[MAPS].append({"metadata": {"name": name, "labels": labels}, "data": {"a": "b"}})
    for options in ({"_ansible_check_mode": True}, {}):
        run = module(dashboards=DASHBOARD, **options)
        assert run.result["reason"] == "AlreadyExists" and title in run.result["msg"] and writes(api) == []
    assert module(state="absent").rc == 0 and names(api, MAPS) == [name]


def test_a_field_of_helm_is_left_to_helm(module: t.Callable, api: FakeApi) -> None:
    causes = [{"field": ".spec.dcgmExporter.config.name", "message": 'conflict with "helm"'}]
    api.answer = lambda method, path: (
        refusal(409, "conflict", "Conflict", causes) if (method, path.startswith(POLICIES)) == ("PATCH", True) else None
    )
    run = module()
    assert run.rc == 1 and "belongs to helm" in run.result["msg"] and writes(api) == []


def test_exporters_that_are_off_are_named(module: t.Callable, api: FakeApi) -> None:
    api.lists[POLICIES][0]["spec"]["dcgmExporter"] = {"enabled": False}
    run = module()
    assert (
        run.result["msg"]
        == wording(
            "dcgmExporter.enabled of ClusterPolicy cluster-policy is false, so there are no metrics of GPUs. Set it to true (role operator: operator_values)."
        )
        and writes(api) == []
    )
    assert module(state="absent").rc == 0


def forbid(api: FakeApi, *paths: str) -> None:
    api.answer = lambda method, path: refusal(403, "no", "Forbidden") if path in paths else None


def test_a_prometheus_that_may_not_be_read_is_a_warning(module: t.Callable, api: FakeApi) -> None:
    forbid(api, SERVERS)
    own = {"enabled": True, "additionalLabels": {"release": "kps"}}
    api.lists[POLICIES][0]["spec"]["dcgmExporter"] = {"serviceMonitor": dict(own)}
    run = module(labels={"release": "mine"}, prometheus="kps")
    assert run.rc == 0 and len(run.warnings) == 1 and "labels" in run.warnings[0]
    assert api.lists[RULES][0]["metadata"]["labels"]["release"] == "mine"
    assert policy(api)["dcgmExporter"]["serviceMonitor"] == own


def test_kinds_of_prometheus_that_may_not_be_read_are_left_alone(module: t.Callable, api: FakeApi) -> None:
    theirs = {"metadata": {"name": "a", "labels": {"gpuops.nvidia/monitoring": "cluster-policy"}}}
    api.lists |= {MONITORS: [theirs], RULES: [dict(theirs)], SERVERS: [server("a"), server("b")]}
    forbid(api, MONITORS, RULES)
    run = module(dashboards=DASHBOARD)
    assert run.rc == 0 and len(run.result["objects"]) == 2 and "GpuLost" in run.result["rules"]
    assert ["ServiceMonitor" in said for said in run.warnings] == [True, False]
    assert module(state="absent").rc == 0
    assert (names(api, MONITORS), names(api, RULES), names(api, MAPS)) == (["a"], ["a"], [])


def test_a_namespace_that_may_not_be_read_is_a_warning(module: t.Callable, api: FakeApi) -> None:
    watched = {"matchLabels": {"watched": "yes"}}
    api.lists[SERVERS] = [server(ruleNamespaceSelector=watched)]
    forbid(api, f"{NAMESPACES}/gpu-operator")
    run = module()
    assert run.rc == 0 and len(run.warnings) == 1 and "namespace gpu-operator" in run.warnings[0]
    api.lists[SERVERS] = [server(ruleNamespaceSelector=None)]
    assert "own namespace only" in module().result["msg"]


def test_a_namespace_that_is_not_there_is_named(module: t.Callable, api: FakeApi) -> None:
    api.lists[SERVERS] = [server()]
    api.lists[NAMESPACES] = []
    run = module()
    assert run.result["msg"] == wording("There is no namespace gpu-operator. Give that of the operator in namespace.")
    assert run.result["reason"] == "NotFound" and writes(api) == []


@pytest.mark.parametrize("path", [MONITORS, SERVERS, f"{NAMESPACES}/gpu-operator"])
def test_a_failure_is_no_missing_permission(module: t.Callable, api: FakeApi, path: str) -> None:
    api.lists[SERVERS] = [server()]
    api.answer = lambda method, asked: refusal(422, "broken", "Invalid") if asked == path else None
    run = module()
    assert run.rc == 1 and "broken" in run.result["msg"] and writes(api) == []


@pytest.mark.parametrize(("options", "rc"), [({}, 1), ({"alerts": False}, 1), ({"scrape": False}, 1), (None, 0)])
def test_a_prometheus_is_chosen_only_for_objects_that_it_is_to_take(
    module: t.Callable, api: FakeApi, options: Json | None, rc: int
) -> None:
    api.lists[SERVERS] = [server("a"), server("b")]
    run = module(**({"alerts": False, "scrape": False} if options is None else options))
    assert run.rc == rc and bool(rc) == ("several" in run.result.get("msg", ""))


def test_the_labels_that_objects_have_in_the_end_count(module: t.Callable, api: FakeApi) -> None:
    by_helm = {"matchLabels": {"app.kubernetes.io/managed-by": "Helm"}}
    api.lists[SERVERS] = [server(ruleSelector=by_helm)]
    run = module(scrape=False)
    assert run.rc == 1 and "managed-by=gpuops.nvidia" in run.result["msg"] and writes(api) == []


def test_a_prometheus_that_would_ignore_the_rules_stops_the_run(module: t.Callable, api: FakeApi) -> None:
    api.lists[SERVERS] = [server(ruleNamespaceSelector={"matchLabels": {"watched": "yes"}})]
    run = module()
    assert run.rc == 1 and "ruleNamespaceSelector" in run.result["msg"] and writes(api) == []
    api.lists[NAMESPACES] = [namespace(watched="yes")]
    assert module().rc == 0


OWN_MONITOR = {"enabled": True, "additionalLabels": {"release": "kps"}}
ROLES_OWN = {"f:dcgmExporter": {"f:serviceMonitor": {"f:enabled": {}, "f:additionalLabels": {"f:release": {}}}}}


def conflict_of(api: FakeApi, target: str, body: Json | None) -> Reply | None:
    """Refuse another value for the operator's own ServiceMonitor, as long as the role operator owns it."""
    own = (((body or {}).get("spec") or {}).get("dcgmExporter") or {}).get("serviceMonitor") or {}
    others = [owner for owner in owners(api) if f"fieldManager={owner}&" not in f"{target}&"]
    if not own or own["enabled"] == own_monitor(api).get("enabled") or not others or "force=true" in target:
        return None
    causes = [{"field": ".spec.dcgmExporter.serviceMonitor.enabled", "message": f'conflict with "{others[0]}"'}]
    return refusal(409, "conflict", "Conflict", causes)


def own_monitor(api: FakeApi, spec: Json | None = None) -> Json:
    """Return the operator's own ServiceMonitor as the ClusterPolicy has it; first set what the role operator says."""
    if spec is not None:
        api.lists[SERVERS] = [server()]
        api.lists[POLICIES][0]["spec"]["dcgmExporter"] = {"serviceMonitor": dict(spec)}
        api.lists[POLICIES][0]["metadata"]["managedFields"] = [entry("gpuops.nvidia", ROLES_OWN)]
    return dict((policy(api).get("dcgmExporter") or {}).get("serviceMonitor") or {})


def owners(api: FakeApi) -> list[str]:
    """Return the managers that own whether the exporters have the operator's own ServiceMonitor."""
    return ownership.owners_of(api.lists[POLICIES][0]).get("spec.dcgmExporter.serviceMonitor.enabled", [])


@pytest.mark.parametrize(
    ("spec", "is_off"),
    [
        ({"enabled": True}, False),
        (OWN_MONITOR, True),
        ({**OWN_MONITOR, "enabled": False}, False),
        ({"additionalLabels": {"release": "kps"}}, False),
    ],
)
def test_the_operators_own_monitor_is_off_where_prometheus_takes_it(
    module: t.Callable, api: FakeApi, spec: Json, is_off: bool
) -> None:
    own_monitor(api, spec)
    foretold = module(_ansible_check_mode=True)
    assert own_monitor(api) == spec
    run = module()
    assert own_monitor(api) == ({**spec, "enabled": False} if is_off else spec)
    assert owners(api) == ["gpuops.nvidia-scrape" if is_off else "gpuops.nvidia"]
    assert foretold.result == run.result and not module().result["changed"]


@pytest.mark.parametrize("is_taken", [True, False], ids=["no Prometheus object", "another Prometheus"])
def test_without_a_prometheus_object_both_monitors_would_be_taken(
    module: t.Callable, api: FakeApi, is_taken: bool
) -> None:
    own_monitor(api, OWN_MONITOR)
    api.lists[SERVERS] = [] if is_taken else [server("other")]
    module()
    assert own_monitor(api)["enabled"] is not is_taken


AGAIN: dict[str, Json] = {
    "removed": {"state": "absent"},
    "not scraped": {"scrape": False},
    "another Prometheus": {"prometheus": "other"},
}


@pytest.mark.parametrize("options", AGAIN.values(), ids=AGAIN)
def test_the_operators_own_monitor_comes_back_where_it_is_the_only_one(
    module: t.Callable, api: FakeApi, options: Json
) -> None:
    own_monitor(api, OWN_MONITOR)
    module()
    api.lists[SERVERS] += [server(name) for name in (options.get("prometheus"),) if name]
    foretold = module(**options, _ansible_check_mode=True)
    assert own_monitor(api)["enabled"] is False
    run = module(**options)
    assert own_monitor(api) == OWN_MONITOR and owners(api) == ["gpuops.nvidia"]
    assert foretold.result == run.result and not module(**options).result["changed"]


@pytest.mark.parametrize("path", [MONITORS, SERVERS])
def test_the_operators_own_monitor_stays_off_if_it_is_not_known_who_takes_it(
    module: t.Callable, api: FakeApi, path: str
) -> None:
    own_monitor(api, OWN_MONITOR)
    module()
    forbid(api, path)
    module()
    assert own_monitor(api)["enabled"] is False and owners(api) == ["gpuops.nvidia-scrape"]


def test_a_wait_that_ends_too_early_names_the_pods_and_the_next_call_goes_on(
    module: t.Callable, api: FakeApi, tmp_path: Path
) -> None:
    old = module().result["config_map"].partition("/")[2]
    api.answer = lambda method, path: mount(api, config(api)["name"], updated=1) if path == DAEMONSETS else None
    api.table = [
        ["nvidia-dcgm-exporter-a", "0/1", "CrashLoopBackOff", "3", "1m", "1.2.3.4", "gpu-0001"],
        ["nvidia-dcgm-exporter-b", "1/1", "Running", "0", "1m", "1.2.3.5", "gpu-0002"],
    ]
    (tmp_path / "progress").touch()
    run = module(presets=["default"], wait_timeout=0, progress_path=str(tmp_path / "progress"))
    assert run.rc == 1 and run.result["reason"] == "TimedOut"
    assert "exporter-a on gpu-0001 is CrashLoopBackOff" in run.result["msg"] and "exporter-b" not in run.result["msg"]
    assert "1 of 2" in (tmp_path / "progress").read_text()
    assert sorted(names(api, MAPS)) == sorted([old, config(api)["name"]])
    api.answer = lambda method, path: None
    mount(api, config(api)["name"])
    again = module(presets=["default"])
    assert again.result["changed"] and names(api, MAPS) == [config(api)["name"]] != [old]


def test_policy_and_namespace_can_be_named(module: t.Callable, api: FakeApi) -> None:
    run = module(policy_name="cluster-policy", namespace="elsewhere")
    assert run.rc == 1 and run.result["reason"] == "NotFound"
    assert module(policy_name="another").result["reason"] == "NotFound" and writes(api) == []
    assert module(policy_name="cluster-policy", namespace="gpu-operator").result["changed"]


def test_a_dashboard_that_changes_is_applied_and_one_that_is_left_out_goes(module: t.Callable, api: FakeApi) -> None:
    module(dashboards=DASHBOARD)
    module(dashboards={"fleet": {"title": "Fleet 2"}, "other": {}})
    assert names(api, MAPS).count("gpuops-dashboard-fleet") == 1 and "gpuops-dashboard-other" in names(api, MAPS)
    (fleet,) = [item for item in api.lists[MAPS] if item["metadata"]["name"] == "gpuops-dashboard-fleet"]
    assert fleet["data"] == {"fleet.json": '{"title": "Fleet 2"}'}
    run = module(dashboards={"fleet": {"title": "Fleet 2"}})
    assert run.result["removed"] == ["ConfigMap gpu-operator/gpuops-dashboard-other"]
    assert "gpuops-dashboard-other" not in names(api, MAPS)
    assert not module(dashboards={"fleet": {"title": "Fleet 2"}}).result["changed"]
