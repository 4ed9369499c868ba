# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.images import needed_images
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.images.needed_images import (
    NeededImage,
    NodeSystem,
    RenderedImages,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

DRIVER = {"enabled": True, "repository": "nvcr.io/nvidia", "image": "driver", "version": "595.91.07"}
GDS = {"enabled": True, "repository": "nvcr.io/nvidia/cloud-native", "image": "nvidia-fs", "version": "2.29.4"}
GDS_BASE = "nvcr.io/nvidia/cloud-native/nvidia-fs:2.29.4"
PLAIN = ["nvcr.io/nvidia/gpu-operator:v26.7.0", "nvcr.io/nvidia/driver:595.91.07"]
UBUNTU = NodeSystem("ubuntu", "24.04", ("6.8.0-60-generic", "6.8.0-71-generic"), frozenset({"amd64"}))
RHEL = NodeSystem("rhel", "9.6", ("5.14.0-570.el9",), frozenset({"amd64", "arm64"}))


def chart(images: t.Sequence[str] = PLAIN, line: tuple[int, int] | None = (26, 7), **spec: t.Any) -> RenderedImages:
    drivers = spec.pop("nvidiadrivers", ())
    return RenderedImages(images, {"driver": DRIVER, **spec}, drivers, line)


def names(*arguments: t.Any) -> list[str]:
    return [each.image for each in needed_images.needed(*arguments)]


def test_the_drivers_image_is_completed_for_each_system() -> None:
    assert names(chart(), [UBUNTU, RHEL], []) == [
        "nvcr.io/nvidia/driver:595.91.07-rhel9",
        "nvcr.io/nvidia/driver:595.91.07-ubuntu24.04",
        "nvcr.io/nvidia/gpu-operator:v26.7.0",
    ]


def test_an_older_line_has_other_tags() -> None:
    assert "nvcr.io/nvidia/driver:595.91.07-rhel9.6" in names(chart(line=(25, 10)), [RHEL], [])


def test_a_precompiled_driver_has_an_image_for_each_kernel() -> None:
    spec = {**DRIVER, "usePrecompiled": True, "version": "595"}
    found = needed_images.needed(chart(["nvcr.io/nvidia/driver:595"], driver=spec), [UBUNTU], [])
    assert [(each.image, each.purpose) for each in found] == [
        (f"nvcr.io/nvidia/driver:595-{kernel}-ubuntu24.04", f"driver on ubuntu24.04 with the kernel {kernel}")
        for kernel in UBUNTU.kernels
    ]
    assert found[0].architectures == {"amd64"}


def test_a_precompiled_driver_needs_kernels() -> None:
    spec = {**DRIVER, "usePrecompiled": True}
    with pytest.raises(GpuOpsError, match="debian12 has no kernels"):
        needed_images.needed(chart(driver=spec), [NodeSystem("debian", "12")], [])


def test_a_driver_needs_systems() -> None:
    with pytest.raises(GpuOpsError, match=r"driver:595\.91\.07 by the"):
        needed_images.needed(chart(), [], [])


@pytest.mark.parametrize(
    "driver", [{"enabled": False, **{key: DRIVER[key] for key in ("repository", "image", "version")}}, {}]
)
def test_without_a_driver_container_no_system_is_needed(driver: dict[str, t.Any]) -> None:
    assert names(chart(["a.io/b:1"], driver={"enabled": False, **driver}), [], []) == ["a.io/b:1"]


def test_an_image_with_a_digest_serves_every_system() -> None:
    digest = f"sha256:{'a' * 64}"
    image = f"nvcr.io/nvidia/driver@{digest}"
    assert names(chart([image], driver={**DRIVER, "version": digest}), [UBUNTU, RHEL], []) == [image]


def test_modules_beside_the_driver_are_completed_as_well() -> None:
    assert names(chart([*PLAIN, GDS_BASE], gds=GDS, gdrcopy={"enabled": False}), [UBUNTU], [])[:2] == [
        f"{GDS_BASE}-ubuntu24.04",
        "nvcr.io/nvidia/driver:595.91.07-ubuntu24.04",
    ]


def test_nvidiadrivers_bring_their_own_images() -> None:
    """The ClusterPolicy's own settings of the modules beside the driver are without effect then."""
    other = {"spec": {"repository": "nvcr.io/nvidia", "image": "driver", "version": "580.1", "gds": {"enabled": False}}}
    delegating = chart(
        ["nvcr.io/nvidia/driver:580.1", GDS_BASE],
        driver={"enabled": True, "useNvidiaDriverCRD": True},
        gds=GDS,
        nvidiadrivers=[other],
    )
    assert names(delegating, [UBUNTU], []) == ["nvcr.io/nvidia/driver:580.1-ubuntu24.04"]


@pytest.mark.parametrize("enabled", [True, False])
def test_the_vgpu_manager_is_completed_where_it_runs(enabled: bool) -> None:
    manager = {"enabled": True, "repository": "own.example/x", "image": "vgpu-manager", "version": "595"}
    images = ["own.example/x/vgpu-manager:595"] if enabled else []
    policy = chart(images, driver={"enabled": False}, sandboxWorkloads={"enabled": enabled}, vgpuManager=manager)
    assert names(policy, [UBUNTU], []) == (["own.example/x/vgpu-manager:595-ubuntu24.04"] if enabled else [])


def test_further_images_are_listed_once() -> None:
    found = needed_images.needed(chart(["a.io/b:1"], driver={"enabled": False}), [], ["a.io/b:1", "c.io/d:1"])
    assert [(each.image, each.purpose) for each in found] == [("a.io/b:1", "chart"), ("c.io/d:1", "more")]


@pytest.mark.parametrize(
    ("image", "on"),
    [
        ("nvcr.io/nvidia/driver:1", "r.example:5000/m/nvidia/driver:1"),
        ("busybox", "r.example:5000/m/library/busybox:latest"),
        ("r.example:5000/m/own/vgpu-manager:1", "r.example:5000/m/own/vgpu-manager:1"),
        ("r.example:5000/more/own:1", "r.example:5000/m/more/own:1"),
    ],
)
def test_names_on_a_mirror(image: str, on: str) -> None:
    assert NeededImage(image, "").on("r.example:5000/m") == on


@pytest.mark.parametrize(
    ("text", "system"),
    [("ubuntu24.04", ("ubuntu", "24.04")), ("rhel9", ("rhel", "9")), ("sl-micro6.1", ("sl-micro", "6.1"))],
)
def test_systems_as_data(text: str, system: tuple[str, str]) -> None:
    found = needed_images.given_system({"system": text, "kernels": ["6.1"], "architectures": ["arm64"]})
    assert (found.name, found.version) == system
    assert (found.kernels, found.architectures, str(found)) == (("6.1",), {"arm64"}, text)


@pytest.mark.parametrize("text", ["ubuntu 24.04", "Ubuntu24.04", "ubuntu", "24.04", "ubuntu24.04.", ""])
def test_what_is_no_system(text: str) -> None:
    with pytest.raises(GpuOpsError, match="is no system"):
        needed_images.given_system({"system": text, "kernels": [], "architectures": []})


def node(name: str, kernel: str, architecture: str | None = "amd64", **labels: str) -> dict[str, t.Any]:
    info = {"kernelVersion": kernel, "osImage": "Ubuntu 24.04.2 LTS"}
    if architecture:
        info["architecture"] = architecture
    return {"metadata": {"name": name, "labels": labels}, "status": {"nodeInfo": info}}


GPU = {"nvidia.com/gpu.present": "true"}


def test_systems_of_the_gpu_nodes() -> None:
    fleet = [node("a", "2", **GPU), node("b", "1", "arm64", **GPU), node("c", "3")]
    assert needed_images.systems_of(fleet) == [NodeSystem("ubuntu", "24.04", ("1", "2"), frozenset({"amd64", "arm64"}))]


def test_without_a_known_gpu_node_all_nodes_count() -> None:
    [found] = needed_images.systems_of([node("a", "2", None), node("c", "3", None)])
    assert (found.kernels, found.architectures) == (("2", "3"), frozenset())
    assert needed_images.systems_of([]) == []
