# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks import fitness
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.declared_options import DRIVER
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.pools import DriverSource, Pool
from inline_snapshot import snapshot as wording

from tests.unit.fakes.stack import node

OS_ID = "feature.node.kubernetes.io/system-os_release.ID"
OS_VERSION = "feature.node.kubernetes.io/system-os_release.VERSION_ID"
H100 = {"nvidia.com/gpu.compute.major": "9", "nvidia.com/gpu.compute.minor": "0"}
DIGEST = f"sha256:{'0123456789abcdef' * 4}"
SPEC = {"repository": "nvcr.io/nvidia", "image": "driver", "version": "595.91.07"}
LINE = (26, 7)


def with_labels(labels: dict[str, str] | None = None) -> dict:
    made = node()
    made["metadata"]["labels"] |= H100 | (labels or {})
    return made


def gpu(product: str, compute: str) -> dict:
    major, dummy, minor = compute.partition(".")
    return with_labels({
        "nvidia.com/gpu.product": product, "nvidia.com/gpu.compute.major": major, "nvidia.com/gpu.compute.minor": minor,
    })  # fmt: skip


def check(
    *nodes: dict, system: str = "ubuntu24.04", kernel: str = "", line: t.Any = LINE, **spec: t.Any
) -> dict[str, t.Any]:
    """Return the findings by check; the worst one if a check has several."""
    pool = Pool(DriverSource(DRIVER, "default", {**SPEC, **spec}), system, kernel, nodes or (with_labels(),))
    found: dict[str, t.Any] = {}
    order = ("ok", "warning", "failure")
    for item in fitness.findings([pool], line):
        if item.check not in found or order.index(item.level) > order.index(found[item.check].level):
            found[item.check] = item
    return found


def test_a_driver_that_fits_is_ok() -> None:
    assert {item.level for item in check().values()} == {"ok"}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"usePrecompiled": True}, "Set branch: '595'"),
        ({"usePrecompiled": True, "version": DIGEST}, "Set branch"),
        ({"version": "595"}, "Set the whole version"),
        ({"version": "latest"}, "Set the whole version"),
        ({"version": "580.126.20-ubuntu24.04"}, "Set version: 580.126.20."),
        ({"version": "sha256:abc"}, "Copy the whole digest"),
        ({"usePrecompiled": True, "version": DIGEST[:-1]}, "Copy the whole digest"),
        ({"version": DIGEST.replace("sha256:", "sha256@")}, "Copy the whole digest"),
    ],
)
def test_versions_that_nobody_publishes_are_found(spec: dict, said: str) -> None:
    found = check(**spec)["version"]
    assert found.level == "failure" and said in found.remedy


def test_a_version_of_two_numbers_is_doubted_and_other_tags_are_not() -> None:
    assert check(version="580.95")["version"].level == "warning"
    for version in (DIGEST, "595.91.07", "595.91.07-custom", "580.126.20-rhel9"):
        assert check(version=version)["version"].level == "ok", version


def test_a_driver_without_a_version_is_not_known() -> None:
    assert check(version="", repository="", image="")["version"].level == "warning"
    assert check(version="595", usePrecompiled=True)["version"].level == "ok"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            {"kernelModuleType": "precompiled"},
            wording("NVIDIADriver default: kernelModuleType is 'precompiled', which is not a valid value."),
        ),
        (
            {"version": ""},
            wording(
                "NVIDIADriver default: repository, image and version go together, and only repository and image are set."
            ),
        ),
        (
            {"usePrecompiled": True, "version": "595", "gds": {"enabled": True}},
            wording("NVIDIADriver default: GPUDirect Storage has no precompiled modules."),
        ),
        (
            {"usePrecompiled": True, "version": "595", "gdrcopy": {"enabled": True}},
            wording("NVIDIADriver default: GDRCopy has no precompiled modules."),
        ),
        (
            {"gds": {"enabled": True, "version": "2.17.5"}},
            wording(
                "NVIDIADriver default: GPUDirect Storage 2.17.5 needs kernelModuleType open, and auto is not enough."
            ),
        ),
        (
            {"gds": {"enabled": True, "version": "v2.27.3-1"}, "kernelModuleType": "proprietary"},
            wording(
                "NVIDIADriver default: GPUDirect Storage v2.27.3-1 needs kernelModuleType open, and auto is not enough."
            ),
        ),
        (
            {"gds": {"enabled": True, "version": "sha256:abc"}},
            wording(
                "NVIDIADriver default: GPUDirect Storage sha256:abc needs kernelModuleType open, and auto is not enough."
            ),
        ),
    ],
)
def test_settings_that_contradict_each_other_are_found(spec: dict, said: str) -> None:
    found = check(**spec)["settings"]
    assert found.level == "failure" and found.message == said


@pytest.mark.parametrize(
    "spec",
    [
        {"gds": {"enabled": True, "version": "2.17.4"}},
        {"gds": {"enabled": True, "version": "2.27.3"}, "kernelModuleType": "open"},
        {"gds": {"enabled": False, "version": "2.27.3"}},
        {"gds": {"enabled": True, "version": "local"}},
        {"image": "nvcr.io/nvidia/driver:1", "repository": "", "version": ""},
    ],
)
def test_settings_that_fit_are_ok(spec: dict) -> None:
    assert check(**spec)["settings"].level == "ok"


