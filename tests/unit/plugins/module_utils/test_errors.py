# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one exception of the collection."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import AWAY, GpuOpsError, Reason


def test_the_reason_and_the_details_become_keys_of_a_result() -> None:
    error = GpuOpsError("It failed.", reason="Conflict", causes=["x"])
    assert (str(error), error.msg, error.reason) == ("It failed.", "It failed.", "Conflict")
    assert error.details == {"reason": "Conflict", "causes": ["x"]}


def test_a_failure_may_have_no_reason() -> None:
    error = GpuOpsError("It failed.")
    assert error.reason is None and error.details == {}


def test_details_can_be_passed_on() -> None:
    first = GpuOpsError("It failed.", reason="NotFound", status=404)
    assert GpuOpsError("It failed again.", **first.details).details == first.details


def test_reasons_are_listed_once() -> None:
    reasons = t.get_args(Reason)
    assert len(set(reasons)) == len(reasons) and set(AWAY) < set(reasons)
