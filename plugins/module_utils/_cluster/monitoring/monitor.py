# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""One call of the module gpu_monitoring: which metrics exporters collect, who scrapes them, and what is made of them.

The list of fields is in a ConfigMap whose name carries the list's digest, since the exporter reads it when it starts:
another list is another name, which the operator rolls out. The former one goes when no exporter needs it any more.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import json
import typing as t

from ansible.module_utils.common.yaml import yaml_dump
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import (
    configmap_reference,
    ownership,
    permission,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy.configmap_reference import (
    COUNTERS,
    JOBS,
    SCRAPE,
    ReferenceChange,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.monitoring import (
    exporter_rollout,
    monitoring_objects,
    prometheus_choice,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.monitoring.exporter_rollout import WantedList
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.monitoring.monitoring_objects import (
    CONFIG_MAP,
    RULES_NAME,
    ObjectStep,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.monitoring.monitoring_request import (
    MonitoringRequest,
    request_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.monitoring.prometheus_choice import (
    MONITOR,
    RULES,
    ObjectKind,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics import (
    alertmanager,
    counters,
    rule_groups,
    scrape_jobs,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.alert import Alert
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.counters import Counter
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.dcgm_fields import OLDEST_LINE, OperatorLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_PROMETHEUSES = f"/apis/{prometheus_choice.PROMETHEUS_GROUP}/prometheuses"
_FIELDS_NAME = "gpuops-dcgm-fields"

Warn = t.Callable[[str], None]


def ensure(cluster: Cluster, options: t.Mapping[str, t.Any], warn: Warn) -> Json:
    """Bring the monitoring into the state that the options ask for; return the module's result."""
    request = request_of(options)
    policy, namespace = configmap_reference.policy_of(cluster, request.policy_name, request.namespace)
    setup = _Setup(cluster, request, policy, namespace, warn)
    return setup.remove() if request.is_absent else setup.set_up()


@dataclasses.dataclass(frozen=True)
class _Wanted:
    """What is derived from the request before anything is read: alerts, and the fields that they and others need."""

    alerts: list[Alert]
    counters: list[Counter]
    text: str

    @property
    def config_map(self) -> str:
        return f"{_FIELDS_NAME}-{counters.digest(self.text)}"


@dataclasses.dataclass(frozen=True)
class _Prometheus:
    """The Prometheus that the objects are for, or None if the cluster has none, or if that is not known."""

    server: Json | None
    is_known: bool = True


class _Setup:
    """One run: what it has read, and what it makes of that."""

    def __init__(self, cluster: Cluster, request: MonitoringRequest, policy: Json, namespace: str, warn: Warn) -> None:
        self._cluster, self._request, self._policy, self._namespace = cluster, request, policy, namespace
        self._warn, self._name = warn, objects.name_of(policy)
        self._kinds = [CONFIG_MAP, *filter(self._may_have, (MONITOR, RULES))]
        self._present = monitoring_objects.existing(cluster, namespace, self._name, self._kinds)
        self._serving = exporter_rollout.serving(cluster, namespace)

    def set_up(self) -> Json:
        self._refuse_without_exporters()
        wanted = self._wanted(self._line())
        found = self._prometheus(wanted)
        made = [self._fields_map(wanted), *self._for_prometheus(wanted, found.server), *self._dashboards()]
        owned = [monitoring_objects.owned(item, self._policy) for item in made]
        steps = _without_lists(monitoring_objects.steps(self._cluster, owned, self._present))
        settings: dict[configmap_reference.PolicyReference, Json] = {COUNTERS: {"name": wanted.config_map}}
        if self._request.job_directory:
            settings[JOBS] = {"enabled": True, "directory": self._request.job_directory}
        is_twice = self._is_scraped_twice(found)
        if is_twice:
            settings[SCRAPE] = {"enabled": False}
        gone = [*([SCRAPE] if is_twice is False else []), *([] if JOBS in settings else [JOBS])]
        # All of it is asked before any of it is written: a conflict leaves everything as it was.
        foretold = [self._foretold(reference, values) for reference, values in settings.items()]
        foretold += [configmap_reference.given_up(self._cluster, self._policy, reference) for reference in gone]
        if not self._cluster.check_mode:
            monitoring_objects.carry_out(self._cluster, steps)
            for reference, values in settings.items():
                configmap_reference.point(self._cluster, self._policy, reference, values)
            for reference in gone:
                configmap_reference.give_up(self._cluster, self._policy, reference)
        steps += self._replace_lists(wanted.config_map)
        return self._result(steps, foretold, wanted)

    def remove(self) -> Json:
        given_up = [configmap_reference.give_up(self._cluster, self._policy, each) for each in (COUNTERS, SCRAPE, JOBS)]
        fields, lists = given_up[0], self._lists()
        kept = str(fields.after.get("name", ""))
        if kept in lists:
            owners = " and ".join(fields.kept_by) or "somebody else"
            self._warn(f"{owners} still names the ConfigMap {kept} in the ClusterPolicy, so it stays.")
        steps = _without_lists([ObjectStep(kind, item, None) for kind, item in self._present])
        if not self._cluster.check_mode:
            monitoring_objects.carry_out(self._cluster, steps)
        if lists or fields.changed:
            steps += self._replace_lists(kept)
        return self._result(steps, given_up, None)

    # ---- what is wanted ----

    def _line(self) -> OperatorLine | None:
        deployments = self._cluster.list(namespaced("apps/v1", self._namespace, "deployments"), resourceVersion="")
        line = permission.version_of(next(filter(operands.is_operator, deployments or []), None))
        if line and line >= OLDEST_LINE:
            return line
        self._warn(
            "Which version of the GPU Operator runs is not known from its image and its chart, or it is not supported. "
            "Only fields that the exporters of all supported versions know are collected, with the alerts on them."
        )
        return None

    def _wanted(self, line: OperatorLine | None) -> _Wanted:
        request = self._request
        on = rule_groups.chosen(request.thresholds, request.alerts_off, line) if request.has_alerts else []
        needed = rule_groups.fields_of(on).union(*map(counters.mentioned, request.dashboards.values()))
        own = counters.own_counters(request.fields, line)
        found = counters.wanted(request.presets, needed, own, line)
        return _Wanted(on, found, counters.text_of(found))

    def _fields_map(self, wanted: _Wanted) -> Json:
        made = monitoring_objects.manifest(CONFIG_MAP, self._namespace, wanted.config_map, self._name, {})
        return {**made, "data": {counters.KEY: wanted.text}, "immutable": True}

    def _dashboards(self) -> list[Json]:
        given = sorted(self._request.dashboards.items())
        return [monitoring_objects.dashboard(self._namespace, self._name, name, text) for name, text in given]

    # ---- for Prometheus ----

    def _may_have(self, kind: ObjectKind) -> bool:
        """Return whether a kind is served and may be read. Of one that may not be, nothing is made or removed."""
        listed = self._cluster.list_readable(monitoring_objects.path_of(kind, self._namespace), limit="1")
        if listed.refusal:
            self._warn(f"{listed.refusal} Each {kind.name} stays as it is.")
        return listed.is_served and not listed.refusal

    @property
    def _makes_monitors(self) -> bool:
        return self._request.scrapes and MONITOR in self._kinds

    def _makes_rules(self, wanted: _Wanted) -> bool:
        return bool(wanted.alerts) and RULES in self._kinds

    def _prometheus(self, wanted: _Wanted) -> _Prometheus:
        """Return the Prometheus that the objects are for, if there are any."""
        if not self._makes_monitors and not self._makes_rules(wanted):
            return _Prometheus(None)
        listed = self._cluster.list_readable(_PROMETHEUSES)
        if not listed.refusal:
            return _Prometheus(prometheus_choice.choose(listed.items, self._request.prometheus))
        self._warn(
            f"{listed.refusal} Which objects Prometheus takes is not known: the labels are those of labels, and the "
            "operator's own ServiceMonitor stays as it is."
        )
        return _Prometheus(None, is_known=False)

    def _for_prometheus(self, wanted: _Wanted, server: Json | None) -> list[Json]:
        made: list[Json] = []
        if self._makes_monitors:
            labels = self._labels(server, MONITOR)
            made += monitoring_objects.monitors(self._namespace, self._name, labels, self._request.interval)
        if self._makes_rules(wanted):
            spec = {"groups": self._groups(wanted)}
            labels = self._labels(server, RULES)
            made.append(monitoring_objects.manifest(RULES, self._namespace, RULES_NAME, self._name, labels, spec=spec))
        kinds = {kind.name: kind for kind in (MONITOR, RULES)}
        problems = (self._why_not(server, kinds[item["kind"]], objects.labels_of(item)) for item in made)
        problem = next(filter(None, problems), "")
        if problem:
            raise GpuOpsError(problem, reason="Invalid")
        return made

    def _groups(self, wanted: _Wanted) -> list[Json]:
        return rule_groups.groups(wanted.alerts, self._request.thresholds, self._request.alert_labels)

    def _labels(self, server: Json | None, kind: ObjectKind) -> dict[str, str]:
        """Return the labels with which Prometheus takes an object, if any do."""
        return {**(prometheus_choice.labels_for(server, kind) if server else {}), **self._request.labels}

    def _why_not(self, server: Json | None, kind: ObjectKind, labels: t.Mapping[str, str]) -> str:
        """Return why Prometheus ignores an object with these labels, or an empty text."""
        return prometheus_choice.why_not(server, kind, labels, self._here) if server else ""

    @functools.cached_property
    def _here(self) -> Json:
        """The namespace of the objects, without labels if this user may not read it."""
        try:
            found = self._cluster.get(namespaced("v1", None, "namespaces", self._namespace))
        except GpuOpsError as error:
            if error.reason != "Forbidden":
                raise
            self._warn(f"{error.msg} Whether Prometheus watches the namespace {self._namespace} is not known.")
            return {"metadata": {"name": self._namespace}}
        if found is None:
            raise GpuOpsError(
                f"There is no namespace {self._namespace}. Give that of the operator in namespace.", reason="NotFound"
            )
        return found

    def _is_scraped_twice(self, found: _Prometheus) -> bool | None:
        """Return whether Prometheus takes the operator's own ServiceMonitor for the exporters, too.

        Its series have other labels, so that each GPU would count twice. None means that it is not known.
        """
        if not self._request.scrapes:
            return False
        if MONITOR not in self._kinds or not found.is_known:
            return None
        operators = SCRAPE.of(self._policy)
        labels = {"app": operands.DCGM_EXPORTER.daemonset, **(operators.get("additionalLabels") or {})}
        is_ours = bool(ownership.owned_by(self._policy, SCRAPE.manager))
        return not self._why_not(found.server, MONITOR, labels) and (bool(operators.get("enabled")) or is_ours)

    # ---- the exporters ----

    def _foretold(self, reference: configmap_reference.PolicyReference, values: Json) -> ReferenceChange:
        return configmap_reference.foretold(self._cluster, self._policy, reference, values)

    def _refuse_without_exporters(self) -> None:
        if not operands.enabled(operands.DCGM_EXPORTER, self._policy.get("spec") or {}):
            raise GpuOpsError(
                f"dcgmExporter.enabled of ClusterPolicy {self._name} is false, so there are no metrics of GPUs. Set it "
                "to true (role operator: operator_values).",
                reason="Invalid",
            )

    def _lists(self) -> list[str]:
        """Return the names of the lists that were there when the run began."""
        return [objects.name_of(item) for kind, item in self._present if _is_list(kind, item)]

    def _replace_lists(self, kept: str) -> list[ObjectStep]:
        """Wait until the exporters have the list, and remove the former ones as they are then.

        A call that does not wait leaves them to the next one, since pods may still start with them. A list that has
        come meanwhile is another call's.
        """
        if not self._request.waits:
            return []
        former = self._lists()
        if not self._cluster.check_mode and operands.enabled(operands.DCGM_EXPORTER, self._policy.get("spec") or {}):
            directory = "" if self._request.is_absent else self._request.job_directory
            wanted = WantedList(kept, frozenset(former), self._serving, directory)
            exporter_rollout.wait(self._cluster, self._namespace, wanted, self._request)
        now = monitoring_objects.existing(self._cluster, self._namespace, self._name, [CONFIG_MAP])
        old = [ObjectStep(kind, item, None) for kind, item in now if objects.name_of(item) in {*former} - {kept}]
        if not self._cluster.check_mode:
            monitoring_objects.carry_out(self._cluster, old)
        return old

    # ---- the result ----

    def _scrape_config(self) -> str:
        return _written(scrape_jobs.configuration(self._namespace, self._request.interval))

    def _result(self, steps: list[ObjectStep], changes: list[ReferenceChange], wanted: _Wanted | None) -> Json:
        changed = [step for step in steps if step.changed]
        return {
            "changed": bool(changed) or any(change.changed for change in changes),
            "config_map": f"{self._namespace}/{wanted.config_map}" if wanted else "",
            "fields": [counter.name for counter in wanted.counters] if wanted else [],
            "metrics": counters.names_in(wanted.text) if wanted else [],
            "alerts": [alert.name for alert in wanted.alerts] if wanted else [],
            "rules": _written({"groups": self._groups(wanted)}) if wanted and wanted.alerts else "",
            "scrape_config": self._scrape_config() if wanted else "",
            "alertmanager_config": (
                _written(alertmanager.configuration(wanted.alerts)) if wanted and wanted.alerts else ""
            ),
            "objects": [step.title for step in steps if step.wanted],
            "removed": [step.title for step in steps if not step.wanted],
            "diff": {
                "before": _side(steps, changes, lambda step: step.existing, lambda change: change.before),
                "after": _side(steps, changes, lambda step: step.predicted, lambda change: change.after),
            },
        }


def _written(value: Json) -> str:
    """Return rules or jobs as the text of a file."""
    text = io.StringIO()
    yaml_dump(value, text, sort_keys=False, width=1000)
    return text.getvalue()


def _is_list(kind: ObjectKind, item: Json) -> bool:
    """Return whether an object with our mark is a list of fields."""
    return kind == CONFIG_MAP and counters.KEY in (item.get("data") or {})


def _without_lists(steps: list[ObjectStep]) -> list[ObjectStep]:
    """Leave out the removal of lists, which comes after the exporters' rollout."""
    return [step for step in steps if step.wanted or not _is_list(step.kind, step.existing or {})]


_LONG = 20_000
"""Characters from which a text of a ConfigMap is shown by its digest: dashboards have a hundred thousand."""


def _shortened(content: Json) -> Json:
    data = content.get("data") or {}
    short = {
        key: text if len(text) < _LONG else f"{len(text)} characters, sha256 {counters.digest(text)}"
        for key, text in data.items()
    }
    return {**content, **({"data": short} if data else {})}


def _side(
    steps: list[ObjectStep],
    changes: list[ReferenceChange],
    item_of: t.Callable[[ObjectStep], Json | None],
    block_of: t.Callable[[ReferenceChange], Json],
) -> str:
    """Return one side of the diff: what changes, as JSON."""
    shown = {step.title: _shortened(monitoring_objects.content(item_of(step))) for step in steps if step.changed}
    blocks = [block_of(change) for change in changes if change.changed]
    return json.dumps({**shown, **({"ClusterPolicy": blocks} if blocks else {})}, indent=2, sort_keys=True) + "\n"
