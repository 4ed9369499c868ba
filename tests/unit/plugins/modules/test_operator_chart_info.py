# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import functools
import hashlib
import http.server
import json
import os
import re
import subprocess
import threading
import typing as t
from pathlib import Path

import pytest
from inline_snapshot import snapshot as wording

from tests.unit.fakes.upgrades.chart import write_chart

SECRET = "s3cret-value"


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    return write_chart(tmp_path)


@pytest.fixture
def info(run_module: t.Callable, helm_binary: str) -> t.Callable:
    return functools.partial(run_module, "operator_chart_info", binary_path=helm_binary)


def test_a_folder(info: t.Callable, chart: Path) -> None:
    run = info(chart_ref=str(chart), values={"driver": {"version": "580.1.2"}})
    assert run.rc == 0 and run.result["changed"] is False and run.warnings == []
    assert run.result["chart"] == {
        "name": "gpu-operator",
        "version": "v26.7.0",
        "app_version": "v26.7.0",
        "kube_version": ">= 1.16.0-0",
    }
    assert run.result["chart_path"] == str(chart) and run.result["supports_deploy_cr"] is True
    assert run.result["clusterpolicy"]["spec"]["driver"]["version"] == "580.1.2"
    assert run.result["crds"] == ["clusterpolicies.nvidia.com", "nodefeatures.nfd.k8s-sigs.io"]
    assert run.result["images"] == ["nvcr.io/nvidia/driver:580.1.2"]
    assert run.result["gpucluster"] is None and run.result["nvidiadrivers"] == [] and run.result["unknown_values"] == []


def test_the_result_has_the_rules_of_the_charts_roles(info: t.Callable, tmp_path: Path) -> None:
    rest = "rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]\n"
    roles = "".join(
        f"---\napiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata: {{name: x{more}}}\n{rest}"
        for kind, more in (("Role", ", namespace: ns"), ("ClusterRole", ""))
    )
    run = info(chart_ref=str(write_chart(tmp_path, **{"templates/roles.yaml": roles})))
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    assert run.result["roles"] == [
        {"kind": "ClusterRole", "name": "x", "namespace": None, "rules": rules},
        {"kind": "Role", "name": "x", "namespace": "ns", "rules": rules},
    ]


def test_values_decide_what_the_chart_contains(info: t.Callable, chart: Path) -> None:
    run = info(chart_ref=str(chart), values={"nfd": {"enabled": False}, "clusterPolicy": {"deployCR": False}})
    assert run.result["crds"] == ["clusterpolicies.nvidia.com"] and run.result["clusterpolicy"] is None


def test_an_archive_and_check_mode(info: t.Callable, chart: Path, helm_binary: str, tmp_path: Path) -> None:
    subprocess.run([helm_binary, "package", str(chart), "-d", str(tmp_path)], check=True, capture_output=True)
    archive = str(tmp_path / "gpu-operator-v26.7.0.tgz")
    run = info(chart_ref=archive, _ansible_check_mode=True)
    assert run.rc == 0 and run.result["chart_path"] == archive and run.result["supports_deploy_cr"] is True


def test_the_module_warns_of_values_that_the_chart_ignores(info: t.Callable, chart: Path) -> None:
    run = info(chart_ref=str(chart), values={"driver": {"useOpenKernelModules": True}, "nfdd": {}})
    assert run.result["unknown_values"] == ["driver.useOpenKernelModules", "nfdd"]
    assert "driver.kernelModuleType" in run.warnings[0] and "Did you mean nfd?" in run.warnings[1]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"cdi": {"enabled": False, "nriPluginEnabled": True}},
            "the NRI Plugin cannot be enabled when CDI is disabled",
        ),
        (
            {"node-feature-discovery": {"worker": "x"}},
            # The words of Helm 4, and those of the oldest Helm.
            "node-feature-discovery: (at '/worker': got string, want object|"
            "worker: Invalid type. Expected: object, given: string)",
        ),
        ({"driver": {"kernelModuleType": "precompiled"}}, "driver.usePrecompiled"),
    ],
)
def test_refused_values(info: t.Callable, chart: Path, values: dict, words: str) -> None:
    run = info(chart_ref=str(chart), values=values)
    assert (
        run.rc == 1
        and run.result["reason"] == "ValuesRefused"
        and re.search(words, run.result["msg"])
        and "\n" not in run.result["msg"]
    )


def test_another_chart_is_refused(info: t.Callable, tmp_path: Path) -> None:
    other = write_chart(
        tmp_path,
        **{"Chart.yaml": "apiVersion: v2\nname: other\nversion: 1.0.0\n", "crds/nvidia.com_clusterpolicies.yaml": None},
    )
    run = info(chart_ref=str(other))
    assert run.rc == 1 and run.result["msg"].replace(str(tmp_path), "TMP") == wording(
        "TMP/gpu-operator is not a GPU Operator chart: it contains no ClusterPolicy CRD. Check chart_ref."
    )


def test_a_missing_helm_or_chart_is_named(info: t.Callable, run_module: t.Callable, tmp_path: Path) -> None:
    assert info(chart_ref=str(tmp_path / "gone")).result["reason"] == "ChartNotFound"
    assert info(chart_ref="unconfigured/gpu-operator").result["reason"] == "ChartNotFound"
    run = run_module("operator_chart_info", binary_path="/nowhere/helm", chart_ref=str(tmp_path))
    assert run.rc == 1 and run.result["reason"] == "HelmMissing"


