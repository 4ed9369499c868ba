# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks.registry.image_name import (
    on_mirror,
    parse,
)


@pytest.mark.parametrize(
    ("image", "host", "repository", "version"),
    [
        ("nvcr.io/nvidia/driver:595-ubuntu24.04", "nvcr.io", "nvidia/driver", "595-ubuntu24.04"),
        ("nvcr.io/nvidia/driver@sha256:abc", "nvcr.io", "nvidia/driver", "sha256:abc"),
        ("nvcr.io/nvidia/driver:595@sha256:abc", "nvcr.io", "nvidia/driver", "sha256:abc"),
        ("127.0.0.1:5000/driver", "127.0.0.1:5000", "driver", "latest"),
        ("localhost/driver:1", "localhost", "driver", "1"),
        ("nvidia/driver:1", "docker.io", "nvidia/driver", "1"),
        ("busybox", "docker.io", "library/busybox", "latest"),
    ],
)
def test_an_image_has_the_parts_that_a_container_runtime_reads(
    image: str, host: str, repository: str, version: str
) -> None:
    found = parse(image)
    assert (found.host, found.repository, found.version) == (host, repository, version)


def test_dockers_registry_answers_at_another_address() -> None:
    assert parse("nvidia/driver:1").api == "registry-1.docker.io" and parse("nvcr.io/a/b:1").api == "nvcr.io"


@pytest.mark.parametrize(
    ("mirrors", "expected"),
    [
        ({}, "nvcr.io/nvidia/driver:1"),
        ({"quay.io": "mirror.test"}, "nvcr.io/nvidia/driver:1"),
        ({"nvcr.io": "mirror.test"}, "mirror.test/nvidia/driver:1"),
        ({"nvcr.io/": "https://mirror.test:5000/a/"}, "mirror.test:5000/a/nvidia/driver:1"),
        ({"nvcr.io": "one.test", "nvcr.io/nvidia": "two.test/nv"}, "two.test/nv/driver:1"),
        ({"nvcr.io/nvidia/driver": "two.test/nv/drv"}, "two.test/nv/drv:1"),
        ({"nvcr.io/nv": "two.test"}, "nvcr.io/nvidia/driver:1"),
    ],
)
def test_the_mirror_of_the_longest_part_counts(mirrors: dict, expected: str) -> None:
    assert str(on_mirror(parse("nvcr.io/nvidia/driver:1"), mirrors)) == expected


def test_a_digest_stays_one_on_a_mirror() -> None:
    found = on_mirror(parse("nvcr.io/nvidia/driver@sha256:abc"), {"nvcr.io": "mirror.test"})
    assert str(found) == "mirror.test/nvidia/driver@sha256:abc"
