# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The objects of a GPUCluster: what Dynamic Resource Allocation needs, and the operands that claim GPUs.

The names, labels, variables and expressions were recorded from NVIDIA's operator v26.7.0. The operator's rules for
service accounts are left out, since no program of the lab runs with one.
"""

from __future__ import annotations

import typing as t

from lab.cluster.operator.standin.images import image
from lab.cluster.operator.standin.operands import Json
from lab.cluster.operator.standin.render import Site, block, hashed

KIND = ("nvidia.com/v1alpha1", "GPUCluster")
GROUP = "/apis/resource.k8s.io/v1"
GPU, DOMAIN = "gpu.nvidia.com", "compute-domain.nvidia.com"
PLUGIN, CONTROLLER = "nvidia-dra-driver-kubelet-plugin", "nvidia-dra-driver-controller"
VALIDATION = "nvidia-dra-validator"
DCGM, EXPORTER = "nvidia-dcgm-dra", "nvidia-dcgm-exporter-dra"
POLICY = "resourceslices-policy-nvidia-dra-driver"
_DEPLOY = "nvidia.com/gpu.deploy."
_STATE = "nvidia.com/gpu-operator.state"
_DRIVER_STATE = "state-dra-driver"
_ALL: Json = {"allocationMode": "All"}
_ONE: Json = {"allocationMode": "ExactCount", "count": 1}
_OF_TYPE = "device.driver == '{0}' && device.attributes['{0}'].type == '{1}'"
_PLUGIN_ENV = {
    "METRICS_PATH": "/metrics",
    "LOG_VERBOSITY": "4",
    "NVIDIA_VISIBLE_DEVICES": "void",
    "CDI_ROOT": "/var/run/cdi",
    "NVIDIA_MIG_CONFIG_DEVICES": "all",
}
_HEALTH_PORTS = {"gpus": 51516, "computeDomains": 51515}


def has_domains(spec: Json) -> bool:
    """Return whether a GPUCluster wants ComputeDomains."""
    return bool(block(spec, "draDriver.computeDomains").get("enabled"))


def daemonsets(site: Site) -> list[Json]:
    """Return the wanted DaemonSets."""
    made = [_plugin(site), _claiming(site, VALIDATION, "state-dra-validation", "dra-validator", _validator(site))]
    for name, state, deploy, key, container in (
        (DCGM, "state-dcgm", "dcgm-dra", "dcgm", "nvidia-dcgm-ctr"),
        (EXPORTER, "state-dcgm-exporter", "dcgm-exporter-dra", "dcgmExporter", EXPORTER),
    ):
        if is_wanted(site.spec, key):
            pod = _monitor(site, key, container)
            made.append(_claiming(site, name, state, deploy, pod))
    return made


def is_wanted(spec: Json, operand: str) -> bool:
    """Return whether DCGM or its exporter is wanted: the exporter is if its block is there and does not say no."""
    own = spec.get(operand)
    return own is not None and bool(own.get("enabled", operand == "dcgmExporter"))


def templates(site: Site) -> list[Json]:
    """Return the ResourceClaimTemplates of the operands, whose access to the GPUs takes none away."""
    wanted = [("nvidia-dra-validator-gpu", "validation-gpu", "state-dra-validation", _ONE)]
    if is_wanted(site.spec, "dcgm"):
        wanted.append(("nvidia-dcgm-admin", "admin-gpus", "state-dcgm", _ALL))
    if is_wanted(site.spec, "dcgmExporter"):
        wanted.append(("nvidia-dcgm-exporter-admin", "admin-gpus", "state-dcgm-exporter", _ALL))
    return [_template(site, *row) for row in wanted]


def _template(site: Site, name: str, request: str, state: str, mode: Json) -> Json:
    asked = {"exactly": {"deviceClassName": GPU, "adminAccess": True, **mode}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": site.metadata(name, {_STATE: state}),
        "spec": {"spec": {"devices": {"requests": [{"name": request, **asked}]}}},
    }


def device_classes(site: Site) -> list[Json]:
    """Return the DeviceClasses, whose kinds of devices the drivers name by an attribute."""
    kinds = {GPU: "gpu", "mig.nvidia.com": "mig", f"vfio.{GPU}": "vfio"}
    chosen = {name: _OF_TYPE.format(GPU, kind) for name, kind in kinds.items()}
    if has_domains(site.spec):
        chosen["compute-domain-daemon.nvidia.com"] = _OF_TYPE.format(DOMAIN, "daemon")
        first = f" && device.attributes['{DOMAIN}'].id == 0"
        chosen["compute-domain-default-channel.nvidia.com"] = _OF_TYPE.format(DOMAIN, "channel") + first
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": site.metadata(name, {_STATE: _DRIVER_STATE}, namespaced=False),
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        }
        for name, expression in chosen.items()
    ]


def controller(site: Site) -> Json:
    """Return the Deployment of the controller of ComputeDomains."""
    container = {
        "name": "compute-domain",
        "image": _driver_image(site),
        "env": _env(site, block(site.spec, "draDriver.computeDomains.controller"), IMAGE_NAME=_driver_image(site)),
    }
    labels = {**_labels("nvidia-dra-driver", CONTROLLER), "app": CONTROLLER}
    pod = _pod(site, CONTROLLER, [container])
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": site.metadata(CONTROLLER, {**labels, _STATE: _DRIVER_STATE}),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": CONTROLLER}},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def admission(site: Site) -> list[Json]:
    """Return the policy by which a plugin writes the ResourceSlices of its own node only, and its binding."""
    version, meta = "admissionregistration.k8s.io/v1", site.metadata(POLICY, {_STATE: _DRIVER_STATE}, namespaced=False)
    rule = {
        "apiGroups": ["resource.k8s.io"],
        "apiVersions": ["v1", "v1beta1", "v1beta2"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "resources": ["resourceslices"],
    }
    user = f"system:serviceaccount:{site.namespace}:nvidia-dra-driver-kubeletplugin"
    written = '(request.operation == "DELETE" ? oldObject : object).spec.?nodeName.orValue("")'
    node = "request.userInfo.extra[?'authentication.kubernetes.io/node-name'][0].orValue('')"
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "isRestrictedUser", "expression": f'request.userInfo.username == "{user}"'}],
        "validations": [{"expression": f"{node} == {written}"}],
    }
    binding = {"policyName": POLICY, "validationActions": ["Deny"]}
    return [
        {"apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": meta, "spec": spec},
        {"apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": meta, "spec": binding},
    ]


def services(site: Site) -> list[Json]:
    """Return the Services of DCGM and its exporter."""
    rows = (
        (DCGM, "dcgm", "state-dcgm", "dcgm", 5555),
        (EXPORTER, "dcgmExporter", "state-dcgm-exporter", "metrics", 9400),
    )
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": site.metadata(app, {"app": app, _STATE: state}),
            "spec": {"selector": {"app": app}, "ports": [{"name": name, "port": port, "targetPort": port}]},
        }
        for app, key, state, name, port in rows
        if is_wanted(site.spec, key)
    ]


def accounts(site: Site) -> list[Json]:
    """Return the service accounts of the pods."""
    wanted = {"nvidia-dra-driver-kubeletplugin": _DRIVER_STATE, VALIDATION: "state-dra-validation"}
    if has_domains(site.spec):
        wanted |= {CONTROLLER: _DRIVER_STATE, "compute-domain-daemon-service-account": _DRIVER_STATE}
    wanted |= {DCGM: "state-dcgm"} if is_wanted(site.spec, "dcgm") else {}
    wanted |= {EXPORTER: "state-dcgm-exporter"} if is_wanted(site.spec, "dcgmExporter") else {}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": site.metadata(name, {_STATE: state})}
        for name, state in wanted.items()
    ]


# ---- pods -----------------------------------------------------------------------------------------------------------


def _plugin(site: Site) -> Json:
    driver, path = block(site.spec, "draDriver"), _driver_image(site)
    containers = [_plugin_container(site, "gpus", "gpus", path)]
    if has_domains(site.spec):
        containers.append(_plugin_container(site, "compute-domains", "computeDomains", path))
    validation = {
        "name": "driver-validation",
        "image": image({}, "VALIDATOR_IMAGE", site.env),
        "command": ["nvidia-validator"],
    }
    pod = _pod(site, "nvidia-dra-driver-kubeletplugin", containers)
    secrets = driver.get("imagePullSecrets") or []
    pod |= {"imagePullSecrets": [{"name": name} for name in secrets]} if secrets else {}
    pod |= {"nodeSelector": {f"{_DEPLOY}dra-driver": "true"}, "initContainers": [validation]}
    labels = {**_labels("nvidia-dra-driver", PLUGIN), "app": PLUGIN}
    # All nodes may be without a plugin at the same time while it is rolled out.
    return _daemonset(site, PLUGIN, _DRIVER_STATE, {"app": PLUGIN}, labels, labels, pod, all_at_once=True)


def _plugin_container(site: Site, name: str, part: str, path: str) -> Json:
    own = block(site.spec, f"draDriver.{part}.kubeletPlugin")
    health = own.get("healthcheck") or {}
    port = health.get("port") or _HEALTH_PORTS[part] if health.get("enabled", True) else -1
    fixed = {**_PLUGIN_ENV, "HEALTHCHECK_PORT": str(port)}
    fixed |= {"IMAGE_NAME": path} if part == "gpus" else {"GPU_CLIQUE_LABEL_ENABLED": "true"}
    found = {"name": name, "image": path, "securityContext": {"privileged": True}, "env": _env(site, own, **fixed)}
    return {**found, **({"resources": own["resources"]} if own.get("resources") else {})}


def _env(site: Site, own: Json, **fixed: str) -> list[Json]:
    """Return the variables of a container: the driver's own, its feature gates, and those that the user adds."""
    gates = block(site.spec, "draDriver").get("featureGates") or {}
    texts = [f"{name}={str(value).lower()}" for name, value in sorted(gates.items())]
    named = {**fixed, **({"FEATURE_GATES": ",".join(texts)} if texts else {})}
    return [*({"name": name, "value": value} for name, value in named.items()), *(own.get("env") or [])]


