# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a user chooses at the top of a dashboard."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog import builder
from grafana_foundation_sdk.models import dashboard as model

from . import panels, promql

Variable = builder.Builder[model.VariableModel]

_OPTIONS = (("1 %", "0.01"), ("5 %", "0.05"), ("10 %", "0.1"), ("20 %", "0.2"))


def _query(name: str, label: str, description: str, series: str, wanted: str) -> build.QueryVariable:
    """Return a variable with the values that a label has in the dashboard's time range."""
    found = build.QueryVariable(name).label(label).description(description).datasource(panels.SOURCE)
    query: dict[str, object] = {"query": f"label_values({series}, {wanted})", "refId": f"variable-{name}"}
    return found.query(query).refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(model.VariableSort.NATURAL_ASC)


def _several(variable: build.QueryVariable) -> build.QueryVariable:
    """Return the variable with several choices, and all of them at first, with series that lack the label."""
    every = model.VariableOption(selected=True, text="All", value="$__all")
    return variable.multi(True).include_all(True).all_value(".*").current(every)


def _text(name: str, label: str, description: str, value: str) -> Variable:
    chosen = model.VariableOption(selected=True, text=value, value=value)
    return build.TextBoxVariable(name).label(label).description(description).default_value(value).current(chosen)


def datasource() -> Variable:
    return build.DatasourceVariable("datasource").label("Data source").type("prometheus")


def cluster() -> Variable:
    description = "The clusters that send to this Prometheus. All, where the series have no label cluster."
    return _several(_query("cluster", "Cluster", description, promql.PRESENT, "cluster"))


def model_name() -> Variable:
    series = f'{promql.PRESENT}{{cluster=~"$cluster"}}'
    return _several(_query("model", "Model", "The models of GPUs.", series, "modelName"))


def nodes() -> Variable:
    series = f'{promql.PRESENT}{{cluster=~"$cluster", modelName=~"$model"}}'
    return _several(_query("node", "Node", "The nodes with GPUs of these models.", series, "node"))


def node() -> Variable:
    return _query("node", "Node", "The node to look at.", f'{promql.PRESENT}{{cluster=~"$cluster"}}', "node")


def gpu() -> Variable:
    return _query("gpu", "GPU", "The number of the GPU on its node.", promql.ONE_NODE.series(promql.PRESENT), "gpu")


def namespace() -> Variable:
    series = f'{promql.PRESENT}{{cluster=~"$cluster", {promql.POD}!=""}}'
    description = "The namespaces whose pods hold GPUs."
    return _several(_query("namespace", "Namespace", description, series, promql.NAMESPACE))


def prefix() -> Variable:
    description = (
        "What stands before the labels pod, namespace and container of the workload. Empty with honorLabels: true, and "
        "exported_ where Prometheus scrapes the exporter with honorLabels: false."
    )
    return _text("prefix", "Prefix of pod labels", description, "")


def idle() -> Variable:
    description = "A GPU that is held and less active than this counts as idle."
    chosen = model.VariableOption(selected=True, text=_OPTIONS[1][0], value=_OPTIONS[1][1])
    listed = [model.VariableOption(selected=value == chosen.value, text=text, value=value) for text, value in _OPTIONS]
    values = ",".join(f"{text} : {value}" for text, value in _OPTIONS)
    variable = build.CustomVariable("idle").label("Idle below").description(description).values(values)
    return variable.options(listed).current(chosen)


def price() -> Variable:
    return _text("price", "Price of a GPU hour", "What a GPU costs per hour, in your currency.", "2.50")


def pool_label() -> Variable:
    description = "The label of nodes that names their pool, as kube-state-metrics writes it."
    return _text("pool_label", "Label of pools", description, "label_node_kubernetes_io_instance_type")


def team_label() -> Variable:
    description = "The label of namespaces that names their team, as kube-state-metrics writes it."
    return _text("team_label", "Label of teams", description, "label_team")
