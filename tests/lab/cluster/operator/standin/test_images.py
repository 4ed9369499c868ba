# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The images that the operator composes, and the specifications that it refuses."""

from __future__ import annotations

import pytest

from lab.cluster.operator.standin import images
from tests.lab.cluster.operator.standin.builders import IMAGE, Json


def test_tag_and_digest() -> None:
    assert images.image(IMAGE, "X", {}) == "nvcr.io/nvidia/thing:v1"
    assert images.image({**IMAGE, "version": "sha256:ab"}, "X", {}) == "nvcr.io/nvidia/thing@sha256:ab"
    assert images.image({"image": "a/b@sha256:c"}, "X", {}) == "a/b@sha256:c"


def test_the_environment_is_used_if_the_spec_names_no_image() -> None:
    assert images.image({}, "X", {"X": "from/env:1"}) == "from/env:1"


@pytest.mark.parametrize(
    ("block", "word"),
    [
        ({}, "empty image path"),
        ({"image": "a", "version": "1"}, "must all be set (repository=, image=a, version=1)"),
    ],
)
def test_refused(block: Json, word: str) -> None:
    with pytest.raises(images.ReconcileError) as caught:
        images.image(block, "X", {})
    assert word in str(caught.value)


def test_digest_takes_no_suffix() -> None:
    assert images.driver_image({**IMAGE, "version": "sha256:ab"}, "X", {}, "ubuntu24.04").endswith("@sha256:ab")


@pytest.mark.parametrize(
    ("system", "version", "tag"),
    [("ubuntu", "24.04", "ubuntu24.04"), ("rhel", "9.4", "rhel9"), ("rocky", "9.4", "rocky9")],
)
def test_os_tag(system: str, version: str, tag: str) -> None:
    assert images.os_tag({images.OS_ID: system, images.OS_VERSION: version}) == tag


def test_os_unknown() -> None:
    with pytest.raises(images.ReconcileError, match="failed to retrieve GPU node OS info"):
        images.os_tag({images.OS_ID: "ubuntu"})


def test_kernel_suffix() -> None:
    assert images.kernel_suffix("5.14.0-427.13.1.el9_4.x86_64") == "5.14.0-427.13.1.el9.4"