def _validator(site: Site) -> Json:
    path = image({}, "VALIDATOR_IMAGE", site.env)
    claims = {"claims": [{"name": "validation-gpu"}]}
    check = {"name": "gpu-validation", "image": path, "command": ["sh", "-c", "nvidia-smi -L"], "resources": claims}
    pod = _pod(site, VALIDATION, [{"name": VALIDATION, "image": path}])
    made = {"name": "validation-gpu", "resourceClaimTemplateName": "nvidia-dra-validator-gpu"}
    return {**pod, "initContainers": [check], "resourceClaims": [made]}


def _monitor(site: Site, key: str, container: str) -> Json:
    own, is_exporter = site.spec[key], key == "dcgmExporter"
    name = EXPORTER if is_exporter else DCGM
    fixed = {}
    if is_exporter:
        fixed = {"DCGM_EXPORTER_LISTEN": ":9400", "DCGM_EXPORTER_KUBERNETES": "true", "KUBERNETES_ENABLE_DRA": "true"}
        fixed |= {"DCGM_REMOTE_HOSTENGINE_INFO": f"{DCGM}:5555"} if is_wanted(site.spec, "dcgm") else {}
    made = {
        "name": container,
        "image": image(own, f"{'DCGM_EXPORTER' if is_exporter else 'DCGM'}_IMAGE", site.env),
        "env": [*({"name": key, "value": value} for key, value in fixed.items()), *(own.get("env") or [])],
        "securityContext": {"privileged": True},
        "resources": {**(own.get("resources") or {}), "claims": [{"name": "admin-gpus"}]},
    }
    template = "nvidia-dcgm-exporter-admin" if is_exporter else "nvidia-dcgm-admin"
    claims = [{"name": "admin-gpus", "resourceClaimTemplateName": template}]
    pod = {**_pod(site, name, [made]), "resourceClaims": claims}
    fields = block(own, "config").get("name")
    return {**pod, "volumes": [{"name": "metrics-config", "configMap": {"name": fields}}]} if fields else pod


