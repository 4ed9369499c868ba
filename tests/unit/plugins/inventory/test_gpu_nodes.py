# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plugin with a small API server in this process, and with Ansible around it in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.errors import AnsibleError, AnsibleParserError
from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader
from ansible.template import trust_as_template
from ansible_collections.gpuops.nvidia.plugins.inventory import gpu_nodes
from ansible_collections.gpuops.nvidia.plugins.inventory.gpu_nodes import InventoryModule
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION

from tests.unit.fakes import claimed
from tests.unit.fakes.api import ALL_PODS, NODES, FakeApi, refusal
from tests.unit.fakes.stack import Json

NAME = "gpuops.nvidia.gpu_nodes"
OWN = {name: option.get("default") for name, option in yaml.safe_load(gpu_nodes.DOCUMENTATION)["options"].items()}
OF_ANSIBLE: Json = {"strict": False, "compose": {}, "groups": {}, "keyed_groups": [], "cache": False}
PLAIN = {**dict.fromkeys(CONNECTION.options), **OF_ANSIBLE, **OWN}
Parse = t.Callable[..., InventoryData]


@pytest.fixture
def parse(api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Parse:
    """Read the cluster with these options."""

    def run(**options: t.Any) -> InventoryData:
        given = {**PLAIN, **api.connection, **options}
        made, plugin = InventoryData(), InventoryModule()
        monkeypatch.setattr(plugin, "_read_config_data", lambda path: None)
        monkeypatch.setattr(plugin, "get_option", given.__getitem__)
        monkeypatch.setattr(plugin, "get_cache_key", lambda path: "key")
        plugin.parse(made, DataLoader(), str(tmp_path / "fleet.gpu_nodes.yml"))
        made.reconcile_inventory()
        return made

    return run


def members(inventory: InventoryData, group: str) -> list[str]:
    return sorted(host.name for host in inventory.groups[group].get_hosts())


def test_all_gpu_nodes_are_hosts_of_the_group_that_the_playbooks_act_on(parse: Parse) -> None:
    made = parse()
    assert members(made, "gpu_hosts") == ["gpu-0000", "gpu-0001"]
    assert made.hosts["gpu-0000"].vars["gpu_node"]["product"] == "NVIDIA-H100-80GB-HBM3"
    assert members(parse(group="fleet"), "fleet") == ["gpu-0000", "gpu-0001"]


def test_groups_and_variables_follow_from_what_the_nodes_say(api: FakeApi, parse: Parse) -> None:
    api.lists[NODES][1]["spec"]["unschedulable"] = True
    made = parse(
        keyed_groups=[
            {"prefix": "state", "key": trust_as_template("gpu_node.state")},
            {"prefix": "model", "key": trust_as_template("gpu_node.product")},
        ],
        groups={"in_service": trust_as_template("not gpu_node.cordoned")},
        compose={"node_memory_gib": trust_as_template("gpu_node.memory_mib // 1024")},
        strict=True,
    )
    assert members(made, "state_ready") == ["gpu-0000"] and members(made, "state_cordoned") == ["gpu-0001"]
    assert len(members(made, "model_NVIDIA_H100_80GB_HBM3")) == 2
    assert members(made, "in_service") == ["gpu-0000"] and made.hosts["gpu-0000"].vars["node_memory_gib"] == 79


def test_the_examples_make_groups_of_what_is_offered_by_claims(api: FakeApi, parse: Parse) -> None:
    sick = {**claimed.gpu(0), "taints": [claimed.taint()]}
    api.lists |= {claimed.SLICES: [claimed.slice_of(1, sick, claimed.gpu(1))], claimed.CLAIMS: [], ALL_PODS: []}
    api.lists[NODES][1] = claimed.claim_node(1)
    example = list(yaml.safe_load_all(gpu_nodes.EXAMPLES))[1]
    keyed = [{**each, "key": trust_as_template(each["key"])} for each in example["keyed_groups"]]
    groups = {name: trust_as_template(text) for name, text in example["groups"].items()}
    made = parse(keyed_groups=keyed, groups=groups, free=True, strict=True)
    for group in ("by_claims", "tainted_devices", "device_gpu", "state_degraded"):
        assert members(made, group) == ["gpu-0001"], group
    assert members(made, "model_NVIDIA_H100_80GB_HBM3") == members(made, "idle") == ["gpu-0000", "gpu-0001"]


def test_what_stays_unknown_is_a_warning(api: FakeApi, tmp_path: Path) -> None:
    kubeconfig(api, tmp_path / "kube")
    api.lists |= {claimed.SLICES: []}
    api.lists[NODES][1] = claimed.claim_node(1)
    api.answer = lambda method, path: refusal(403, "no slices") if path == claimed.SLICES else None
    run = listed(tmp_path, kubeconfig="kube")
    assert hosts(run) == ["gpu-0000", "gpu-0001"] and "no slices" in run.stderr


def test_a_wrong_expression_is_an_error_if_it_is_to_be(parse: Parse) -> None:
    wrong = {"wrong": trust_as_template("gpu_node.nothing > 1")}
    assert "wrong" not in parse(groups=wrong).groups
    with pytest.raises(AnsibleError):
        parse(groups=wrong, strict=True)


def test_an_empty_cluster_has_an_empty_group(api: FakeApi, parse: Parse) -> None:
    api.lists[NODES] = []
    assert members(parse(), "gpu_hosts") == []


def test_a_cluster_that_cannot_be_read_is_one_sentence(api: FakeApi, parse: Parse) -> None:
    api.answer = lambda method, path: refusal(403, "nodes is forbidden", "Forbidden")
    with pytest.raises(AnsibleParserError, match="forbidden") as e:
        parse()
    assert "token-of-a-test" not in str(e.value)


def kubeconfig(api: FakeApi, path: Path) -> None:
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": api.url}}],
        "users": [{"name": "u", "user": {"token": "token-of-a-test"}}],
    }
    path.write_text(json.dumps(config))