def test_a_kubernetes_that_the_chart_refuses(info: t.Callable, chart: Path) -> None:
    run = info(chart_ref=str(chart), kube_version="1.10.0")
    assert run.rc == 1 and run.result["reason"] == "KubernetesVersion"


class Site(http.server.BaseHTTPRequestHandler):
    """A Helm repository and an OCI registry, both of which ask for a password."""

    pages: t.ClassVar[dict[str, tuple[str, bytes]]] = {}
    authorization = "Basic " + base64.b64encode(f"user:{SECRET}".encode()).decode()

    def do_GET(self) -> None:
        self._answer(True)

    def do_HEAD(self) -> None:
        self._answer(False)

    def _answer(self, with_body: bool) -> None:
        kind, body = self.pages.get(self.path, ("text/plain", b""))
        status = 200 if self.path in self.pages else 404
        if self.headers.get("Authorization") != self.authorization:
            kind, body, status = "text/plain", b"", 401
        self.send_response(status)
        if status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="test"')
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Docker-Content-Digest", digest(body))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def oci_pages(archive: bytes) -> dict[str, tuple[str, bytes]]:
    config = json.dumps({"name": "gpu-operator", "version": "v26.7.0", "apiVersion": "v2"}).encode()
    blobs = {
        "application/vnd.cncf.helm.config.v1+json": config,
        "application/vnd.cncf.helm.chart.content.v1.tar+gzip": archive,
    }
    first, second = ({"mediaType": kind, "digest": digest(data), "size": len(data)} for kind, data in blobs.items())
    kind = "application/vnd.oci.image.manifest.v1+json"
    manifest = json.dumps({"schemaVersion": 2, "mediaType": kind, "config": first, "layers": [second]}).encode()
    base = "/v2/nvidia/gpu-operator"
    pages = {f"{base}/manifests/{name}": (kind, manifest) for name in ("v26.7.0", digest(manifest))}
    pages.update({f"{base}/blobs/{digest(data)}": ("application/octet-stream", data) for data in blobs.values()})
    return {**pages, f"{base}/tags/list": ("application/json", b'{"name": "nvidia/gpu-operator", "tags": ["v26.7.0"]}')}


@pytest.fixture
def site(chart: Path, helm_binary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[str]:
    """``host:port`` of the chart's repository and registry."""
    for name in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"HELM_{name}_HOME", str(tmp_path / f"helm-{name}"))
    repository = tmp_path / "repository"
    subprocess.run([helm_binary, "package", str(chart), "-d", str(repository)], check=True, capture_output=True)
    subprocess.run([helm_binary, "repo", "index", str(repository)], check=True, capture_output=True)
    archive = (repository / "gpu-operator-v26.7.0.tgz").read_bytes()
    files = {f"/{path.name}": ("application/octet-stream", path.read_bytes()) for path in repository.iterdir()}
    monkeypatch.setattr(Site, "pages", {**files, **oci_pages(archive)})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


OLDEST = os.environ.get("GPUOPS_DEPENDENCIES") == "oldest"
LOGIN = {"registry_username": "user", "registry_password": SECRET}


@pytest.mark.parametrize("kind", ["repository", "oci"])
def test_a_private_source(info: t.Callable, site: str, tmp_path: Path, kind: str) -> None:
    source = (
        {"chart_ref": "gpu-operator", "chart_repo_url": f"http://{site}"}
        if kind == "repository"
        else {"chart_ref": f"oci://{site}/nvidia/gpu-operator", "registry_plain_http": True}
    )
    dest = tmp_path / "charts"
    run = info(**source, **LOGIN, chart_version="v26.7.0", dest=str(dest))
    if kind == "oci" and OLDEST:
        assert run.result["reason"] == "HelmTooOld" and "Install Helm 3.13 or newer" in run.result["msg"]
        return
    assert run.rc == 0, run.result["msg"]
    assert run.result["chart_path"] == str(dest / "gpu-operator-v26.7.0.tgz") and run.result["clusterpolicy"]
    assert SECRET not in json.dumps({**run.result, "invocation": None})

    refused = info(**source, chart_version="v26.7.0")
    assert (
        refused.rc == 1 and refused.result["reason"] == "Unauthorized" and "registry_password" in refused.result["msg"]
    )

    again = info(**source, chart_version="v26.7.0", dest=str(dest))
    assert again.rc == 0 and again.result["chart_path"] == run.result["chart_path"]


def test_a_version_that_does_not_exist(info: t.Callable, site: str) -> None:
    run = info(chart_ref="gpu-operator", chart_repo_url=f"http://{site}", chart_version="v9.9.9", **LOGIN)
    assert run.rc == 1 and run.result["reason"] == "ChartNotFound" and SECRET not in run.result["msg"]


def test_without_dest_a_remote_chart_has_no_path(info: t.Callable, site: str) -> None:
    run = info(chart_ref="gpu-operator", chart_repo_url=f"http://{site}", **LOGIN)
    assert run.rc == 0 and run.result["chart_path"] is None and run.result["clusterpolicy"]


def test_a_source_that_does_not_answer(info: t.Callable) -> None:
    run = info(chart_ref="gpu-operator", chart_repo_url="http://127.0.0.1:9")
    assert run.rc == 1 and run.result["reason"] == "Unreachable"
