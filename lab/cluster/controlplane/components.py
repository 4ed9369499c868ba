# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command line of every component, and its health check."""

from __future__ import annotations

import http.client
import json
import os
import shlex
import ssl
import sys
import typing as t
from dataclasses import dataclass
from pathlib import Path

from lab.cluster.controlplane import pki
from lab.process import Component

REPOSITORY = Path(__file__).parents[3]
OPERATOR_NAMESPACE = "gpu-operator"

# With the controllers' default limit of 20 requests per second, 1,000 nodes would take 15 minutes.
_CLIENT_LIMITS = ["--kube-api-qps=1000", "--kube-api-burst=2000"]


@dataclass(frozen=True)
class Site:
    """The paths, ports and certificates that the command lines refer to."""

    folder: Path
    tools: t.Mapping[str, Path]
    ports: t.Mapping[str, int]
    authority: pki.Authority
    nodes: int
    feature_gates: str = ""
    runtime_config: str = ""

    @property
    def gates(self) -> tuple[str, ...]:
        """The option of Kubernetes' components with the feature gates, if any were chosen."""
        return (f"--feature-gates={self.feature_gates}",) if self.feature_gates else ()

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.ports['kube-apiserver']}"

    def component(
        self, name: str, argv: t.Sequence[object], env: dict[str, str] | None = None, grace: float = 0.0
    ) -> Component:
        return Component(
            name, [str(part) for part in argv], self.folder / "logs" / f"{name}.log", self.folder, env or {}, grace
        )

    def kubeconfig(self, user: str, *groups: str) -> Path:
        path = self.folder / "pki" / f"{user.replace(':', '-')}.kubeconfig"
        return pki.kubeconfig(
            path, server=self.server, ca=self.authority.ca.cert, user=user, client=self.authority.client(user, groups)
        )

    @property
    def lease_seconds(self) -> int:
        """The duration of a node lease, longer for large fleets: kwok renews each lease four times in it."""
        return max(40, self.nodes // 4)


def etcd(site: Site) -> Component:
    """Return a single etcd member with TLS. It skips fsync, because its data is removed with the lab."""
    server, ca = site.authority.server("etcd"), site.authority.ca
    url, peer_url = (f"https://127.0.0.1:{site.ports[port]}" for port in ("etcd", "etcd-peer"))
    return site.component("etcd", [
        site.tools["etcd"], "--name=lab",
        f"--data-dir={site.folder / 'etcd'}",
        f"--listen-client-urls={url}", f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peer_url}", f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=lab={peer_url}",
        f"--cert-file={server.cert}", f"--key-file={server.key}",
        f"--trusted-ca-file={ca.cert}", "--client-cert-auth",
        f"--peer-cert-file={server.cert}", f"--peer-key-file={server.key}",
        f"--peer-trusted-ca-file={ca.cert}", "--peer-client-cert-auth",
        "--unsafe-no-fsync", "--quota-backend-bytes=4294967296", "--log-level=warn",
    ])  # fmt: skip


def audit_log(folder: Path) -> Path:
    """Return the path of the audit log of a lab in this folder."""
    return folder / "logs" / "audit.jsonl"


