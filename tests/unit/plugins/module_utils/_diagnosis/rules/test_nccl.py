# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What NCCL says of its container."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import nccl

from tests.unit import diagnosed


@pytest.mark.parametrize(
    ("text", "code", "certainty"),
    [
        # https://github.com/kserve/kserve/issues/3791
        (
            "[0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-H1dBqY to 9637892 bytes",
            "NCCLSharedMemoryFull",
            "certain",
        ),
        # https://github.com/NVIDIA/nccl/issues/525
        (
            "[3] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device",
            "NCCLSharedMemoryFull",
            "certain",
        ),
        # https://github.com/NVIDIA/nccl-tests/issues/206
        (
            "misc/ibvwrap.cc:278 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
            "NCCLMemoryNotLocked",
            "likely",
        ),
    ],
)
def test_published_lines_of_nccl(text: str, code: str, certainty: str) -> None:
    found = diagnosed.found(nccl.RULES, text)
    assert {name: each.certainty for name, each in found.items()} == {code: certainty}
