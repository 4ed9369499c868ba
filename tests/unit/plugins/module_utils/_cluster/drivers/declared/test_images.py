# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.images import (
    driver_image,
    os_tag,
    other_images,
)


@pytest.mark.parametrize(
    ("system", "version", "tags"),
    [
        # the tags of v25.10, v26.3 and v26.7
        ("ubuntu", "24.04", ("ubuntu24.04", "ubuntu24.04", "ubuntu24.04")),
        ("rhel", "9.4", ("rhel9.4", "rhel9.4", "rhel9")),
        ("rhel", "10.1", ("rhel10.1", "rhel10", "rhel10")),
        ("rocky", "9.7", ("rocky9.7", "rocky9", "rocky9")),
        ("ol", "9.4", ("ol9.4", "ol9.4", "ol9")),
        ("sles", "15.6", ("sles15.6", "sles15.6", "sles15.6")),
    ],
)
def test_the_tag_of_a_system_depends_on_the_operators_line(system: str, version: str, tags: tuple[str, ...]) -> None:
    lines = ((25, 10), (26, 3), (26, 7))
    assert tuple(os_tag(system, version, line) for line in lines) == tags
    assert os_tag(system, version, None) == tags[-1], "an unknown operator counts as the newest"


SPEC = {"repository": "nvcr.io/nvidia", "image": "driver", "version": "595.91.07"}


def test_an_image_has_the_system_and_a_precompiled_one_the_kernel() -> None:
    assert driver_image(SPEC, "ubuntu24.04", "") == "nvcr.io/nvidia/driver:595.91.07-ubuntu24.04"
    precompiled = {**SPEC, "version": "595", "usePrecompiled": True}
    assert driver_image(precompiled, "rhel9", "5.14.0-427.el9.x86_64") == (
        "nvcr.io/nvidia/driver:595-5.14.0-427.el9.x86_64-rhel9"
    )
    assert driver_image({**SPEC, "version": "sha256:abc"}, "rhel9", "") == "nvcr.io/nvidia/driver@sha256:abc"
    assert driver_image({"image": "nvcr.io/nvidia/driver:1"}, "rhel9", "") == "nvcr.io/nvidia/driver:1-rhel9"
    assert driver_image({}, "rhel9", "") is None


def test_modules_beside_the_driver_have_images_of_their_own() -> None:
    gds = {"enabled": True, "repository": "nvcr.io/nvidia", "image": "nvidia-fs", "version": "2.27.3"}
    assert other_images({"gds": gds, "gdrcopy": {**gds, "enabled": False}}, "rhel9") == {
        "gds": "nvcr.io/nvidia/nvidia-fs:2.27.3-rhel9"
    }
    digest = {"gdrcopy": {**gds, "version": "sha256:abc"}}
    assert other_images(digest, "rhel9") == {"gdrcopy": "nvcr.io/nvidia/nvidia-fs@sha256:abc"}
    assert other_images({"gds": {"enabled": True}}, "rhel9") == {}