def _audit(site: Site) -> list[object]:
    """Return the options that log every finished request of people and jobs, without its content."""
    policy = site.folder / "audit-policy.json"
    groups = ["system:masters", "system:nodes", "system:serviceaccounts:kube-system"]
    users = ["system:kube-scheduler", "system:kube-controller-manager", "system:apiserver"]
    machinery = [{"level": "None", "userGroups": groups}, {"level": "None", "users": users}]
    rules = [*machinery, {"level": "Metadata", "omitStages": ["RequestReceived", "ResponseStarted"]}]
    policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}))
    log = audit_log(site.folder)
    # A request is in the log before its client has the answer.
    return [f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--audit-log-mode=blocking"]


def kube_apiserver(site: Site, *, audit: bool = False) -> Component:
    """Return an API server with RBAC and the default admission plugins, as kubeadm sets it up."""
    authority = site.authority
    server, client = authority.server("kube-apiserver"), authority.client("kube-apiserver-etcd-client")
    return site.component("kube-apiserver", [
        site.tools["kube-apiserver"],
        "--bind-address=127.0.0.1", f"--secure-port={site.ports['kube-apiserver']}",
        # The endpoints of the service `kubernetes` may not be loopback addresses, and the lab does not use that
        # service.
        "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.96.0.0/16",
        f"--tls-cert-file={server.cert}", f"--tls-private-key-file={server.key}",
        f"--client-ca-file={authority.ca.cert}",
        f"--etcd-servers=https://127.0.0.1:{site.ports['etcd']}",
        f"--etcd-cafile={authority.ca.cert}",
        f"--etcd-certfile={client.cert}", f"--etcd-keyfile={client.key}",
        f"--kubelet-certificate-authority={authority.ca.cert}", "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-issuer={pki.ISSUER}",
        f"--service-account-key-file={authority.service_accounts.cert}",
        f"--service-account-signing-key-file={authority.service_accounts.key}",
        "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged",  # Driver pods are privileged.
        "--profiling=false", *(_audit(site) if audit else ()), *site.gates,
        *((f"--runtime-config={site.runtime_config}",) if site.runtime_config else ()),
    ])  # fmt: skip


def kube_controller_manager(site: Site) -> Component:
    """Return a controller-manager with the default controllers, each with its own service account."""
    authority = site.authority
    return site.component("kube-controller-manager", [
        site.tools["kube-controller-manager"],
        f"--kubeconfig={site.kubeconfig('system:kube-controller-manager')}", "--secure-port=0", "--leader-elect=false",
        "--use-service-account-credentials", f"--service-account-private-key-file={authority.service_accounts.key}",
        f"--root-ca-file={authority.ca.cert}",
        f"--cluster-signing-cert-file={authority.ca.cert}", f"--cluster-signing-key-file={authority.ca.key}",
        "--node-monitor-period=1s", f"--node-monitor-grace-period={site.lease_seconds}s",
        "--profiling=false", *_CLIENT_LIMITS, *site.gates,
    ])  # fmt: skip


def kube_scheduler(site: Site) -> Component:
    """Return the default scheduler."""
    return site.component("kube-scheduler", [
        site.tools["kube-scheduler"],
        f"--kubeconfig={site.kubeconfig('system:kube-scheduler')}", "--secure-port=0", "--leader-elect=false",
        "--profiling=false", *_CLIENT_LIMITS, *site.gates,
    ])  # fmt: skip


def kwok(site: Site, configs: t.Iterable[Path]) -> Component:
    """Return kwok, which acts as the kubelet of every node, also for logs, exec and port-forward."""
    server = site.authority.server("kwok")
    return site.component("kwok", [
        site.tools["kwok"],
        f"--kubeconfig={site.kubeconfig('kwok', 'system:masters')}",
        "--manage-all-nodes", f"--node-lease-duration-seconds={site.lease_seconds}",
        # The API server connects to this address for logs, exec and port-forward.
        "--node-ip=127.0.0.1", f"--node-port={site.ports['kwok']}", f"--server-address=127.0.0.1:{site.ports['kwok']}",
        f"--tls-cert-file={server.cert}", f"--tls-private-key-file={server.key}",
        "--enable-crds=PortForward", "--enable-crds=Logs",
        *(f"--config={path}" for path in configs),
    ])  # fmt: skip


def python_component(site: Site, name: str, module: str, *args: object) -> Component:
    """Return one of the lab's own programs."""
    argv = [sys.executable, "-m", module, "--kubeconfig", site.kubeconfig(f"lab-{name}", "system:masters"), *args]
    return site.component(name, argv, {"PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1"}, grace=2)


def external_operator(site: Site, command: str) -> Component:
    """Return an external operator, run as in development: outside the cluster, with a kubeconfig."""
    env = {
        "KUBECONFIG": str(site.kubeconfig("lab-operator", "system:masters")),
        "OPERATOR_NAMESPACE": OPERATOR_NAMESPACE,
    }
    return site.component("operator", shlex.split(command), env, grace=10)


_HEALTH = {"etcd": "/health", "kube-apiserver": "/readyz", "kwok": "/healthz"}


def serves(component: str, ports: t.Mapping[str, int], authority: pki.Authority) -> bool:
    """Return whether a component passes its health check. A component without a port counts as healthy."""
    return component not in _HEALTH or get(ports[component], _HEALTH[component], authority) is not None


def connect(port: int, authority: pki.Authority) -> http.client.HTTPSConnection:
    """Return a connection to a server of the lab, as administrator."""
    context = ssl.create_default_context(cafile=os.fspath(authority.ca.cert))
    admin = authority.folder / "admin.crt"  # Signed by the CA that both the API server and etcd trust.
    context.load_cert_chain(admin, admin.with_suffix(".key"))
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=context)


def get(port: int, path: str, authority: pki.Authority) -> bytes | None:
    """Return the body of a response with status 200; None for any other response, or without one."""
    connection = connect(port, authority)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.read() if answer.status == http.HTTPStatus.OK else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