@pytest.mark.parametrize(
    ("labels", "generation"),
    [
        (("12", "0"), "Blackwell"), (("10", "3"), "Blackwell"), (("9", "0"), "Hopper"), (("8", "9"), "Ada Lovelace"),
        (("8", "6"), "Ampere"), (("7", "5"), "Turing"), (("7", "0"), "Volta"), (("6", "1"), "Pascal"),
        (("5", "2"), "Maxwell"), (("3", "7"), "Kepler"), (("2", "0"), ""),
    ],
)  # fmt: skip
def test_the_compute_capability_tells_the_generation(labels: tuple[str, str], generation: str) -> None:
    assert fitness.generation_of(gpu("x", ".".join(labels))) == generation


def test_without_it_the_family_does() -> None:
    made = node()
    made["metadata"]["labels"]["nvidia.com/gpu.family"] = "ada-lovelace"
    assert fitness.generation_of(made) == ""
    made["metadata"]["labels"]["nvidia.com/gpu.family"] = "ampere"
    assert fitness.generation_of(made) == "Ampere" and fitness.generation_of(node()) == ""


@pytest.mark.parametrize(
    ("product", "compute", "spec", "said"),
    [
        ("Tesla-V100", "7.0", {}, wording("NVIDIADriver default: branch 595 does not support Tesla-V100.")),
        (
            "Tesla-V100",
            "7.0",
            {"version": "580.1.2", "kernelModuleType": "open"},
            wording("NVIDIADriver default: the open modules do not support Tesla-V100."),
        ),
        (
            "NVIDIA-B300",
            "10.3",
            {"version": "565.1.2"},
            wording("NVIDIADriver default: branch 565 does not support NVIDIA-B300."),
        ),
        (
            "NVIDIA-B300",
            "10.3",
            {"kernelModuleType": "proprietary"},
            wording("NVIDIADriver default: the proprietary modules do not support NVIDIA-B300."),
        ),
        (
            "NVIDIA-GH200-480GB",
            "9.0",
            {"kernelModuleType": "proprietary"},
            wording("NVIDIADriver default: the proprietary modules do not support NVIDIA-GH200-480GB."),
        ),
        (
            "NVIDIA-B200",
            "10.0",
            {"version": "570.86.15"},
            wording("NVIDIADriver default: NVIDIA-B200 needs driver 570.133.20 or newer, and version is 570.86.15."),
        ),
    ],
)
def test_a_driver_that_does_not_support_the_gpus_is_found(product: str, compute: str, spec: dict, said: str) -> None:
    found = check(gpu(product, compute), **spec)["gpus"]
    assert found.level == "failure" and found.message == said and found.nodes == ("gpu-0000",)


@pytest.mark.parametrize(
    ("product", "compute", "spec"),
    [
        ("Tesla-V100", "7.0", {"version": "580.1.2"}),
        ("NVIDIA-B200", "10.0", {"version": "570.133.20"}),
        ("NVIDIA-B200", "10.0", {"version": "570", "usePrecompiled": True}),
        ("NVIDIA-B200", "10.0", {"version": "sha256:abc"}),
        ("NVIDIA-H100", "9.0", {"kernelModuleType": "proprietary"}),
    ],
)
def test_a_driver_that_supports_the_gpus_is_ok(product: str, compute: str, spec: dict) -> None:
    assert check(gpu(product, compute), **spec)["gpus"].level == "ok"


def test_gpus_that_are_not_known_yet_are_told() -> None:
    assert check(node())["gpus"].level == "warning"


def test_an_image_for_another_system_is_found() -> None:
    found = check(with_labels({OS_ID: "rhel", OS_VERSION: "9.4"}))["operating_system"]
    assert found.level == "failure" and "one image for ubuntu24.04, and these nodes run rhel9.4" in found.message
    bare = with_labels()
    del bare["metadata"]["labels"][OS_ID]
    assert "has not labelled" in check(bare)["operating_system"].message


def test_systems_that_nvidia_has_not_validated_are_told() -> None:
    strange = with_labels({OS_ID: "debian", OS_VERSION: "13"})
    found = check(strange, system="debian13")["operating_system"]
    assert found.level == "warning" and "debian 13" in found.message
    assert check(strange, system="debian13", line=None)["operating_system"].level == "ok", (
        "nothing is known of its line"
    )
    coreos = with_labels({OS_ID: "rhcos", OS_VERSION: "4.18"})
    assert check(coreos, system="rhcos4.18")["operating_system"].level == "ok"


@pytest.mark.parametrize(
    ("kernel", "version", "level", "said"),
    [
        (
            "6.8.0-31-generic",
            "595",
            "ok",
            wording("NVIDIA lists precompiled drivers for ubuntu24.04 with kernel 6.8.0-31-generic."),
        ),
        (
            "6.80.0-31-generic",
            "595",
            "warning",
            wording("NVIDIA lists no precompiled drivers for ubuntu24.04 with kernel 6.80.0-31-generic."),
        ),
        (
            "6.8.0-31-generic",
            "570",
            "warning",
            wording("NVIDIA lists precompiled drivers of branches 580, 595, and branch is 570."),
        ),
    ],
)
def test_kernels_without_precompiled_drivers_are_told(kernel: str, version: str, level: str, said: str) -> None:
    found = check(kernel=kernel, version=version, usePrecompiled=True)["kernel"]
    assert found.level == level and found.message == said
    assert "kernel" not in check()
