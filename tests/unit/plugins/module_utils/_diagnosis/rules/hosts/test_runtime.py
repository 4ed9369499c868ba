# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts.runtime import RULES

from tests.unit import diagnosed
from tests.unit.diagnosed import NODE

NO_HANDLER = (
    "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for "
    '"nvidia" is configured'
)
"""https://github.com/NVIDIA/gpu-operator/issues/730"""
NO_PLUGIN = 'plugin type="gke" failed (add): failed to find plugin "gke" in path [/opt/cni/bin]'
"""https://github.com/NVIDIA/nvidia-container-toolkit/issues/1222"""


@pytest.mark.parametrize(
    ("line", "code", "certainty"),
    [
        (NO_HANDLER, "NoNvidiaRuntimeHandler", "certain"),
        # https://github.com/NVIDIA/gpu-operator/issues/406
        (
            'msg="Error signaling containerd, attempt 5/6: unable to dial: dial unix /runtime/sock-dir/containerd.sock'
            ': connect: no such file or directory"',
            "ToolkitSocketWrong",
            "certain",
        ),
        # https://github.com/rancher/rke2/issues/3385
        (
            'msg="Error: unable to load config: (6, 21): unexpected token type in inline table: keys cannot contain { '
            'character"',
            "RuntimeTemplateReplaced",
            "certain",
        ),
        # https://github.com/kubernetes/kubernetes/issues/87918
        (
            "failed to create kubelet: misconfiguration: kubelet cgroup driver: \"'systemd'\" is different from docker "
            'cgroup driver: "systemd"',
            "CgroupDriversDiffer",
            "certain",
        ),
        # https://github.com/NVIDIA/gpu-operator/issues/1577
        (NO_PLUGIN, "CNIPathLost", "likely"),
        # https://github.com/METR/hawk/pull/273
        (
            "invalid cri config: no corresponding runtime configured in `containerd.runtimes` for `containerd` "
            '`default_runtime_name = "runc"`',
            "RuntimeDefaultUndefined",
            "certain",
        ),
    ],
)
def test_published_lines(line: str, code: str, certainty: str) -> None:
    found = diagnosed.found(RULES, line)
    assert {each: finding.certainty for each, finding in found.items()} == {code: certainty}


@pytest.mark.parametrize(
    "line",
    [
        'no runtime for "kata" is configured',
        # https://github.com/kata-containers/tests/issues/5400
        'plugin type="flannel" failed (add): failed to find plugin "flannel" in path [/opt/cni/bin]',
        # https://github.com/k8snetworkplumbingwg/multus-cni/issues/621
        'failed to find plugin "multus" in path [/home/kubernetes/bin]',
        'plugin type="gke" failed (add): failed to find plugin "gke" in path [/home/kubernetes/bin]',
        "failed to dial unix /run/containerd/containerd.sock: connect: no such file or directory",
    ],
)
def test_near_misses(line: str) -> None:
    assert not diagnosed.found(RULES, line)


def host(state: dict[str, t.Any] | None = None, *, handler: bool = False, **more: t.Any) -> dict[str, t.Any]:
    """Return what is known of a host with a containerd of its own."""
    runtime = {
        "name": "containerd", "distribution": None, "config": "/etc/containerd/config.toml", "handlers": {},
        "nvidia_from": [], "not_imported": [], "fixed_templates": [], "cni_bin_dirs": [], "systemd_cgroup": None,
        **(state or {}),
    }  # fmt: skip
    fact = {"name": "containerd", "distribution": None, "active": True, "nvidia_runtime": handler}
    return {"hosts": {NODE: {"facts": {"runtimes": [fact]}, "state": {"runtimes": [runtime], **more}}}}


def test_a_drop_in_that_nobody_imports_explains_the_missing_handler() -> None:
    # https://github.com/NVIDIA/nvidia-container-toolkit/issues/1404
    evidence = host({"not_imported": ["/etc/containerd/config.d/99-nvidia.toml"]})
    found = diagnosed.found(RULES, diagnosed.event(NO_HANDLER), **evidence)
    assert set(found) == {"RuntimeConfigNotImported"}
    assert "/etc/containerd/config.d/99-nvidia.toml, but /etc/containerd/config.toml" in (
        found["RuntimeConfigNotImported"].cause
    )


def test_an_event_of_the_time_before_the_runtime_was_configured() -> None:
    found = diagnosed.found(RULES, diagnosed.event(NO_HANDLER), **host(handler=True))
    assert {code: finding.certainty for code, finding in found.items()} == {"RuntimeNotRestarted": "likely"}


@pytest.mark.parametrize("handler", [True, False])
def test_an_old_event_on_a_node_that_is_ready_is_over(*, handler: bool) -> None:
    stack = diagnosed.stack(diagnosed.row())
    assert not diagnosed.found(RULES, diagnosed.event(NO_HANDLER), stack=stack, **host(handler=handler))


def test_a_template_of_k3s_without_expressions() -> None:
    path = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml.tmpl"
    found = diagnosed.found(RULES, **host({"fixed_templates": [path]}))
    assert found["RuntimeTemplateReplaced"].certainty == "likely"


def test_the_path_of_network_plugins_that_the_toolkit_wrote() -> None:
    toolkit = {"cni_bin_dirs": ["/opt/cni/bin"], "nvidia_from": ["/etc/containerd/conf.d/99-nvidia.toml"]}
    event = diagnosed.event(NO_PLUGIN.replace("gke", "calico"))
    assert set(diagnosed.found(RULES, event, **host(toolkit, handler=True))) == {"CNIPathLost"}
    assert not diagnosed.found(RULES, event, **host({**toolkit, "nvidia_from": []}))
    assert set(diagnosed.found(RULES, event.text, '      bin_dir = "/opt/cni/bin"')) == {"CNIPathLost"}


def test_cgroups_are_managed_in_one_way_or_two() -> None:
    differ = host({"systemd_cgroup": False}, cgroups={"kubelet": "systemd"})
    assert diagnosed.found(RULES, **differ)["CgroupDriversDiffer"].certainty == "likely"
    assert not diagnosed.found(RULES, **host({"systemd_cgroup": True}, cgroups={"kubelet": "systemd"}))
    assert not diagnosed.found(RULES, **host({"systemd_cgroup": None}, cgroups={"kubelet": "systemd"}))


def test_a_handler_that_cri_o_does_not_have() -> None:
    """https://github.com/NVIDIA/gpu-operator/issues/1298."""
    text = "failed to find runtime handler nvidia from runtime list map[crun:0xc0004dd5f0 runc:0xc0004dd790]"
    found = diagnosed.found(RULES, text)
    assert {code: each.certainty for code, each in found.items()} == {"NoNvidiaRuntimeHandler": "certain"}
