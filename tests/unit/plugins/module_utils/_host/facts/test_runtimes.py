# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.runtimes import (
    parse_docker,
    parse_toml,
    runtimes,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Output

from lab.nvml.tree import write
from tests.unit.fakes.host import FakeHost, recorded


def found(root: Path, packages: str = "", units: str = "") -> list[dict[str, t.Any]]:
    return runtimes(FakeHost(root), Output(packages), Output(units)).facts


@pytest.mark.parametrize(
    ("name", "handlers", "default"),
    [
        ("containerd-1.7-nvidia-ctk.toml", {"nvidia", "runc"}, "nvidia"),
        ("containerd-1.7-default.toml", {"runc"}, "runc"),
        ("containerd-2.1-99-nvidia.toml", {"nvidia", "nvidia-cdi"}, "nvidia"),
        ("k3s.toml", {"nvidia", "runc"}, None),
        ("microk8s-template.toml", {"nvidia-container-runtime"}, "${RUNTIME}"),
        ("crio-99-nvidia.conf", {"nvidia"}, "nvidia"),
        ("crio-10-runc.conf", {"crun"}, "crun"),
    ],
)
def test_configurations(name: str, handlers: set[str], default: str | None) -> None:
    settings = parse_toml(recorded(f"runtimes/{name}"))
    assert (settings.handlers, settings.default) == (handlers, default)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"runtimes": null}'])
def test_docker_settings_without_runtimes(text: str) -> None:
    assert parse_docker(text).handlers == frozenset()


def test_containerd_and_docker_of_a_host(tmp_path: Path) -> None:
    write(tmp_path / "etc/containerd/config.toml", recorded("runtimes/containerd-1.7-nvidia-ctk.toml"))
    write(tmp_path / "etc/docker/daemon.json", recorded("runtimes/daemon.json"))
    assert found(tmp_path, recorded("packages/dpkg-ubuntu-22.04.txt"), recorded("systemd/ubuntu-22.04.txt")) == [
        {
            "name": "containerd",
            "distribution": None,
            "config": "/etc/containerd/config.toml",
            "nvidia_runtime": True,
            "default_runtime": "nvidia",
            "active": True,
            "version": "1.7.27",
        },
        {
            "name": "docker",
            "distribution": None,
            "config": "/etc/docker/daemon.json",
            "nvidia_runtime": True,
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
            "microk8s-template.toml",
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
    write(tmp_path / "usr/share/crio/crio.conf.d/10-crio.conf", recorded("runtimes/crio-10-runc.conf"))
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
