# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics import promql


def test_the_first_name_of_the_node_counts() -> None:
    assert promql.by_node("up") == (
        "max by (node) (label_replace(label_join(max by (node, hostname, Hostname) (up), "
        '"node", ";", "node", "hostname", "Hostname"), "node", "$1", "node", ";*([^;]*).*"))'
    )


def test_a_gpu_counts_once_whoever_shares_it() -> None:
    assert promql.by_gpu("x").startswith("max by (node, gpu, UUID, modelName) (")
    assert promql.by_gpu("x", "xid").startswith("max by (node, gpu, UUID, modelName, xid) (")


def test_the_holder_is_the_workload_in_each_way_to_scrape() -> None:
    first, second = (promql.of_pods(metric, "10m") for metric in "xy")
    assert first == (
        'max_over_time(x{exported_pod!=""}[10m]) or '
        'max_over_time(x{exported_pod="", pod!="", pod!~".*dcgm-exporter.*"}[10m])'
    )
    text = promql.held_idle("10m", "x", "y")
    kept = "node, hostname, Hostname, gpu, UUID, modelName, namespace, pod, exported_namespace, exported_pod"
    assert f"((max by ({kept}) ({first}) or max by ({kept}) ({second}) == 0) == 0)" in text
    assert '"pod", ";", "exported_pod", "pod")' in text
    assert '"namespace", ";", "exported_namespace", "namespace")' in text
    assert text.startswith("max by (node, gpu, UUID, modelName, namespace, pod) (")


def test_bits_are_asked_by_division() -> None:
    assert promql.has_bits("x", 128) == "(x >= 128 and floor((x >= 128) / 128) % 2 > 0)"
    assert promql.has_bits("x", 32, 2) == "(x >= 32 and floor((x >= 32) / 32) % 4 > 0)"
