# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The objects of a GPUCluster are those that NVIDIA's operator made."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from lab.cluster.operator.standin import claims
from lab.cluster.operator.standin.nodes import claim_label_patch, label_patch, swept_claim_labels
from lab.cluster.operator.standin.render import Site

Json = dict[str, t.Any]
RECORDED: Json = json.loads((Path(__file__).parents[5] / "lab/cluster/conformance/dra.json").read_text())
SPEC: Json = {
    "daemonsets": {"tolerations": [{"operator": "Exists"}]},
    "dcgm": {
        "enabled": True,
        "repository": "nvcr.io/nvidia/cloud-native",
        "image": "dcgm",
        "version": "4.6.0-1-ubuntu24.04",
    },
    "dcgmExporter": {"repository": "nvcr.io/nvidia/k8s", "image": "dcgm-exporter", "version": "4.6.0-4.8.3-distroless"},
    "draDriver": {
        "computeDomains": {"enabled": True},
        "repository": "nvcr.io/nvidia",
        "image": "dra-driver-nvidia-gpu",
        "version": "v0.5.0",
    },
}
ENV = {"VALIDATOR_IMAGE": "nvcr.io/nvidia/gpu-operator:v26.7.0"}
PCI = "feature.node.kubernetes.io/pci-10de.present"


def site(**spec: t.Any) -> Site:
    owner = {"metadata": {"name": "gpu-cluster", "uid": "u"}, "spec": {**SPEC, **spec}}
    return Site("gpu-operator", owner, ENV, kind=claims.KIND)


def named(items: t.Iterable[Json]) -> dict[str, Json]:
    return {item["metadata"]["name"]: item for item in items}


def without(labels: Json) -> Json:
    return {key: value for key, value in labels.items() if "hash" not in key}


def assert_pod(mine: Json, theirs: Json) -> None:
    containers = {item["name"]: item for item in mine["containers"]}
    assert {name: item["image"] for name, item in containers.items()} == {
        name: item["image"] for name, item in theirs["containers"].items()
    }
    for name, item in containers.items():
        env = {entry["name"]: entry["value"] for entry in item.get("env") or []}
        assert env.items() <= theirs["containers"][name]["env"].items(), name
        claimed = [entry["name"] for entry in (item.get("resources") or {}).get("claims") or []]
        assert claimed == theirs["containers"][name]["claims"], name
    inits = {item["name"]: item["image"] for item in mine.get("initContainers") or []}
    assert inits == theirs["initContainers"]
    assert mine.get("nodeSelector") == theirs["nodeSelector"]
    assert mine["serviceAccountName"] == theirs["serviceAccountName"]
    assert mine.get("resourceClaims", []) == theirs["resourceClaims"]


def test_the_daemonsets_are_the_vendors() -> None:
    mine, theirs = named(claims.daemonsets(site())), RECORDED["daemonsets"]
    assert mine.keys() == theirs.keys()
    for name, item in mine.items():
        spec = item["spec"]
        assert item["metadata"]["labels"] == theirs[name]["labels"]
        assert spec["selector"]["matchLabels"] == theirs[name]["selector"]
        assert spec["updateStrategy"] == theirs[name]["updateStrategy"]
        assert spec["template"]["metadata"]["labels"] == without(theirs[name]["podLabels"])
        assert_pod(spec["template"]["spec"], theirs[name])


def test_the_controller_is_the_vendors() -> None:
    mine, theirs = claims.controller(site()), RECORDED["controller"]
    assert mine["metadata"]["labels"] == theirs["labels"]
    assert mine["spec"]["template"]["metadata"]["labels"] == theirs["podLabels"]
    assert_pod(mine["spec"]["template"]["spec"], theirs)


def test_classes_templates_and_accounts_are_the_vendors() -> None:
    classes = named(claims.device_classes(site()))
    expressions = {name: item["spec"]["selectors"][0]["cel"]["expression"] for name, item in classes.items()}
    assert expressions == RECORDED["classes"]
    made = named(claims.templates(site()))
    requests = {name: item["spec"]["spec"]["devices"]["requests"] for name, item in made.items()}
    assert requests == RECORDED["templates"]
    # The recording of the accounts was made before DCGM was wanted.
    assert sorted(named(claims.accounts(site(dcgm={"enabled": False})))) == RECORDED["accounts"]


def test_without_compute_domains() -> None:
    small = site(draDriver={**SPEC["draDriver"], "computeDomains": {"enabled": False}}, dcgm=None, dcgmExporter=None)
    plugin = named(claims.daemonsets(small))[claims.PLUGIN]["spec"]["template"]["spec"]
    assert [item["name"] for item in plugin["containers"]] == ["gpus"]
    assert sorted(named(claims.device_classes(small))) == [
        "gpu.nvidia.com",
        "mig.nvidia.com",
        "vfio.gpu.nvidia.com",
    ]
    assert sorted(named(claims.daemonsets(small))) == [claims.PLUGIN, claims.VALIDATION]
    assert claims.services(small) == []


def test_the_plugin_has_the_gates_and_variables_of_the_spec() -> None:
    own = {"env": [{"name": "CONSUMABLE_SHARES", "value": "4"}], "healthcheck": {"enabled": False}}
    chosen = {
        **SPEC["draDriver"],
        "featureGates": {"MPSSupport": True, "AllBeta": False},
        "gpus": {"kubeletPlugin": own},
    }
    plugin = named(claims.daemonsets(site(draDriver=chosen)))[claims.PLUGIN]["spec"]["template"]["spec"]
    gpus, domains = ({item["name"]: item["value"] for item in each["env"]} for each in plugin["containers"])
    assert gpus["FEATURE_GATES"] == domains["FEATURE_GATES"] == "AllBeta=false,MPSSupport=true"
    assert (gpus["CONSUMABLE_SHARES"], gpus["HEALTHCHECK_PORT"], domains["HEALTHCHECK_PORT"]) == ("4", "-1", "51515")


def node(**labels: str) -> Json:
    return {"metadata": {"name": "gpu-0000", "labels": {PCI: "true", **labels}}}


def test_the_labels_of_a_node_are_the_vendors() -> None:
    patch = claim_label_patch(node())
    assert sorted(patch) == RECORDED["nodeLabels"]
    paused = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.deploy.dra-driver": "paused-for-driver-upgrade"}
    kept = claim_label_patch(node(**paused, **{"nvidia.com/gpu.deploy.device-plugin": "true"}))
    assert "nvidia.com/gpu.deploy.dra-driver" not in kept
    assert kept["nvidia.com/gpu.deploy.device-plugin"] is None


@pytest.mark.parametrize("serves", [False, True])
def test_the_plugin_stays_while_pods_hold_claims(serves: bool) -> None:
    labels = dict.fromkeys(RECORDED["nodeLabels"], "true")
    swept = swept_claim_labels(node(**labels), serves=serves)
    assert ("nvidia.com/gpu.deploy.dra-driver" in swept) is not serves
    assert "nvidia.com/gpu.deploy.dra-validator" in swept and "nvidia.com/gpu.deploy.driver" not in swept
    assert label_patch(node(**labels), {"driver": {}})["nvidia.com/gpu.deploy.device-plugin"] == "true"


def test_a_node_that_has_lost_its_gpus_loses_its_labels() -> None:
    gone = {
        "metadata": {"name": "n", "labels": {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.deploy.driver": "true"}}
    }
    assert claim_label_patch(gone) == {"nvidia.com/gpu.present": "false", "nvidia.com/gpu.deploy.driver": None}
    assert claim_label_patch({"metadata": {"name": "n"}}) == {}
