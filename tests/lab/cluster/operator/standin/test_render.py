# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The DaemonSets and RuntimeClasses that the operator writes."""

from __future__ import annotations

import typing as t

import pytest

from lab.cluster.operator.standin import images, render
from lab.cluster.operator.standin.controllers import upgrades
from tests.lab.cluster.operator.standin.builders import BY_STATE, Json, site


def pod_of(state: str, **spec: Json) -> Json:
    """Return the spec of an operand's pods."""
    return t.cast(Json, render.daemonset(BY_STATE[state], site(**spec))["spec"]["template"]["spec"])


def test_driver_pods_are_replaced_on_deletion_only() -> None:
    (daemonset,) = render.daemonsets(BY_STATE["state-driver"], site())
    assert daemonset["spec"]["updateStrategy"] == {"type": "OnDelete"}
    assert daemonset["spec"]["template"]["spec"]["containers"][0]["image"] == "nvcr.io/nvidia/thing:v1-ubuntu24.04"


def test_tolerations_replace_the_built_in_one() -> None:
    mine = [{"key": "mine", "operator": "Exists"}]
    assert pod_of("state-dcgm-exporter", daemonsets={"tolerations": mine})["tolerations"] == mine


def test_labels_cannot_break_the_selector() -> None:
    labels = {"app": "other", "app.kubernetes.io/part-of": "other", "team": "a"}
    daemonset = render.daemonset(BY_STATE["gpu-feature-discovery"], site(daemonsets={"labels": labels}))
    found = daemonset["spec"]["template"]["metadata"]["labels"]
    assert found == {**daemonset["spec"]["selector"]["matchLabels"], "team": "a"}


def test_hash_follows_the_spec() -> None:
    def digest(**extra: str) -> str:
        daemonset = render.daemonset(BY_STATE["state-dcgm-exporter"], site(dcgmExporter=extra))
        return str(daemonset["metadata"]["annotations"][render.HASH])

    assert digest() == digest() != digest(version="v2")


def test_validator_without_device_plugin() -> None:
    pod = pod_of("state-operator-validation", devicePlugin={"enabled": False})
    names = [entry["name"] for entry in pod["initContainers"]]
    assert names == ["driver-validation", "toolkit-validation", "cuda-validation"]


def test_precompiled_drivers_have_a_daemonset_per_kernel() -> None:
    (daemonset,) = render.daemonsets(BY_STATE["state-driver"], site(driver={"usePrecompiled": True, "version": "595"}))
    assert daemonset["metadata"]["name"] == "nvidia-driver-daemonset-6.8.0-31-generic-ubuntu24.04"
    assert (
        daemonset["spec"]["template"]["spec"]["containers"][0]["image"]
        == "nvcr.io/nvidia/thing:595-6.8.0-31-generic-ubuntu24.04"
    )


def test_gds_is_not_for_precompiled_drivers() -> None:
    with pytest.raises(images.ReconcileError, match="gds"):
        render.daemonsets(BY_STATE["state-driver"], site(driver={"usePrecompiled": True}, gds={"enabled": True}))


def test_resources_do_not_count_as_driver_configuration() -> None:
    plain, limited, other = (
        render.daemonset(BY_STATE["state-driver"], site(driver=extra))["spec"]["template"]["spec"]
        for extra in ({}, {"resources": {"limits": {"cpu": "1"}}}, {"version": "v2"})
    )
    assert upgrades.digest(plain) == upgrades.digest(limited) != upgrades.digest(other)


def test_runtime_classes() -> None:
    assert all(render.runtime_classes(site()).values())
    assert [name for name, wanted in render.runtime_classes(site(cdi={"enabled": False})).items() if wanted] == [
        "nvidia"
    ]
    assert not any(render.runtime_classes(site(cdi={"nriPluginEnabled": True})).values())


EXPORTER = "state-dcgm-exporter"


def env_of(pod: Json) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in pod["containers"][0]["env"]}


def test_exporters_read_the_list_that_the_policy_names() -> None:
    pod = pod_of(EXPORTER, dcgmExporter={"config": {"name": "mine"}})
    path = "/etc/dcgm-exporter/dcgm-metrics.csv"
    assert {"name": "metrics-config", "configMap": {"name": "mine"}} in pod["volumes"]
    (mount,) = [entry for entry in pod["containers"][0]["volumeMounts"] if entry["name"] == "metrics-config"]
    assert (mount["mountPath"], mount["subPath"]) == (path, "dcgm-metrics.csv")
    assert env_of(pod)["DCGM_EXPORTER_COLLECTORS"] == path


@pytest.mark.parametrize("config", [{}, {"config": {"name": ""}}])
def test_without_a_list_they_have_the_one_of_their_image(config: Json) -> None:
    pod = pod_of(EXPORTER, dcgmExporter=config)
    names = [entry["name"] for entry in (*pod["volumes"], *pod["containers"][0]["volumeMounts"])]
    assert "metrics-config" not in names and "pod-gpu-resources" in names
    assert env_of(pod)["DCGM_EXPORTER_COLLECTORS"].endswith("/dcp-metrics-included.csv")


def test_the_list_is_the_exporters_alone() -> None:
    text = str(pod_of("state-dcgm", dcgmExporter={"config": {"name": "mine"}}))
    assert "metrics-config" not in text and "COLLECTORS" not in text


@pytest.mark.parametrize("own", [{}, {"enabled": False}, {"additionalLabels": {"a": "b"}}])
def test_exporters_have_no_monitor_unless_it_is_asked_for(own: Json) -> None:
    assert render.service_monitor(site(dcgmExporter={"serviceMonitor": own})) is None


def test_the_monitor_of_the_exporters_is_what_the_policy_says() -> None:
    plain = render.service_monitor(site(dcgmExporter={"serviceMonitor": {"enabled": True}}))
    assert plain is not None
    assert plain["metadata"]["labels"] == {"app": "nvidia-dcgm-exporter"}
    assert plain["metadata"]["ownerReferences"][0]["kind"] == "ClusterPolicy"
    assert plain["spec"]["endpoints"] == [{"port": "gpu-metrics", "path": "/metrics", "honorLabels": False}]
    assert plain["spec"]["namespaceSelector"] == {"matchNames": ["gpu-operator"]}
    rules = [{"action": "labeldrop", "regex": "pod"}]
    own = {"enabled": True, "interval": "5s", "honorLabels": True, "relabelings": rules}
    rich = render.service_monitor(site(dcgmExporter={"serviceMonitor": {**own, "additionalLabels": {"app": "b"}}}))
    assert rich is not None and rich["metadata"]["labels"] == {"app": "b"}
    (endpoint,) = rich["spec"]["endpoints"]
    assert (endpoint["interval"], endpoint["honorLabels"], endpoint["relabelings"]) == ("5s", True, rules)
