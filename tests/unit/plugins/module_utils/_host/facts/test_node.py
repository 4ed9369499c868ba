# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.node import addresses, kubelet, node
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot as wording

from tests.unit.fakes.host import FakeHost

FIB_TRIE = """\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     |-- 10.20.0.0
        /16 link UNICAST
Local:
  +-- 0.0.0.0/0 3 0 5
     +-- 10.20.0.0/16 2 0 2
        |-- 10.20.0.0
           /16 link UNICAST
        |-- 10.20.3.7
           /32 host LOCAL
        |-- 10.20.255.255
           /32 link BROADCAST
     +-- 127.0.0.0/8 2 0 2
        |-- 127.0.0.1
           /32 host LOCAL
     |-- 169.254.3.1
        /32 host LOCAL
"""
IF_INET6 = """\
00000000000000000000000000000001 01 80 10 80       lo
fd000000000000000000000000000007 02 40 00 80     eth0
fe80000000000000021122fffe334455 02 40 20 80     eth0
"""


def test_the_identity_of_a_host(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.put("/etc/machine-id", "b08dfa6083e7567a1921a715000001fb\n")
    host.put("/sys/class/dmi/id/product_uuid", "4C4C4544-0042-3510-8054-B4C04F4E3532\n")
    host.put("/proc/sys/kernel/random/boot_id", "0c5d8b1e-2f55-4f0e-9d58-0f5bb6ee2a11\n")
    host.put("/proc/sys/kernel/hostname", "gpu-0001\n")
    host.put("/proc/net/fib_trie", FIB_TRIE)
    host.put("/proc/net/if_inet6", IF_INET6)
    assert node(host).facts == {
        "machine_id": "b08dfa6083e7567a1921a715000001fb",
        "system_uuid": "4C4C4544-0042-3510-8054-B4C04F4E3532",
        "boot_id": "0c5d8b1e-2f55-4f0e-9d58-0f5bb6ee2a11",
        "hostname": "gpu-0001",
        "addresses": ["10.20.3.7", "fd00::7"],
        "kubelet": {"present": False, "active": False, "by": None},
    }


def test_what_a_host_does_not_say_is_null_with_a_reason(tmp_path: Path) -> None:
    section = node(FakeHost(tmp_path))
    assert section.facts["machine_id"] is None and section.facts["addresses"] == []
    assert section.sources["system_uuid"]["reason"] == wording(
        "/sys/class/dmi/id/product_uuid cannot be read or is empty"
    )


@pytest.mark.parametrize(
    "text", ["00000000-0000-0000-0000-000000000000", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "", "uninitialized"]
)
def test_an_identity_that_identifies_nothing_is_none(tmp_path: Path, text: str) -> None:
    host = FakeHost(tmp_path)
    host.put("/sys/class/dmi/id/product_uuid", f"{text}\n")
    host.put("/etc/machine-id", f"{text}\n")
    assert [node(host).facts[name] for name in ("system_uuid", "machine_id")] == [None, None]


def test_machines_without_dmi_have_their_uuid_in_the_device_tree(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.put("/proc/device-tree/vm,uuid", "1b4e28ba-2fa1-11d2-883f-0016d3cca427\0")
    assert node(host).facts["system_uuid"] == "1b4e28ba-2fa1-11d2-883f-0016d3cca427"


@pytest.mark.parametrize("name", ["kubelet", "kubelite", "k3s-agent", "k3s-server"])
def test_a_running_kubelet_by_each_name(tmp_path: Path, name: str) -> None:
    host = FakeHost(tmp_path)
    host.put("/proc/1/comm", "systemd\n")
    host.put("/proc/812/comm", f"{name}\n")
    assert kubelet(host) == {"present": True, "active": True, "by": f"the process {name}"}


@pytest.mark.parametrize(
    "path",
    [
        "/etc/kubernetes/kubelet.conf",
        "/var/lib/kubelet/pki/kubelet.crt",
        "/var/lib/rancher/rke2/agent/kubelet.kubeconfig",
        "/var/lib/k0s/kubelet/config",
    ],
)
def test_a_kubelet_that_does_not_run_is_known_by_its_files(tmp_path: Path, path: str) -> None:
    host = FakeHost(tmp_path)
    host.put(path, "")
    found = kubelet(host)
    assert (found["present"], found["active"]) == (True, False) and path.startswith(found["by"])


def test_an_empty_folder_of_the_kubelet_is_no_node(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.put("/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint", "")
    assert kubelet(host) == {"present": False, "active": False, "by": None}


@given(st.text(), st.text())
def test_addresses_of_any_text_are_addresses(trie: str, inet6: str) -> None:
    class Texts(FakeHost):
        def read(self, path: str) -> str | None:
            return trie if path.endswith("fib_trie") else inet6

    assert isinstance(addresses(Texts(Path("/nonexistent"))), list)
