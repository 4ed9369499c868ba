# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What keeps pods of the stack from being created and started: refusals, images, and what containers refer to."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches, order
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import NOT_READY
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import Pattern, pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View

_REFUSED = NOT_READY | {"PreflightPodSecurity", "OperatorNotAvailable", "OperatorNotUpdated", "DiscoveryNotReady"}

# Images


_REGISTRY = "https://github.com/NVIDIA/gpu-operator/issues/"


# Certificates and clocks


# Pods that the API server refuses

_SECURITY = pattern(
    r"forbidden: violates PodSecurity \"(?P<level>baseline|restricted)(?::[\w.]+)?\"", "violates podsecurity"
)
_QUOTA = pattern(r"forbidden: exceeded quota: (?P<quota>[\w.-]+), requested: (?P<what>[^,]+)", "exceeded quota")
_SCOPES = pattern(
    r"insufficient quota to match these scopes:(?: \[\{PriorityClass |$)", "insufficient quota to match these scopes"
)
_NO_CLASS = pattern(r"no PriorityClass with name (?P<name>[\w.-]+) was found", "no priorityclass with name")
_CALL = pattern(
    r"failed calling webhook \"(?P<webhook>[\w./-]+)\"(?!.*x509: certificate signed by)", "failed calling webhook"
)
_DENY = pattern(
    r"^(?!.*resourceslices\.resource\.k8s\.io).*(?:admission webhook \"(?P<policy>[\w./-]+)\" denied the request"
    r"|ValidatingAdmissionPolicy '(?P<name>[\w./-]+)'.{0,200}denied request)",
    "denied",
)
_CONSTRAINTS = pattern(
    r"unable to validate against any security context constraint", "against any security context constraint"
)
_ACCOUNT = pattern(
    r"error looking up service account (?P<account>[\w./-]+): serviceaccounts? \"", "error looking up service account"
)
_POD_POLICY = pattern(r"PodSecurityPolicy: unable to admit pod", "podsecuritypolicy: unable")
_REFUSED_POD = re.compile(r"pods? \\?\"(?P<name>[\w.-]+?)-?\\?\" is forbidden|Pod/[\w.-]+/(?P<other>[\w.-]+?)-? ")


def _refused(*patterns: Pattern) -> matches.Check:
    """Return a check for refusals to create pods. They have no node, and each is about the pods of one controller."""

    def check(view: View) -> t.Iterator[Sighting]:
        for hit in (hit for each in patterns for hit in view.hits(each)):
            named = _REFUSED_POD.search(hit.line.text)
            pod = f"pod {named['name'] or named['other']}-" if named else hit.line.object or hit.line.source
            found = matches.sighting(hit)
            yield Sighting("", found.object, found.quotes, "certain", found.values, order.operand_of(pod))

    return check


def _policies(view: View) -> t.Iterator[Sighting]:
    for found in _refused(_DENY)(view):
        policy = found.values.get("policy") or found.values.get("name", "")
        yield Sighting("", found.object, found.quotes, "certain", {"policy": policy}, found.operand)


