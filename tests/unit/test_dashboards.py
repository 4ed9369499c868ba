# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The dashboards are up to date, their queries parse, and they name and count only what they may."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import typing as t
from pathlib import Path

import promql_parser
import pytest

from tests.support import dashboards
from tests.support.dashboards import Asked

ROOT = Path(__file__).parents[2]
PREFIXES = ("", "exported_")
"""With honorLabels: true, and with honorLabels: false."""
each_dashboard = pytest.mark.parametrize("name", dashboards.NAMES)
ONE_NODE = ("gpu", "node")
"""The dashboards of one node, whose GPUs may have a line or a row each."""


def words(text: str, prefix: str = "") -> set[str]:
    return {prefix + word for word in text.split()}


DEFAULT_FIELDS = words(
    """SM_CLOCK MEM_CLOCK MEMORY_TEMP GPU_TEMP POWER_USAGE TOTAL_ENERGY_CONSUMPTION PCIE_REPLAY_COUNTER GPU_UTIL
    MEM_COPY_UTIL ENC_UTIL DEC_UTIL XID_ERRORS FB_FREE FB_USED FB_RESERVED NVLINK_BANDWIDTH_TOTAL VGPU_LICENSE_STATUS
    UNCORRECTABLE_REMAPPED_ROWS CORRECTABLE_REMAPPED_ROWS ROW_REMAP_FAILURE""",
    "DCGM_FI_DEV_",
)
DEFAULT_PROFILING = words(
    "GR_ENGINE_ACTIVE PIPE_TENSOR_ACTIVE DRAM_ACTIVE PCIE_TX_BYTES PCIE_RX_BYTES", "DCGM_FI_PROF_"
)
"""What the exporter sends by default."""
ADDED = {
    *words(
        """ENFORCED_POWER_LIMIT GPU_TEMP_LIMIT ROW_REMAP_PENDING PCIE_LINK_WIDTH PCIE_MAX_LINK_WIDTH ECC_SBE_VOL_TOTAL
        ECC_DBE_VOL_TOTAL ECC_SBE_AGG_TOTAL ECC_DBE_AGG_TOTAL FABRIC_MANAGER_STATUS POWER_VIOLATION THERMAL_VIOLATION
        SYNC_BOOST_VIOLATION BOARD_LIMIT_VIOLATION LOW_UTIL_VIOLATION RELIABILITY_VIOLATION
        NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL NVLINK_CRC_DATA_ERROR_COUNT_TOTAL NVLINK_REPLAY_ERROR_COUNT_TOTAL
        NVLINK_RECOVERY_ERROR_COUNT_TOTAL NVLINK_COUNT_EFFECTIVE_ERRORS NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS""",
        "DCGM_FI_DEV_",
    ),
    "DCGM_FI_PROF_SM_ACTIVE",
    *words("XID_ERRORS_COUNT CLOCK_EVENTS_COUNT GPU_HEALTH_STATUS", "DCGM_EXP_"),
}
"""What the exporter has to be told. The fields have the same names in go-dcgm at 0b1e78b1ccea and at ec245c09fe3e, between
which the exporters of the supported operators lie: a name that an exporter does not know keeps it from starting."""
KUBERNETES = words(
    """node_labels node_spec_unschedulable node_status_allocatable node_status_capacity namespace_labels
    namespace_status_phase pod_container_resource_requests pod_status_phase""",
    "kube_",
)
OF_OPERATOR = words(
    """gpu_nodes_total reconciliation_status reconciliation_last_success_ts_seconds driver_auto_upgrade_enabled
    nodes_upgrades_in_progress nodes_upgrades_done nodes_upgrades_failed nodes_upgrades_available nodes_upgrades_pending
    node_driver_ready node_toolkit_ready node_plugin_ready node_cuda_ready""",
    "gpu_operator_",
)
OF_ONE_THING = {"cluster", "node", "gpu", "UUID", "pod", "exported_pod"}
"""Labels of which a fleet has thousands of values."""


@functools.cache
def tree(query: Asked, prefix: str = "") -> t.Any:
    return promql_parser.parse(query.filled(prefix=prefix))


def below(node: t.Any) -> list[t.Any]:
    """Return the expressions of which an expression consists."""
    parts = [getattr(node, name, None) for name in ("expr", "lhs", "rhs", "vector_selector", "param")]
    return [part for part in [*parts, *getattr(node, "args", [])] if part is not None]


