# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.runtimes import runtimes
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Output

from lab.nvml.tree import write
from tests.unit.fakes.host import FakeHost, recorded


def found(root: Path, packages: str = "", units: str = "") -> list[dict[str, t.Any]]:
    host = FakeHost(root, nvidia_container_runtime="")
    return runtimes(host, Output(packages), Output(units)).facts


ON_HOST, OF_CONTAINER = "/usr/bin/nvidia-container-runtime", "/usr/local/nvidia/toolkit/nvidia-container-runtime"


@pytest.fixture(autouse=True)
def programs(tmp_path: Path) -> None:
    for path in (ON_HOST, OF_CONTAINER):
        write(tmp_path / path[1:], "")
        (tmp_path / path[1:]).chmod(0o755)


def test_containerd_and_docker_of_a_host(tmp_path: Path) -> None:
    write(tmp_path / "etc/containerd/config.toml", recorded("runtimes/containerd-1.7-nvidia-ctk.toml"))
    write(tmp_path / "etc/docker/daemon.json", recorded("runtimes/daemon.json"))
    assert found(tmp_path, recorded("packages/dpkg-ubuntu-22.04.txt"), recorded("systemd/ubuntu-22.04.txt")) == [
        {
            "name": "containerd",
            "distribution": None,
            "config": "/etc/containerd/config.toml",
            "cri": True,
            "nvidia_runtime": True,
            "nvidia_program": ON_HOST,
            "default_runtime": "nvidia",
            "active": True,
            "version": "1.7.27",
        },
        {
            "name": "docker",
            "distribution": None,
            "config": "/etc/docker/daemon.json",
            "cri": True,
            "nvidia_runtime": True,
            "nvidia_program": ON_HOST,
            "default_runtime": "nvidia",
            "active": False,
            "version": "28.1.1",
        },
    ]


def test_containerd_with_a_drop_in(tmp_path: Path) -> None:
    write(tmp_path / "etc/containerd/config.toml", recorded("runtimes/containerd-2.1-main.toml"))
    (runtime,) = found(tmp_path)
    assert (runtime["nvidia_runtime"], runtime["default_runtime"], runtime["version"]) == (False, "runc", None)
    write(tmp_path / "etc/containerd/conf.d/99-nvidia.toml", recorded("runtimes/containerd-2.1-99-nvidia.toml"))
    (runtime,) = found(tmp_path)
    assert (runtime["nvidia_runtime"], runtime["default_runtime"]) == (True, "nvidia")


@pytest.mark.parametrize(
    ("distribution", "path", "unit", "text"),
    [
        ("k3s", "/var/lib/rancher/k3s/agent/etc/containerd/config.toml", "k3s-agent.service", "k3s.toml"),
        ("rke2", "/var/lib/rancher/rke2/agent/etc/containerd/config.toml", "rke2-server.service", "k3s.toml"),
        (
            "microk8s",
            "/var/snap/microk8s/current/args/containerd-template.toml",
            "snap.microk8s.daemon-containerd.service",
            "k3s.toml",
        ),
    ],
)
def test_the_containerd_of_a_distribution(tmp_path: Path, distribution: str, path: str, unit: str, text: str) -> None:
    write(tmp_path / path[1:], recorded(f"runtimes/{text}"))
    (runtime,) = found(tmp_path, units=f"Id={unit}\nLoadState=loaded\nActiveState=active\n")
    assert (runtime["distribution"], runtime["config"], runtime["nvidia_runtime"], runtime["active"]) == (
        distribution,
        path,
        True,
        True,
    )


def test_microk8s_starts_containerd_with_the_rendered_template(tmp_path: Path) -> None:
    write(
        tmp_path / "var/snap/microk8s/current/args/containerd-template.toml",
        recorded("runtimes/microk8s-template.toml"),
    )
    write(tmp_path / "var/snap/microk8s/current/args/containerd.toml", recorded("runtimes/containerd-1.7-default.toml"))
    (runtime,) = found(tmp_path)
    assert (runtime["config"], runtime["default_runtime"]) == (
        "/var/snap/microk8s/current/args/containerd.toml",
        "runc",
    )


def test_crio_with_drop_ins(tmp_path: Path) -> None:
    write(tmp_path / "etc/crio/crio.conf.d/10-crio.conf", recorded("runtimes/crio-10-runc.conf"))
    write(tmp_path / "etc/crio/crio.conf.d/99-nvidia.conf", recorded("runtimes/crio-99-nvidia.conf"))
    (runtime,) = found(tmp_path, recorded("packages/rpm-rocky-9.txt"))
    assert (runtime["name"], runtime["nvidia_runtime"], runtime["default_runtime"], runtime["version"]) == (
        "crio",
        True,
        "nvidia",
        "1.33.2",
    )