_REFUSALS = (
    Rule(
        code="PodSecurityRefuses",
        title="Pod Security refuses the operands",
        severity="failure",
        cause="The operator's namespace enforces the pod security level {level}, which refuses privileged pods. The "
        "operands are privileged.",
        remedy=f"Run `kubectl label namespace <operator's namespace> {names.POD_SECURITY}=privileged --overwrite`, or "
        "set psa.enabled: true in operator_values and run playbooks/site.yml.",
        sources=("https://github.com/kubernetes/pod-security-admission/blob/master/admission/admission.go",),
        check=_refused(_SECURITY),
        patterns=(_SECURITY,),
        explains=_REFUSED,
    ),
    Rule(
        code="PodSecurityPolicyRefuses",
        title="A PodSecurityPolicy refuses the operands",
        severity="failure",
        cause="The operands are privileged, and their service accounts may use no PodSecurityPolicy that allows that.",
        remedy="Upgrade to a Kubernetes without PodSecurityPolicy, or bind a policy that admits privileged pods to the "
        "service accounts of the operator's namespace.",
        sources=(f"{_REGISTRY}185",),
        check=_refused(_POD_POLICY),
        patterns=(_POD_POLICY,),
        explains=_REFUSED,
    ),
    Rule(
        code="QuotaRefuses",
        title="A quota refuses pods",
        severity="failure",
        cause="ResourceQuota {quota} is used up: a pod that asks for {what} is refused.",
        remedy="See what uses it with `kubectl describe resourcequota {quota} -n <namespace>`, and raise it or end "
        "pods. In the operator's namespace it must leave room for the operands of each GPU node.",
        sources=("https://kubernetes.io/docs/concepts/policy/resource-quotas/",),
        check=_refused(_QUOTA),
        patterns=(_QUOTA,),
        explains=_REFUSED,
    ),
    Rule(
        code="PriorityClassRefused",
        title="The namespace may not have pods of a critical priority",
        severity="failure",
        cause="The operands have the priority class system-node-critical, and no ResourceQuota of the namespace "
        "allows such pods. GKE, for example, demands such a quota.",
        remedy="Set operator_critical_pods, the number of pods that the role operator allows by a ResourceQuota, and "
        "run playbooks/site.yml.",
        sources=(f"{_REGISTRY}660", "https://github.com/NVIDIA/aicr/issues/915"),
        check=_refused(_SCOPES),
        patterns=(_SCOPES,),
        explains=_REFUSED,
    ),
    Rule(
        code="PriorityClassMissing",
        title="A priority class does not exist",
        severity="failure",
        cause="The pods name the PriorityClass {name}, which does not exist.",
        remedy="Create the PriorityClass, or correct daemonsets.priorityClassName in operator_values.",
        sources=("https://github.com/kubernetes/kubernetes/blob/master/plugin/pkg/admission/priority/admission.go",),
        check=_refused(_NO_CLASS),
        patterns=(_NO_CLASS,),
        explains=_REFUSED,
    ),
    Rule(
        code="WebhookDown",
        title="An admission webhook does not answer",
        severity="failure",
        cause="The API server must ask the webhook {webhook} before it creates these pods, and gets no answer.",
        remedy="Find the webhook's service with `kubectl get validatingwebhookconfigurations,"
        "mutatingwebhookconfigurations -o yaml`, and repair its pods. If its software is no longer installed, delete "
        "its configuration.",
        sources=("https://github.com/openshift/instaslice-operator/issues/137",),
        check=_refused(_CALL),
        patterns=(_CALL,),
        explains=_REFUSED,
    ),
    Rule(
        code="PolicyRefuses",
        title="An admission policy refuses pods",
        severity="failure",
        cause="The admission policy {policy} does not allow these pods. Operands are privileged and use paths of the "
        "host, which many policies forbid.",
        remedy="Exempt the operator's namespace from the policy. The evidence names the rule that refused.",
        sources=("https://github.com/uoe-eidf-cluster-users/eidf-epcc-cluster/issues/26",),
        check=_policies,
        patterns=(_DENY,),
        explains=_REFUSED,
    ),
    Rule(
        code="ContextConstraintsRefuse",
        title="OpenShift's security context constraints refuse pods",
        severity="failure",
        cause="The service account of these pods may use no SecurityContextConstraints that allow them.",
        remedy="Run `oc adm policy add-scc-to-user privileged -z <service account> -n <namespace>` for the pods of "
        "the GPU stack, or install the operator from OperatorHub. Node Feature Discovery also comes from there: set "
        "nfd.enabled: false in operator_values and run playbooks/site.yml.",
        sources=(f"{_REGISTRY}48",),
        check=_refused(_CONSTRAINTS),
        patterns=(_CONSTRAINTS,),
        explains=_REFUSED,
    ),
    Rule(
        code="ServiceAccountMissing",
        title="A service account does not exist",
        severity="failure",
        cause="Pods cannot be created, because the service account {account} does not exist.",
        remedy="Let the operator create it again: run `kubectl rollout restart deployment gpu-operator` in its "
        "namespace. If it belongs to the chart, run playbooks/site.yml.",
        sources=(
            "https://github.com/kubernetes/kubernetes/blob/master/plugin/pkg/admission/serviceaccount/admission.go",
        ),
        check=_refused(_ACCOUNT),
        patterns=(_ACCOUNT,),
        explains=_REFUSED,
    ),
)

# What containers refer to

_NO_MAP = pattern(
    r"(?:CreateContainerConfigError|MountVolume\.SetUp failed|Error|couldn't find|references non-existent).{0,200}"
    r"\b(?P<kind>configmap|secret) \\?\"(?P<name>[\w.-]+)\\?\" not found",
    "not found",
    "event",
    "unit",
)
_SANDBOX = pattern(
    r"RuntimeClass\.node\.k8s\.io \"(?P<name>[\w.-]+)\" not found"
    r"|pod rejected: RuntimeClass \"(?P<other>[\w.-]+)\" not found",
    "runtimeclass",
)


def _runtime_class(view: View) -> t.Iterator[Sighting]:
    for found in _refused(_SANDBOX)(view):
        name = found.values.get("name") or found.values.get("other", "")
        yield Sighting("", found.object, found.quotes, "certain", {"name": name}, found.operand)


_REFERENCES = (
    Rule(
        code="ConfigMissing",
        title="A pod refers to a ConfigMap or Secret that does not exist",
        severity="failure",
        cause="The {kind} {name} does not exist in the namespace of the pods that need it.",
        remedy="Create it, or correct the field of the ClusterPolicy that names it (devicePlugin.config.name, "
        "migManager.config.name, dcgmExporter.config.name, driver.repoConfig and others). playbooks/sharing.yml and "
        "playbooks/mig.yml create those for sharing and MIG.",
        sources=(f"{_REGISTRY}2641",),
        check=matches.of_operands(_NO_MAP),
        patterns=(_NO_MAP,),
        explains=NOT_READY | {"CreateContainerConfigError"},
    ),
    Rule(
        code="RuntimeClassMissing",
        title="A RuntimeClass does not exist",
        severity="failure",
        cause="Pods name the RuntimeClass {name}, which does not exist, so the API server refuses them.",
        remedy="For pods of the stack, see why the operator has not created it (`kubectl logs deployment/gpu-operator` "
        "in its namespace). With cdi.nriPluginEnabled: true it creates none: remove runtimeClassName from your pods.",
        sources=(
            f"{_REGISTRY}575",
            "https://github.com/kubernetes/kubernetes/blob/master/plugin/pkg/admission/runtimeclass/admission.go",
        ),
        check=_runtime_class,
        patterns=(_SANDBOX,),
        explains=_REFUSED,
    ),
)

RULES = (*_REFUSALS, *_REFERENCES)
