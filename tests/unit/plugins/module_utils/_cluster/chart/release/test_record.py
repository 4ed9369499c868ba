# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import gzip
import json
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.release import record
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

SECRETS = "/api/v1/namespaces/ns/secrets"
MANIFEST = "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: gpu-operator}\n"


def packed(release: dict) -> str:
    """Return a release as Helm stores it: gzip, base64, and the API's own base64."""
    return base64.b64encode(base64.b64encode(gzip.compress(json.dumps(release).encode()))).decode()


def secret(number: int, status: str, modified: str | None = None, **release: t.Any) -> dict:
    labels = {"version": str(number), "status": status, **({"modifiedAt": modified} if modified else {})}
    content = {"manifest": MANIFEST, "chart": {"metadata": {"appVersion": "v26.7.0"}}, **release}
    metadata = {"name": f"r.v{number}", "labels": labels, "creationTimestamp": "2026-01-01T00:00:10Z"}
    return {"metadata": metadata, "data": {"release": packed(content)}}


class FakeCluster:
    """The secrets of one namespace."""

    def __init__(self, *secrets: dict) -> None:
        self.secrets = {item["metadata"]["name"]: item for item in secrets}
        self.deleted: list[str] = []

    def ask(self, method: str, path: str, query: dict, accept: str) -> dict:
        assert (method, path, query) == ("GET", SECRETS, {"labelSelector": "owner=helm,name=r"})
        assert accept.startswith("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
        return {"items": [{"metadata": item["metadata"]} for item in self.secrets.values()]}

    def get(self, path: str) -> dict | None:
        return self.secrets.get(path.removeprefix(f"{SECRETS}/"))

    def delete(self, path: str) -> None:
        self.deleted.append(path)


def test_revisions_are_sorted_by_number_the_newest_first() -> None:
    cluster = FakeCluster(secret(9, "superseded"), secret(10, "deployed", modified="1767225700"))
    assert record.revisions(cluster, "r", "ns") == [
        record.Revision("r.v10", 10, "deployed", 1767225700.0),
        record.Revision("r.v9", 9, "superseded", 1767225610.0),
    ]


def test_the_record_names_the_chart_and_the_values() -> None:
    metadata = {"name": "gpu-operator", "version": "v26.7.0-1", "appVersion": "v26.7.0"}
    found = record.decode(secret(1, "deployed", chart={"metadata": metadata}, config={"driver": {"enabled": False}}))
    assert (found.chart_name, found.chart_version, found.app_version) == ("gpu-operator", "v26.7.0-1", "v26.7.0")
    deployed = record.Revision("r.v1", 1, "deployed", 0.0)
    assert record.is_deployed([deployed], found, metadata, {"driver": {"enabled": False}})
    assert not record.is_deployed([deployed], found, metadata, {"driver": {"enabled": True}})


def test_a_release_that_is_not_installed_has_no_revision_and_no_content() -> None:
    assert record.revisions(FakeCluster(), "r", "ns") == []
    assert record.deployed(FakeCluster(), [], "ns") is None


def test_the_newest_deployed_revision_counts() -> None:
    cluster = FakeCluster(secret(1, "superseded"), secret(2, "deployed"), secret(3, "failed"))
    content = record.deployed(cluster, record.revisions(cluster, "r", "ns"), "ns")
    assert content is not None and content.app_version == "v26.7.0"
    assert content.objects == [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "gpu-operator"}}]


@pytest.mark.parametrize("status", ["pending-install", "pending-upgrade", "pending-rollback"])
def test_pending_operations_lock_a_release(status: str) -> None:
    assert record.Revision("s", 1, status, 0).is_pending
    assert not record.Revision("s", 1, "uninstalling", 0).is_pending


@pytest.mark.parametrize("data", [{}, {"release": "bm90aGluZw=="}, {"release": packed({"manifest": ""})}])
def test_a_record_that_cannot_be_read_is_named(data: dict) -> None:
    with pytest.raises(GpuOpsError, match=r"^Cannot read Helm's record r\.v1: .*helm history\.$") as e:
        record.decode({"metadata": {"name": "r.v1"}, "data": data})
    assert e.value.reason == "HelmFailed"


def test_a_lock_is_removed_with_its_record() -> None:
    cluster = FakeCluster()
    record.remove(cluster, record.Revision("r.v3", 3, "pending-upgrade", 0), "ns")
    assert cluster.deleted == [f"{SECRETS}/r.v3"]


@pytest.mark.parametrize(
    ("duration", "expected"), [("5m0s", 300), ("1h", 3600), ("1h30m", 5400), ("90s", 90), ("1.5m", 90), ("500ms", 0.5)]
)
def test_durations_are_helms(duration: str, expected: float) -> None:
    assert record.seconds(duration) == expected


@pytest.mark.parametrize("duration", ["", "300", "5 m", "m", "5m0"])
def test_other_durations_are_refused(duration: str) -> None:
    with pytest.raises(GpuOpsError, match=r"does, for example 5m0s\.$"):
        record.seconds(duration)
