# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.evidence import runtime_files

from tests.unit.fakes.host import FakeHost, recorded

MAIN, DROP_IN = "/etc/containerd/config.toml", "/etc/containerd/conf.d/99-nvidia.toml"
K3S = "/var/lib/rancher/k3s/agent/etc/containerd"


def observed(tmp_path: Path, **files: str) -> dict[str, t.Any]:
    """Return the one runtime of a host with these files."""
    host = FakeHost(tmp_path)
    for path, text in files.items():
        host.put(path, text)
    (found,) = runtime_files.observe(host)
    return found


def test_containerd_2_with_the_toolkits_drop_in(tmp_path: Path) -> None:
    files = {
        MAIN: recorded("runtimes/containerd-2.1-main.toml"),
        DROP_IN: recorded("runtimes/containerd-2.1-99-nvidia.toml"),
    }
    found = observed(tmp_path, **files)
    assert found["handlers"]["nvidia"] == "/usr/local/nvidia/toolkit/nvidia-container-runtime"
    assert found["nvidia_from"] == [DROP_IN]
    assert (found["not_imported"], found["systemd_cgroup"]) == ([], None)


@pytest.mark.parametrize(
    ("path", "main"),
    [
        # https://github.com/NVIDIA/nvidia-container-toolkit/issues/1404
        ("/etc/containerd/config.d/99-nvidia.toml", "runtimes/containerd-2.1-main.toml"),
        ("/etc/containerd/config.d/99-nvidia.toml", "runtimes/containerd-bare.toml"),
        # containerd 2.2.7 ignores this folder, too, if its configuration has no import.
        (DROP_IN, "runtimes/containerd-bare.toml"),
    ],
)
def test_a_drop_in_that_is_not_imported(tmp_path: Path, path: str, main: str) -> None:
    found = observed(tmp_path, **{MAIN: recorded(main), path: recorded("runtimes/containerd-2.1-99-nvidia.toml")})
    assert found["not_imported"] == [path]
    assert "nvidia" not in found["handlers"]


def test_a_drop_in_of_somebody_else_is_not_missed(tmp_path: Path) -> None:
    files = {MAIN: recorded("runtimes/containerd-bare.toml"), "/etc/containerd/config.d/mirrors.toml": "version = 2\n"}
    assert observed(tmp_path, **files)["not_imported"] == []


def test_the_template_of_k3s(tmp_path: Path) -> None:
    config = {f"{K3S}/config.toml": recorded("runtimes/k3s.toml")}
    found = observed(tmp_path, **config, **{f"{K3S}/config-v3.toml.tmpl": '{{ template "base" . }}\n'})
    assert (found["fixed_templates"], found["systemd_cgroup"]) == ([], True)
    assert found["handlers"]["nvidia"] == "/usr/local/nvidia/toolkit/nvidia-container-runtime"
    found = observed(tmp_path, **{f"{K3S}/config.toml.tmpl": recorded("runtimes/nvidia-ctk-1.17-dry-run.toml")})
    assert found["fixed_templates"] == [f"{K3S}/config.toml.tmpl"]


def test_cri_o_and_docker(tmp_path: Path) -> None:
    found = observed(
        tmp_path / "crio", **{"/etc/crio/crio.conf.d/99-nvidia.conf": recorded("runtimes/crio-99-nvidia.conf")}
    )
    assert found["handlers"] == {"nvidia": "/usr/local/nvidia/toolkit/nvidia-container-runtime"}
    found = observed(tmp_path / "docker", **{"/etc/docker/daemon.json": recorded("runtimes/daemon.json")})
    assert found["systemd_cgroup"] is True
    assert found["handlers"] == {"nvidia": "nvidia-container-runtime"}
    found = observed(tmp_path / "broken", **{"/etc/docker/daemon.json": "[1,"})
    assert found["handlers"] == {}


def test_the_folder_of_network_plugins(tmp_path: Path) -> None:
    table = "[plugins.'io.containerd.cri.v1.runtime'.cni]\n"
    found = observed(tmp_path, **{MAIN: f'{table}  bin_dirs = ["/opt/cni/bin", "/usr/lib/cni"]\n'})
    assert found["cni_bin_dirs"] == ["/opt/cni/bin", "/usr/lib/cni"]
