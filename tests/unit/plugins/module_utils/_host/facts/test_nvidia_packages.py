# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import nvidia_packages
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.nvidia_packages import SERVICES


def test_the_name_with_the_drivers_branch_comes_first() -> None:
    assert SERVICES["fabric_manager"].names("580.95.05") == [
        "nvidia-fabricmanager-580",
        "nvidia-fabricmanager",
        "nvidia-fabric-manager",
    ]
    assert SERVICES["imex"].names("580.95.05") == ["nvidia-imex-580", "nvidia-imex"]
    assert SERVICES["nvlsm"].names("580.95.05") == ["nvlsm"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_recognizes_each_of_its_package_names_and_lists_it_by_its_globs(name: str) -> None:
    service = SERVICES[name]
    names = service.names("580.95.05")
    assert all(map(service.provides, names))
    assert nvidia_packages.matching(names, service.globs) == sorted(names)
    assert nvidia_packages.matching(names, nvidia_packages.SERVICE_PACKAGES) == sorted(names)


@pytest.mark.parametrize(
    "package", ["nvidia-fabricmanager-dev-580", "libnvidia-nscq-580", "nvidia-compute-utils-570-dbg", "nvlsm-dev"]
)
def test_a_service_does_not_recognize_other_packages(package: str) -> None:
    assert not any(service.provides(package) for service in SERVICES.values())


def test_a_driver_container_replaces_the_driver_and_its_services_but_not_the_container_toolkit() -> None:
    driver = [
        "cuda-drivers-580",
        "libnvidia-compute-580:amd64",
        "linux-modules-nvidia-580-open-generic",
        "nvidia-compute-utils-580",
        "nvidia-driver-580-server",
        "nvidia-fabricmanager-580",
        "nvidia-persistenced",
        "nvlsm",
    ]
    others = ["libnvidia-container1", "nvidia-container-toolkit", "linux-image-generic", "nvidia-cuda-toolkit"]
    assert [name for name in [*others, *driver] if nvidia_packages.is_driver(name)] == driver


def test_the_drivers_packages_of_debian_belong_to_the_driver_and_the_toolkits_of_cuda_do_not() -> None:
    driver = [
        "libcuda1",
        "libnvidia-ml1",
        "nvidia-smi",
        "firmware-nvidia-gsp",
        "nvidia-alternative",
        "libgl1-nvidia-glvnd-glx",
    ]
    assert all(map(nvidia_packages.is_driver, driver))
    assert nvidia_packages.is_driver("nvidia-cuda-mps")
    others = [
        "nvidia-cuda-toolkit",
        "nvidia-driver-pinning-580",
        "nvidia-fs-dkms",
        "nvidia-system-core",
        "libnvidia-container-tools",
        "libnvme1",
    ]
    assert not any(map(nvidia_packages.is_driver, others))
    assert nvidia_packages.is_stack("nvidia-container-toolkit") and not nvidia_packages.is_stack("nvidia-cudnn")
