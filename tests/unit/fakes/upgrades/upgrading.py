# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the fake API server has to know about a Helm release, for tests of an upgrade of the operator."""

from __future__ import annotations

import base64
import gzip
import json
import typing as t

from tests.unit.fakes.api import FakeApi
from tests.unit.fakes.stack import LONG_AGO, NAMESPACE, Json

SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DRIVERS = "/apis/nvidia.com/v1alpha1/nvidiadrivers"
GPUCLUSTERS = "/apis/nvidia.com/v1alpha1/gpuclusters"
NAMESPACES = "/api/v1/namespaces"


def packed(release: Json) -> str:
    """Return a release as Helm stores it: gzip, base64, and the API's own base64."""
    return base64.b64encode(base64.b64encode(gzip.compress(json.dumps(release).encode()))).decode()


def release(number: int = 1, version: str = "v26.3.3", status: str = "deployed", values: Json | None = None) -> Json:
    """Return Helm's record of a revision."""
    labels = {"version": str(number), "status": status, "owner": "helm", "name": "gpu-operator"}
    content = {
        "manifest": "",
        "chart": {"metadata": {"appVersion": version, "version": version}},
        "config": values or {},
    }
    metadata = {"name": f"sh.helm.release.v1.gpu-operator.v{number}", "labels": labels, "creationTimestamp": LONG_AGO}
    return {"metadata": metadata, "data": {"release": packed(content)}}


def crd(name: str, *fields: str) -> Json:
    """Return a CRD whose only version has these fields."""
    schema = {"openAPIV3Schema": {"properties": {"spec": {"properties": {field: {} for field in fields}}}}}
    return {"metadata": {"name": name}, "spec": {"versions": [{"name": "v1", "schema": schema}]}, "status": {}}


def install(api: FakeApi, **settings: t.Any) -> None:
    """Add a deployed release, its CRDs and the collections that an upgrade reads."""
    api.lists |= {
        SECRETS: [release(**settings)],
        CRDS: [crd("clusterpolicies.nvidia.com", "driver"), crd("other.example.com")],
        DRIVERS: [],
        GPUCLUSTERS: [],
        NAMESPACES: [{"metadata": {"name": "kube-system", "uid": "0123456789abcdef"}}],
    }
