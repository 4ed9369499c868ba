# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What Helm says when it fails, as one sentence with a remedy."""

from __future__ import annotations

import re

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError, Reason
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line

MINIMUM_HELM = "3.12"

PLAIN_HTTP_HELM = "3.13"
"""The first helm that pulls from an OCI registry without TLS."""

_NOISE = re.compile(r"\s*Use --debug flag to render out invalid YAML\s*")

_VALIDATION = re.compile(r"execution error at \([^)]*\):\s*(?P<said>.*)", re.DOTALL)

_TEMPLATE_FIELD = re.compile(r"\.Values(?P<path>(\.\w+)+)>?:?\s*(?:error calling \w+:)?\s*(?P<said>.*)", re.DOTALL)

_KNOWN: tuple[tuple[str, Reason, str], ...] = (
    (
        r"unknown flag: --plain-http",
        "HelmTooOld",
        "This helm cannot fetch {subject} without TLS. Install Helm {plain_http} or newer, or set binary_path.",
    ),
    (
        r"unknown (shorthand )?flag|unknown command",
        "HelmTooOld",
        "This helm is too old ({line}). Install Helm {minimum} or newer, or set binary_path.",
    ),
    (
        r"incompatible with Kubernetes|could not parse .* as (kube|semantic) ?version|invalid kube version",
        "KubernetesVersion",
        "The chart does not fit the Kubernetes version: {line}. Check kube_version and the chart's version.",
    ),
    (
        r"\b(401|403)\b|[Uu]nauthorized|denied|basic credential not found",
        "Unauthorized",
        "The registry refuses access to {subject}: {line}. Check registry_username and registry_password.",
    ),
    (
        r"dial tcp|no such host|cannot be reached|timeout|TLS handshake|x509|certificate",
        "Unreachable",
        "Cannot reach the source of the chart {subject}: {line}. Check its address, the proxy and registry_ca_file, "
        "or give the path of an archive.",
    ),
    (
        r"repo \S+ not found|not found|no chart (name|version) found|no cached repo|404|manifest unknown|"
        r"does not appear to be|unable to detect chart|Chart.yaml file is missing|improper constraint|"
        r"unable to locate any tags",
        "ChartNotFound",
        "There is no usable chart {subject}: {line}. Check chart_ref, chart_repo_url and chart_version.",
    ),
)
"""A pattern for Helm's error, the reason, and the sentence for the user. The first match counts."""


def explain(stderr: str, subject: str) -> GpuOpsError:
    """Return an error for helm's output: one sentence with its remedy."""
    text = _NOISE.sub("", stderr.split("Error: ", 1)[-1]).strip()
    line = one_line(text)
    refused = _refused_values(text)
    if refused:
        return GpuOpsError(
            f"The chart refuses these Helm values: {refused}. Correct them in the values.", reason="ValuesRefused"
        )
    for pattern, reason, sentence in _KNOWN:
        if re.search(pattern, line):
            return GpuOpsError(
                sentence.format(subject=subject, line=line, minimum=MINIMUM_HELM, plain_http=PLAIN_HTTP_HELM),
                reason=reason,
            )
    return GpuOpsError(f"Helm failed on {subject}: {line}.", reason="HelmFailed")


def _refused_values(text: str) -> str | None:
    """Return the chart's own sentence about the values, or None if helm's error is about something else."""
    said = _VALIDATION.search(text)
    if said:
        return one_line(said["said"])
    if text.startswith("values don't meet the specifications of the schema"):
        lines = (line.strip().removeprefix("- ") for line in text.splitlines()[1:] if line.strip())
        return "; ".join(lines).replace(":; ", ": ")
    field = _TEMPLATE_FIELD.search(text)
    if field is None:
        return None
    path, problem = field["path"].lstrip("."), " ".join(field["said"].split())
    if problem.startswith("nil pointer"):
        return f"{path} is in a block that is null"
    return f"{path} has the wrong type ({problem})"
