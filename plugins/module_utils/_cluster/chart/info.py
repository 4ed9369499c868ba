# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Everything about a chart that the other steps of an installation need."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import chart, manifests, values
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.grants import KINDS, role_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.helm import ChartSource, Helm
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.served import Served
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import CLUSTERPOLICY_CRD
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_CHART_NAME = "gpu-operator"


def chart_info(helm: Helm, options: t.Mapping[str, t.Any], served: Served | None) -> tuple[Json, list[str]]:
    """Fetch, check and render a chart; return the module's result, and warnings about values that the chart ignores.

    ``served`` is the cluster to render the chart for, unless it is rendered for no cluster in particular.
    """
    options = served.for_chart(options) if served else dict(options)
    source = _source(options)
    path, stays = helm.fetch(source, options["dest"])
    files = chart.read_chart(path)
    suspects = values.check_values(options["values"], files)
    text = helm.render(path, options)
    unknown = [(name, hint) for name, hint in suspects if not _is_used(helm, path, options, name, text)]
    rendered = manifests.parse_manifests(text)
    if CLUSTERPOLICY_CRD not in rendered.crds and files.metadata.get("name") != _CHART_NAME:
        raise GpuOpsError(
            f"{source} is not a GPU Operator chart: it contains no ClusterPolicy CRD. Check chart_ref.",
            reason="ChartNotFound",
        )
    result = {
        "chart": {
            "name": files.metadata.get("name"),
            "version": files.metadata.get("version"),
            "app_version": files.metadata.get("appVersion"),
            "kube_version": files.metadata.get("kubeVersion"),
        },
        "chart_path": path if stays else None,
        "supports_deploy_cr": files.supports_deploy_cr,
        **_describe(rendered),
        "unknown_values": [name for name, dummy in unknown],
    }
    return result, [f"The chart does not know the Helm value {name}. {hint}" for name, hint in unknown]


def _is_used(helm: Helm, path: str, options: Json, name: str, text: str) -> bool:
    """Return whether the rendered chart depends on a value, which the text of its templates does not show.

    Charts comment out values that they use, and reach them through helpers. A switch that is off is tried on, too.
    """
    if name in values.WRONG_VALUES:
        return False
    given = options["values"]
    without = _rendered(helm, path, {**options, "values": values.without(given, name)})
    turned = values.opposite(given, name)
    return text != without or (turned is not None and _rendered(helm, path, {**options, "values": turned}) != without)


def _rendered(helm: Helm, path: str, options: Json) -> str:
    """Return the rendered chart, or why the chart refuses these values."""
    try:
        return helm.render(path, options)
    except GpuOpsError as e:
        return e.msg


def _source(options: t.Mapping[str, t.Any]) -> ChartSource:
    return ChartSource(
        ref=options["chart_ref"],
        repo_url=options["chart_repo_url"],
        version=options["chart_version"],
        username=options["registry_username"],
        password=options["registry_password"],
        ca_file=options["registry_ca_file"],
        plain_http=options["registry_plain_http"],
        digest=options["chart_digest"],
        keyring=options["chart_keyring"],
    )


def _describe(rendered: manifests.Rendered) -> Json:
    return {
        "clusterpolicy": next(iter(rendered.of_kind("ClusterPolicy")), None),
        "gpucluster": next(iter(rendered.of_kind("GPUCluster")), None),
        "nvidiadrivers": rendered.of_kind("NVIDIADriver"),
        "crds": sorted(rendered.crds),
        "roles": [role_of(item) for kind in KINDS for item in rendered.of_kind(kind)],
        "images": manifests.images(rendered),
        "operator_image": manifests.operator_image(rendered),
    }