def _pod(site: Site, account: str, containers: list[Json]) -> Json:
    common = block(site.spec, "daemonsets")
    return {
        "serviceAccountName": account,
        "priorityClassName": common.get("priorityClassName") or "system-node-critical",
        # There is no built-in toleration here: those of the spec are all.
        "tolerations": common.get("tolerations") or [],
        "containers": containers,
    }


def _claiming(site: Site, name: str, state: str, deploy: str, pod: Json) -> Json:
    pod = {**pod, "nodeSelector": {f"{_DEPLOY}{deploy}": "true"}}
    if name != VALIDATION:
        return _daemonset(site, name, state, {"app": name}, {"app": name}, {"app": name}, pod)
    named = _labels(VALIDATION, VALIDATION)
    # Driver managers and upgrades wait for pods with this label, whichever stack they belong to.
    labels = {**named, "app": "nvidia-operator-validator"}
    selected = {"app.kubernetes.io/name": VALIDATION}
    return _daemonset(site, name, state, selected, {**named, "app": name}, labels, pod, all_at_once=True)


def _labels(name: str, component: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": name, "app.kubernetes.io/component": component}


def _daemonset(
    site: Site, name: str, state: str, selected: Json, own: Json, labels: Json, pod: Json, *, all_at_once: bool = False
) -> Json:
    common = block(site.spec, "daemonsets")
    added = {key: value for key, value in (common.get("labels") or {}).items() if key != "app"}
    update = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%" if all_at_once else 1, "maxSurge": 0}}
    meta: Json = {"labels": {**labels, **added}}
    meta |= {"annotations": common["annotations"]} if common.get("annotations") else {}
    return hashed(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": site.metadata(name, {**own, **added, _STATE: state}),
            "spec": {
                "selector": {"matchLabels": selected},
                "updateStrategy": update,
                "template": {"metadata": meta, "spec": pod},
            },
        }
    )


def _driver_image(site: Site) -> str:
    return image(block(site.spec, "draDriver"), "DRA_DRIVER_IMAGE", site.env)


def collections(namespace: str) -> t.Mapping[str, str]:
    """Return the path of the collection of each kind."""
    core, policies = f"/api/v1/namespaces/{namespace}", "/apis/admissionregistration.k8s.io/v1"
    return {
        "ServiceAccount": f"{core}/serviceaccounts",
        "Service": f"{core}/services",
        "DeviceClass": f"{GROUP}/deviceclasses",
        "ResourceClaimTemplate": f"{GROUP}/namespaces/{namespace}/resourceclaimtemplates",
        "ValidatingAdmissionPolicy": f"{policies}/validatingadmissionpolicies",
        "ValidatingAdmissionPolicyBinding": f"{policies}/validatingadmissionpolicybindings",
    }