def test_a_unit_alone_counts_as_a_runtime(tmp_path: Path) -> None:
    (runtime,) = found(tmp_path, units="Id=docker.service\nLoadState=loaded\nActiveState=active\n")
    assert (runtime["name"], runtime["config"], runtime["nvidia_runtime"], runtime["active"]) == (
        "docker",
        None,
        False,
        True,
    )


def test_nothing_is_known_without_files_systemd_and_packages(tmp_path: Path) -> None:
    section = runtimes(
        FakeHost(tmp_path), Output(error="rpm is not installed"), Output(error="systemctl is not installed")
    )
    assert section.facts == []
    assert section.sources[""] == {"source": None, "reason": "systemctl is not installed"}
    write(tmp_path / "etc/docker/daemon.json", "{}")
    section = runtimes(FakeHost(tmp_path), Output(), Output(error="systemctl is not installed"))
    assert section.facts[0]["active"] is None


MAIN = recorded("runtimes/containerd-1.7-nvidia-ctk.toml")


def of(root: Path, text: str, path: str = "etc/containerd/config.toml") -> dict[str, t.Any]:
    write(root / path, text)
    [runtime] = found(root)
    return runtime


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("version = 2", "version = 3"),
        ("version = 2", ""),
        (".runtimes.nvidia", ".runtimes.nvidia-cdi"),
        ("/usr/bin/nvidia-container-runtime", "/usr/bin/gone"),
        ('BinaryName = "/usr/bin/nvidia-container-runtime"', ""),
    ],
)
def test_a_handler_that_cannot_start_a_container_does_not_count(tmp_path: Path, was: str, now: str) -> None:
    assert was in MAIN
    assert of(tmp_path, MAIN)["nvidia_runtime"] is True
    runtime = of(tmp_path, MAIN.replace(was, now))
    assert (runtime["nvidia_runtime"], runtime["nvidia_program"]) == (False, None)


def test_a_program_that_may_not_be_run_does_not_count(tmp_path: Path) -> None:
    (tmp_path / ON_HOST[1:]).chmod(0o644)
    assert of(tmp_path, MAIN)["nvidia_runtime"] is False


def test_a_handler_of_the_toolkit_container_is_told_by_its_program(tmp_path: Path) -> None:
    assert of(tmp_path, MAIN.replace(ON_HOST, OF_CONTAINER))["nvidia_program"] == OF_CONTAINER


@pytest.mark.parametrize(
    "plugins", ['["cri"]', '["io.containerd.grpc.v1.cri"]', '[\n  "io.containerd.cri.v1.runtime",\n]']
)
def test_a_containerd_without_cri(tmp_path: Path, plugins: str) -> None:
    """Docker's package of containerd comes so."""
    assert of(tmp_path, MAIN)["cri"] is True
    assert of(tmp_path, MAIN.replace("disabled_plugins = []", f"disabled_plugins = {plugins}"))["cri"] is False


def test_imports_may_be_relative_and_nested_and_a_circle(tmp_path: Path) -> None:
    write(tmp_path / "etc/containerd/conf.d/99-nvidia.toml", recorded("runtimes/containerd-2.1-99-nvidia.toml"))
    write(tmp_path / "etc/containerd/more.toml", 'version = 3\nimports = ["conf.d/*.toml", "config.toml"]\n')
    runtime = of(tmp_path, 'version = 3\nimports = ["./more.toml"]\n')
    assert (runtime["nvidia_program"], runtime["default_runtime"]) == (OF_CONTAINER, "nvidia")


def test_crio_reads_only_one_folder(tmp_path: Path) -> None:
    """nvidia-ctk wrote to the other one from 1.18.0 until May 2026 (nvidia-container-toolkit #1829)."""
    write(tmp_path / "etc/crio/crio.conf", "[crio]\n")
    assert (
        of(tmp_path, recorded("runtimes/crio-99-nvidia.conf"), "etc/crio/conf.d/99-nvidia.conf")["nvidia_runtime"]
        is False
    )
    assert of(tmp_path, recorded("runtimes/crio-99-nvidia.conf"), "etc/crio/crio.conf.d/99-nvidia.conf")[
        "nvidia_runtime"
    ]


def test_a_file_that_cannot_be_read_leaves_the_answer_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/etc/containerd/config.toml"
    write(tmp_path / path[1:], MAIN)
    host = FakeHost(tmp_path)
    monkeypatch.setattr(host, "read", lambda dummy: None)
    section = runtimes(host, Output(), Output())
    assert section.facts[0]["nvidia_runtime"] is None
    assert section.sources["nvidia_runtime"] == {"source": None, "reason": f"{path} cannot be read"}