def walk(node: t.Any, *above: t.Any) -> t.Iterator[tuple[t.Any, tuple[t.Any, ...]]]:
    """Return an expression and all of its parts, each with what it is a part of, from the outermost on."""
    yield node, above
    for part in below(node):
        yield from walk(part, *above, node)


@functools.cache
def selectors(query: Asked, prefix: str = "") -> list[tuple[t.Any, tuple[t.Any, ...]]]:
    """Return the selectors of a query, each with what it is a part of."""
    return [each for each in walk(tree(query, prefix)) if isinstance(each[0], promql_parser.VectorSelector)]


def kept_labels(node: t.Any) -> set[str]:
    """Return the labels by which an expression has several series, as far as an aggregation above them says."""
    if isinstance(node, promql_parser.AggregateExpr) and str(node.op) not in ("topk", "bottomk"):
        return set(node.modifier.labels) if node.modifier else set()
    if isinstance(node, promql_parser.VectorSelector):
        return set(OF_ONE_THING)
    if isinstance(node, promql_parser.BinaryExpr):
        only_left = str(node.op) in ("and", "unless")
        return kept_labels(node.lhs) | (set() if only_left else kept_labels(node.rhs))
    return {label for part in below(node) for label in kept_labels(part)}


def is_limited(node: t.Any) -> bool:
    return any(isinstance(part, promql_parser.AggregateExpr) and str(part.op) == "topk" for part, dummy in walk(node))


# ---- the files ---------------------------------------------------------------------------------------------------


def test_the_dashboards_are_up_to_date() -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "dashboards.py", "--check"], check=True)


def test_there_are_no_other_dashboards() -> None:
    assert sorted(path.stem for path in dashboards.FOLDER.iterdir()) == sorted(dashboards.NAMES)


@each_dashboard
def test_a_dashboard_keeps_its_address_and_lets_grafana_number_it(name: str) -> None:
    made = dashboards.load(name)
    assert made["uid"] == f"gpuops-{name}"
    assert {"id", "version"} & set(made) == set()
    assert made["tags"][0] == "GPUs"
    assert made["title"] and made["description"]
    assert {tuple(link["tags"]) for link in made["links"]} == {tuple(made["tags"])}


@each_dashboard
def test_a_dashboard_fits_into_a_config_map(name: str) -> None:
    assert (dashboards.FOLDER / f"{name}.json").stat().st_size < 500_000


# ---- panels ------------------------------------------------------------------------------------------------------


@each_dashboard
def test_every_panel_says_what_it_shows_in_which_unit(name: str) -> None:
    for panel in dashboards.panels(name):
        assert panel["title"] and panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert {
            source["uid"] for source in [panel["datasource"], *(each["datasource"] for each in panel["targets"])]
        } == {"${datasource}"}


@each_dashboard
def test_panels_have_their_own_names_and_numbers(name: str) -> None:
    every = dashboards.load(name)["panels"]
    titles = [panel["title"] for panel in dashboards.panels(name)]
    assert len(set(titles)) == len(titles)
    assert [panel["id"] for panel in every] == list(range(1, len(every) + 1))


