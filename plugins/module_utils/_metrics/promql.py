# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Expressions of Prometheus that hold for every way in which exporters are scraped.

The name of the node is in the label ``node`` where the scrape configuration is this collection's, in ``Hostname`` from
exporters up to 4.5.3-4.8.2, and in ``hostname`` from later ones (``internal/pkg/rendermetrics/render_metrics.go`` of
https://github.com/NVIDIA/dcgm-exporter). The pod that holds a GPU is in ``pod`` or, where the labels of the scraped
pod win (``honorLabels: false``), in ``exported_pod``; then ``pod`` is the exporter's. A GPU whose pods share it has a
series for each, and an instance of MIG has one of its own.
"""

from __future__ import annotations

NODE = ("node", "hostname", "Hostname")
JOB = "hpc_job"
"""A job of a workload manager. A GPU with several jobs has each series once for each of them (``transformation/hpc.go``
of the exporter)."""
_OF_GPU = ("gpu", "UUID", "modelName")
_OF_POD = ("namespace", "pod", "exported_namespace", "exported_pod")

EXPORTERS_PODS = ".*dcgm-exporter.*"
"""Names of the exporter's own pods, which other scrape configurations show on a GPU that no pod holds."""


def _first_of(labels: tuple[str, ...], target: str, expression: str) -> str:
    """Return the expression with a label that has the first value that is not empty of these labels."""
    listed = ", ".join(f'"{label}"' for label in labels)
    joined = f'label_join({expression}, "{target}", ";", {listed})'
    return f'label_replace({joined}, "{target}", "$1", "{target}", ";*([^;]*).*")'


def by_node(expression: str) -> str:
    """Return the largest value of each node, with the label ``node``.

    Labels are renamed on one series a node: Prometheus takes much longer to rename labels than to find a maximum.
    """
    largest = f"max by ({', '.join(NODE)}) ({expression})"
    return f"max by (node) ({_first_of(NODE, 'node', largest)})"


def by_gpu(expression: str, *more: str) -> str:
    """Return the largest value of each GPU, with the labels ``node``, ``gpu``, ``UUID`` and ``modelName``."""
    kept = ", ".join(("node", *_OF_GPU, *more))
    return f"max by ({kept}) ({_first_of(NODE, 'node', expression)})"


def of_pods(metric: str, window: str) -> str:
    """Return the largest value in a window of each series that names a pod which holds the GPU."""
    foreign = f'{metric}{{exported_pod!=""}}'
    own = f'{metric}{{exported_pod="", pod!="", pod!~"{EXPORTERS_PODS}"}}'
    return f"max_over_time({foreign}[{window}]) or max_over_time({own}[{window}])"


def held_idle(window: str, metric: str, other: str) -> str:
    """Return the GPUs, each with the pod that holds it, for which a metric was 0 in a window.

    Where there is no such metric, the other one counts. Labels are renamed on idle GPUs alone.
    """
    kept = ", ".join((*NODE, *_OF_GPU, *_OF_POD))
    largest, others = (f"max by ({kept}) ({of_pods(each, window)})" for each in (metric, other))
    named = f"(({largest} or {others} == 0) == 0)"
    for label in ("namespace", "pod"):
        named = _first_of((f"exported_{label}", label), label, named)
    return by_gpu(named, "namespace", "pod")


def has_bits(metric: str, lowest: int, count: int = 1) -> str:
    """Return the series of a metric whose value has one of some neighbouring bits: Prometheus has no operator for bits.

    Smaller values cannot have them, and are left out first.
    """
    large = f"{metric} >= {lowest}"
    return f"({large} and floor(({large}) / {lowest}) % {2**count} > 0)"
