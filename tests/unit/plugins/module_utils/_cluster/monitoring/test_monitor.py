# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a call does is tested with the module: tests/unit/plugins/modules/test_gpu_monitoring.py."""

from __future__ import annotations

import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.monitoring import monitor
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.monitoring.monitoring_objects import (
    CONFIG_MAP,
    ObjectStep,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.monitoring.prometheus_choice import RULES


def test_texts_keep_their_order_and_their_long_lines() -> None:
    rules = {"groups": [{"name": "z", "expr": "a " * 200}, {"name": "a", "expr": "{{ $labels.node }}"}]}
    text = monitor._written(rules)
    assert yaml.safe_load(text) == rules and text.index("z") < text.index("name: a")


def test_a_long_text_is_shown_by_its_digest() -> None:
    shown = monitor._shortened({"labels": {}, "data": {"a": "x" * 20_000, "b": "x" * 19_999}})
    assert shown["data"]["a"].startswith("20000 characters") and shown["data"]["b"] == "x" * 19_999
    assert monitor._shortened({"spec": {}}) == {"spec": {}}


def test_a_list_is_told_by_our_mark_and_its_key() -> None:
    assert monitor._is_list(CONFIG_MAP, {"data": {"dcgm-metrics.csv": ""}})
    assert not monitor._is_list(CONFIG_MAP, {"data": {"fleet.json": ""}}) and not monitor._is_list(CONFIG_MAP, {})
    assert not monitor._is_list(RULES, {"data": {"dcgm-metrics.csv": ""}})


def test_the_removal_of_lists_comes_later_and_that_of_others_does_not() -> None:
    old = ObjectStep(CONFIG_MAP, {"data": {"dcgm-metrics.csv": ""}}, None)
    others = [
        ObjectStep(CONFIG_MAP, {"data": {}}, None),
        ObjectStep(CONFIG_MAP, None, {"data": {"dcgm-metrics.csv": ""}}),
    ]
    assert monitor._without_lists([old, *others]) == others