@each_dashboard
def test_panels_stand_side_by_side(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboards.load(name)["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken and place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells


@each_dashboard
def test_every_column_of_a_table_has_a_title_and_a_unit(name: str) -> None:
    for panel in dashboards.panels(name):
        if panel["type"] == "table":
            [organize] = [step["options"] for step in panel["transformations"] if step["id"] == "organize"]
            titles = [each["legendFormat"] for each in panel["targets"]]
            values = ["Value"] if len(titles) == 1 else [f"Value #{each['refId']}" for each in panel["targets"]]
            assert [organize["renameByName"][value] for value in values] == titles, panel["title"]
            looks = panel["fieldConfig"]["overrides"]
            units = {each["matcher"]["options"] for each in looks if each["properties"][0]["id"] == "unit"}
            assert units == set(titles), panel["title"]
            labels = {label for each in panel["targets"] for label in kept(each["expr"])}
            assert labels <= set(organize["renameByName"]), panel["title"]


def kept(expr: str) -> set[str]:
    """Return the labels that an expression's outermost aggregations keep, in both shapes."""
    asked = Asked(("", "", ""), expr, True, "")
    return {label for prefix in PREFIXES for label in kept_labels(tree(asked, prefix))}


@each_dashboard
def test_links_lead_to_dashboards_that_exist(name: str) -> None:
    text = json.dumps(dashboards.load(name))
    linked = {part.split("?")[0] for part in text.split('"/d/')[1:]}
    assert linked <= {f"gpuops-{each}" for each in dashboards.NAMES}


# ---- variables ---------------------------------------------------------------------------------------------------


@each_dashboard
def test_every_variable_is_defined_and_used(name: str) -> None:
    made = dashboards.load(name)
    defined = [each["name"] for each in made["templating"]["list"]]
    text = json.dumps([made["templating"], made["panels"]])
    used = {match[1] or match[2] for match in dashboards.VARIABLE.finditer(text)}
    assert used - set(dashboards.OF_GRAFANA) - {"__value", "__url_time_range", "__all"} == set(defined)
    assert defined[:2] == ["datasource", "cluster"]


@each_dashboard
def test_variables_with_several_values_begin_with_all(name: str) -> None:
    for each in dashboards.load(name)["templating"]["list"]:
        if each.get("multi"):
            assert (each["current"]["value"], each["allValue"]) == ("$__all", ".*"), each["name"]


def test_variables_begin_as_the_tests_fill_them() -> None:
    begun = {
        each["name"]: each["current"]["value"]
        for name in dashboards.NAMES
        for each in dashboards.load(name)["templating"]["list"]
        if each["type"] in ("custom", "textbox")
    }
    assert begun == {name: dashboards.DEFAULTS[name] for name in begun}


# ---- queries -----------------------------------------------------------------------------------------------------


@each_dashboard
@pytest.mark.parametrize("prefix", PREFIXES)
def test_queries_parse(name: str, prefix: str) -> None:
    for query in dashboards.queries(name):
        assert tree(query, prefix), query.key


def test_queries_name_metrics_that_are_there() -> None:
    found = {selector.name for query in dashboards.queries() for selector, dummy in selectors(query)}
    assert found - DEFAULT_FIELDS - DEFAULT_PROFILING - KUBERNETES == ADDED | OF_OPERATOR


@each_dashboard
def test_panels_say_what_they_need_beside_the_exporter(name: str) -> None:
    for query in dashboards.queries(name):
        named = {selector.name for selector, dummy in selectors(query)}
        assert not named & KUBERNETES or "kube-state-metrics" in query.description, query.key
        assert not named & OF_OPERATOR or "the operator" in query.description, query.key


@each_dashboard
def test_a_gpu_counts_once_however_many_pods_share_it(name: str) -> None:
    """The innermost aggregation of the exporter's series makes one of them, or they only say that something is there."""
    for query in dashboards.queries(name):
        for selector, above in selectors(query):
            if selector.name.startswith("DCGM_"):
                inner = [part for part in above if isinstance(part, promql_parser.AggregateExpr)]
                assert tells_presence(selector, above) or str(inner[-1].op) in ("group", "max"), (
                    query.key,
                    str(selector),
                )


def tells_presence(selector: t.Any, above: tuple[t.Any, ...]) -> bool:
    """Return whether a selector stands alone behind ``and`` or ``unless``, which leave its value out."""
    outer = above[-1] if above else None
    is_test = isinstance(outer, promql_parser.BinaryExpr) and str(outer.op) in ("and", "unless")
    return is_test and str(outer.rhs) == str(selector)


@each_dashboard
def test_queries_take_the_workload_from_the_labels_with_the_prefix(name: str) -> None:
    own = {"pod", "namespace", "container"}
    for query in dashboards.queries(name):
        for selector, above in selectors(query, "exported_"):
            if selector.name.startswith("DCGM_"):
                assert not own & {matcher.name for matcher in selector.matchers.matchers}, query.key
                inner = [part for part in above if isinstance(part, promql_parser.AggregateExpr) and part.modifier]
                assert not inner or not own & set(inner[-1].modifier.labels), query.key


@each_dashboard
def test_queries_know_nodes_by_their_label(name: str) -> None:
    for query in dashboards.queries(name):
        assert "ostname" not in query.expr and "instance=" not in query.expr, query.key


@pytest.mark.parametrize("name", sorted(set(dashboards.NAMES) - set(ONE_NODE)))
def test_queries_about_a_fleet_have_few_series(name: str) -> None:
    for query in dashboards.queries(name):
        assert is_limited(tree(query)) or not kept_labels(tree(query)) & (OF_ONE_THING - {"cluster"}), query.key


@each_dashboard
def test_lines_follow_the_zoom(name: str) -> None:
    for query in dashboards.queries(name):
        if not query.instant:
            assert ("rate(" in query.expr) == ("$__rate_interval" in query.expr), query.key
            assert "$__range" not in query.expr, query.key
