# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

from ansible_collections.gpuops.nvidia.plugins.filter.other_run import FilterModule, other_run
from inline_snapshot import snapshot as wording

OTHER = {"machine": "elsewhere", "process": 7, "seen": "2999-01-01T00:00:00Z"}


def test_a_host_without_a_record_is_free() -> None:
    for text in (None, "", '{"stage": "failed", "run": null}'):
        assert other_run(text, "gpu1") == ""


def test_the_other_run_is_named_with_the_remedy() -> None:
    text = json.dumps({"stage": "reboot", "run": OTHER})
    assert other_run(text, "gpu1") == (
        wording(
            "Another run changes gpu1: process 7 on elsewhere, which was last seen at 2999-01-01T00:00:00Z (stage reboot). "
            "Wait until it has ended. If it was killed, set host_change_take_over to true."
        )
    )
    assert other_run(text, "gpu1", take_over=True) == ""


def test_the_filter_has_its_name() -> None:
    assert FilterModule().filters() == {"other_run": other_run}
