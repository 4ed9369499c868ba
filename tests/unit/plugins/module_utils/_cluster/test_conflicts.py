# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The loop with which all code waits for the cluster. Its clock advances only during sleep."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import conflicts
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError, Reason
from inline_snapshot import snapshot as wording


class Writer:
    """A write that is refused a number of times."""

    def __init__(self, refusals: int, reason: Reason = "Conflict") -> None:
        self.tries, self.refusals, self.reason = 0, refusals, reason

    def __call__(self) -> int:
        self.tries += 1
        if self.tries <= self.refusals:
            raise GpuOpsError("no", reason=self.reason)
        return self.tries


@pytest.mark.parametrize("refusals", [0, 1, conflicts.ATTEMPTS - 1])
def test_a_write_is_tried_again_while_others_write(refusals: int) -> None:
    assert conflicts.settled(Writer(refusals), "Node a") == refusals + 1


def test_a_write_that_always_comes_second_is_given_up() -> None:
    writer = Writer(1000)
    with pytest.raises(GpuOpsError) as e:
        conflicts.settled(writer, "Node a")
    assert (writer.tries, e.value.reason) == (conflicts.ATTEMPTS, "Conflict")
    assert e.value.msg == wording("Node a changes faster than it can be patched. Run it again.")


def test_another_refusal_is_not_tried_again() -> None:
    writer = Writer(1, "Forbidden")
    with pytest.raises(GpuOpsError, match="no"):
        conflicts.settled(writer, "Node a")
    assert writer.tries == 1
