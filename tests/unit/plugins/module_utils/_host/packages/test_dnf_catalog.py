# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages import dnf_catalog
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.dnf_catalog import Streams
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.planner_types import Package

OFFERED = ("latest", "latest-dkms", "open-dkms", "580", "580-dkms", "580-open")


@pytest.mark.parametrize(
    ("flavour", "enabled", "stream"),
    [
        ("open", None, "580-open"),
        ("proprietary", None, "580-dkms"),
        ("open", "open-dkms", "open-dkms"),
        ("open", "580-open", "580-open"),
        ("open", "580-dkms", "580-open"),
        ("proprietary", "latest-dkms", "latest-dkms"),
    ],
)
def test_a_branch_has_its_stream(flavour: str, enabled: str | None, stream: str) -> None:
    assert Streams(OFFERED, enabled).of("580", flavour) == stream


def test_a_repository_without_modules_needs_no_stream() -> None:
    assert Streams().of("580", "open") is None
    layout = dnf_catalog.dkms_layout("580", "open", Streams(), [])
    assert layout.streams == () and layout.required == ("kmod-nvidia-open-dkms", "nvidia-driver-cuda")
    assert dnf_catalog.other_stream(layout, Streams((), "580-dkms")) is None


def test_a_branch_without_a_stream_of_its_own_takes_the_latest() -> None:
    assert Streams(("latest-dkms", "open-dkms")).of("595", "open") == "open-dkms"


def test_another_enabled_stream_is_named() -> None:
    layout = dnf_catalog.dkms_layout("580", "open", Streams(OFFERED, "580-dkms"), [])
    assert dnf_catalog.other_stream(layout, Streams(OFFERED, "580-dkms")) == "580-dkms"
    assert dnf_catalog.other_stream(layout, Streams(OFFERED, "580-open")) is None
    assert dnf_catalog.other_stream(layout, Streams(OFFERED)) is None


def test_companions_have_the_names_of_every_branch() -> None:
    names = dnf_catalog.companions("570")
    assert names["fabric_manager"] == ("nvidia-fabricmanager-570", "nvidia-fabricmanager", "nvidia-fabric-manager")
    assert names["imex"] == ("nvidia-imex-570", "nvidia-imex")
    assert (names["nvlsm"], names["toolkit"]) == (("nvlsm",), ("nvidia-container-toolkit",))


@pytest.mark.parametrize(
    ("kernel", "short"),
    [
        ("5.14.0-427.13.1.el9_4.x86_64", "5.14.0-427.13.1"),
        ("6.12.0-211.51.1.el10_2.aarch64", "6.12.0-211.51.1"),
        ("6.1.115-126.197.amzn2023.x86_64", "6.1.115-126.197"),
    ],
)
def test_precompiled_modules_are_named_after_the_kernel(kernel: str, short: str) -> None:
    assert dnf_catalog.kernel_of_modules(kernel) == short


def test_precompiled_modules_come_newest_first_and_only_for_the_kernel() -> None:
    names = [
        ("kmod-nvidia-580.95.05-5.14.0-427.13.1", "3:580.95.05-2.el9_4"),
        ("kmod-nvidia-580.105.08-5.14.0-427.13.1", "3:580.105.08-2.el9_4"),
        ("kmod-nvidia-580.105.08-5.14.0-503.1.1", "3:580.105.08-2.el9_5"),
        ("kmod-nvidia-open-580.105.08-5.14.0-427.13.1", "3:580.105.08-2.el9_4"),
        ("kmod-nvidia-570.86.15-5.14.0-427.13.1", "3:570.86.15-2.el9_4"),
        ("kmod-nvidia-latest-dkms", "3:580.105.08-1.el9"),
    ]
    offered = [Package(name, version, "nvidia") for name, version in names]
    kernel = "5.14.0-427.13.1.el9_4.x86_64"
    found = dnf_catalog.precompiled_layouts("580", "proprietary", kernel, offered, Streams(OFFERED))
    assert [layout.required[0] for layout in found] == [names[1][0], names[0][0]]
    assert all(layout.signed and layout.streams == ("nvidia-driver:580",) and not layout.extra for layout in found)
    latest = dnf_catalog.precompiled_layouts("580", "proprietary", kernel, offered, Streams(OFFERED, "latest"))
    assert latest[0].streams == ("nvidia-driver:latest",)
    is_open = dnf_catalog.precompiled_layouts("580", "open", kernel, offered, Streams(OFFERED))
    assert [layout.required[0] for layout in is_open] == [names[3][0]]
    assert is_open[0].streams == ("nvidia-driver:580-open",)
    assert dnf_catalog.precompiled_layouts("590", "open", kernel, offered, Streams()) == []


@pytest.mark.parametrize(
    ("enabled", "precompiled"), [("580", True), ("latest", True), ("580-open", False), (None, False)]
)
def test_the_enabled_stream_tells_precompiled_modules(enabled: str | None, precompiled: bool) -> None:
    assert Streams(OFFERED, enabled).precompiled is precompiled


@pytest.mark.parametrize(
    ("owner", "headers"),
    [
        ("kernel-core", "kernel-devel"),
        ("kernel-64k-core", "kernel-64k-devel"),
        ("kernel-rt-core", "kernel-rt-devel"),
        ("kernel-uek-core", "kernel-uek-devel"),
        ("kernel", "kernel-devel"),
        ("kernel6.12", "kernel6.12-devel"),
    ],
)
def test_headers_are_named_after_the_owner_of_the_kernel(owner: str, headers: str) -> None:
    assert dnf_catalog.devel_of(owner) == headers


@pytest.mark.parametrize(
    ("enabled", "branch"), [("580-open", "580"), ("590", "590"), ("latest-580", None), (None, None)]
)
def test_the_enabled_stream_tells_its_branch(enabled: str | None, branch: str | None) -> None:
    assert Streams(OFFERED, enabled).enabled_branch == branch