def test_a_kubeconfig_is_relative_to_the_file_that_names_it(api: FakeApi, parse: Parse, tmp_path: Path) -> None:
    kubeconfig(api, tmp_path / "kube")
    assert len(members(parse(host=None, api_key=None, kubeconfig="kube"), "gpu_hosts")) == 2


# ---- with Ansible around it ---------------------------------------------------------------------------------------


def listed(folder: Path, file: str = "fleet.gpu_nodes.yml", **options: t.Any) -> subprocess.CompletedProcess[str]:
    """Let ansible-inventory list the hosts of a file with these options. The file is JSON, which is YAML, too."""
    (folder / file).write_text(json.dumps({"plugin": NAME, **options}))
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(Path(sys.prefix) / "share"),
        "ANSIBLE_INVENTORY_ENABLED": NAME,
        "ANSIBLE_HOME": str(folder / "home"),
    }
    command = [str(Path(sys.executable).with_name("ansible-inventory")), "-i", str(folder / file), "--list"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def hosts(run: subprocess.CompletedProcess[str]) -> list[str]:
    return sorted(json.loads(run.stdout)["_meta"]["hostvars"])


def test_a_cache_answers_in_place_of_the_cluster(api: FakeApi, tmp_path: Path) -> None:
    kubeconfig(api, tmp_path / "kube")
    cached = {
        "kubeconfig": "kube",
        "cache": True,
        "cache_plugin": "ansible.builtin.jsonfile",
        "cache_connection": str(tmp_path / "cache"),
        "cache_timeout": 3600,
    }
    first = listed(tmp_path, **cached)
    assert hosts(first) == ["gpu-0000", "gpu-0001"], first.stderr
    api.lists[NODES] = []
    assert hosts(listed(tmp_path, **cached)) == ["gpu-0000", "gpu-0001"]
    assert hosts(listed(tmp_path, kubeconfig="kube")) == []


@pytest.mark.parametrize(
    ("file", "options", "said"),
    [
        ("fleet.gpu_nodes.yml", {"addresses": {"a": 1}}, "addresses"),
        ("fleet.gpu_nodes.yml", {"node_selector": ["pool"]}, "node_selector"),
        ("fleet.gpu_nodes.yml", {"kubeconfig": "nowhere"}, "nowhere"),
        ("hosts.yml", {}, "hosts.yml"),
    ],
)
def test_what_cannot_be_meant_is_named(tmp_path: Path, file: str, options: dict[str, t.Any], said: str) -> None:
    run = listed(tmp_path, file, **options)
    assert said in run.stderr and "Traceback" not in run.stderr, run.stderr
    assert hosts(run) == []
