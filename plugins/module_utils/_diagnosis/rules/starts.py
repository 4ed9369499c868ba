# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What keeps pods of the stack from being created and started: refusals, images, and what containers refer to."""

from __future__ import annotations

import functools
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches, order
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import NOT_READY
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text import Hit, Pattern, pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View

_PULLS = NOT_READY | {"OperatorNotAvailable", "OperatorNotUpdated", "DiscoveryNotReady"}
_REFUSED = NOT_READY | {"PreflightPodSecurity", "OperatorNotAvailable", "OperatorNotUpdated", "DiscoveryNotReady"}

# Images

_IMAGE = r"(?:image|reference|initializing source) \\*\"?(?:docker://)?(?P<image>[^\s\"\\,]+)\\*\"?.{0,900}?"
"""What containerd, CRI-O and docker write before the reason why an image cannot be pulled."""


def _pull(reason: str, literal: str) -> Pattern:
    return pattern(_IMAGE + reason, literal, "event", "unit")


_LOOKUP = _pull(
    r"(?<!proxyconnect tcp: )dial tcp: lookup (?P<host>[\w.-]+)(?: on [\d.:\[\]a-f]+)?:.*?"
    r"(?:no such host|i/o timeout|server misbehaving|try again|connection refused)",
    "dial tcp: lookup",
)
_UNTRUSTED = _pull(r"x509: certificate signed by unknown authority", "certificate signed by unknown authority")
_STRANGER = pattern(
    r"(?:(?:Get|Post|Head|Put|Patch) \\*\"?https://(?P<server>[^/\s\"\\?]+).{0,300}?)?"
    r"x509: certificate signed by unknown authority",
    "certificate signed by unknown authority",
    "event",
    "pod",
)
_EXPIRED = pattern(
    r"x509: certificate has expired or is not yet valid: current time (?P<now>\S+) is (?P<side>before|after)",
    "certificate has expired or is not yet valid",
)
_PROXY = (
    _pull(r"proxyconnect tcp: (?!.*certificate has expired)", "proxyconnect tcp"),
    _pull(r"Proxy Authentication Required", "proxy authentication required"),
)
_RATE = (_pull(r"429 Too Many Requests", "429 too many requests"), _pull(r"toomanyrequests", "toomanyrequests"))
_DENIED = (
    *(
        _pull(re.escape(words), words)
        for words in (
            *("401 unauthorized", "403 forbidden", "unauthorized:", "authorization failed"),
            *("access denied", "access forbidden"),
        )
    ),
    _pull(r"(?<!proxy )authentication required", "authentication required"),
)
"""Without a valid login, registries do not say whether an image exists, so this may also mean that it does not."""
_ABSENT = (
    _pull(r"(?:: not found|not found: manifest)", "not found"),
    _pull(r"(?:manifest unknown|name unknown|repository name not known to registry)", "unknown"),
)
_UNREACHABLE = _pull(
    r"(?<!proxyconnect tcp: )dial tcp (?P<address>[\d.]+|\[[0-9a-f:]+\]):(?P<port>\d+): (?:connect: )?"
    r"(?P<why>i/o timeout|connection refused|connection timed out|no route to host|network is unreachable)",
    "dial tcp",
)
_ARCHITECTURE = _pull(
    r"(?:no match for platform in manifest|no matching manifest for (?P<platform>[\w/]+))", "manifest"
)
_FULL = pattern(_IMAGE + r"no space left on device", "no space left on device", "event", "unit")
_SECRETS = pattern(
    r"Unable to retrieve some image pull secrets \((?P<secrets>[^)]+)\)", "unable to retrieve some image pull secrets"
)

_NAME = (
    pattern(r"couldn't parse image name \\?\"?(?P<image>[^\s\"\\]+)", "parse image name"),
    pattern(r"couldn't parse image reference \\?\"?(?P<image>[^\s\"\\]+)", "parse image reference"),
)
_PARTS = (
    pattern(r"invalid image specification: repository, image and version must", "invalid image specification"),
    pattern(r"Invalid values for building container image path provided", "invalid values for building container"),
    pattern(r"empty image path provided through both CR and ENV", "empty image path provided"),
)

_DRIVER_IMAGE = re.compile(r"/(?:driver|vgpu-manager):[^-]+-(?P<system>.+)$")
"""The image of a driver: the operator adds the node's kernel and system to its tag."""


def _absent(view: View, *, of_driver: bool) -> t.Iterator[Sighting]:
    for hit in (hit for each in _ABSENT for hit in view.hits(each)):
        found = _DRIVER_IMAGE.search(hit.values["image"])
        if bool(found) == of_driver and not _is_other(hit):
            yield matches.sighting(hit, system=found["system"]) if found else matches.sighting(hit)


def _is_other(hit: Hit) -> bool:
    """Return whether the words also say that the image exists for other processors, or that a login is missing."""
    return any(each.regex.search(hit.line.text) for each in (*_DENIED, _ARCHITECTURE))


_REGISTRY = "https://github.com/NVIDIA/gpu-operator/issues/"
_EXISTS = (
    "Look for the image with a login that has access, for example with `skopeo inspect docker://<image>`. If it is "
    "there, the node's login is the cause. If it is not, the name or the tag is wrong."
)
_PROXY_OR_PATH = (
    "Run `systemctl show --property=Environment containerd` (or crio) on the node. If it names HTTPS_PROXY, the proxy "
    "is the cause; if it names none, the path from the node to the registry is blocked."
)
_TIME_OR_TRUST = (
    "Run `timedatectl` on the node. If its time is wrong, the time is the cause; if it is right, the node does not "
    "know the authority that signed the certificate."
)

_IMAGES = (
    Rule(
        code="DriverImageMissing",
        title="There is no driver image for this system",
        severity="failure",
        cause="The registry has no image {image}. The operator adds the node's system ({system}) to the driver's "
        "version, and nobody has published an image for the two together.",
        remedy="Set driver.version in operator_values to a release that has an image for this system, or copy the "
        "image to your mirror, or install the driver on the hosts (role host_driver, with driver.enabled: false).",
        sources=(f"{_REGISTRY}418", f"{_REGISTRY}690", f"{_REGISTRY}170"),
        check=functools.partial(_absent, of_driver=True),
        patterns=_ABSENT,
        explains=_PULLS | {"DriverImageMisfit"},
        unlike={"ImageUnauthorized": _EXISTS},
    ),
    Rule(
        code="ImageNotFound",
        title="An image does not exist",
        severity="failure",
        cause="The registry has no image {image}.",
        remedy="Correct repository, image and version of this operand in operator_values and run playbooks/site.yml, "
        "or copy the image to your mirror.",
        sources=(f"{_REGISTRY}388", f"{_REGISTRY}273"),
        check=functools.partial(_absent, of_driver=False),
        patterns=_ABSENT,
        explains=_PULLS,
        unlike={"ImageUnauthorized": _EXISTS},
    ),
    Rule(
        code="ImageNameInvalid",
        title="The name of an image is invalid",
        severity="failure",
        cause="{image} is not a valid name of an image.",
        remedy="Correct repository, image and version of this operand in operator_values, and run playbooks/site.yml.",
        sources=("https://github.com/kubernetes/kubernetes/blob/master/pkg/util/parsers/parsers.go",),
        check=matches.of_operands(*_NAME),
        patterns=_NAME,
        explains=_PULLS | {"InvalidImageName"},
    ),
    Rule(
        code="ImageIncomplete",
        title="An image of the ClusterPolicy is incomplete",
        severity="failure",
        cause="An operand's image lacks its repository, name or version. The operator stops there, so the operands "
        "after it are not set up either.",
        remedy="Set repository, image and version of that operand in operator_values, or image alone with the whole "
        "path, and run playbooks/site.yml.",
        sources=(f"{_REGISTRY}219", "https://github.com/NVIDIA/gpu-operator/blob/main/internal/image/image.go"),
        patterns=_PARTS,
        explains=_PULLS | {"ReconcileFailed"},
    ),
    Rule(
        code="ImageUnauthorized",
        title="The registry refuses to give an image",
        severity="failure",
        cause="The registry refuses {image}. The login is missing or wrong, or it has no access to this image. Many "
        "registries give the same answer for an image that does not exist.",
        remedy="Check the name of the image. If it is right, give the login in operator_pull_secrets and run "
        "playbooks/site.yml. Public images of nvcr.io need no login: remove a key that belongs to another "
        "organization.",
        sources=(f"{_REGISTRY}202", f"{_REGISTRY}1020", f"{_REGISTRY}2295"),
        check=matches.of_operands(*_DENIED, certainty="likely"),
        patterns=_DENIED,
        explains=_PULLS,
        unlike={
            "RegistryProxyFails": "The proxy may have refused, and not the registry. Run `curl -I "
            "https://<registry>/v2/` on the node with the container runtime's HTTPS_PROXY. An answer with the header "
            "Www-Authenticate comes from the registry: then the login is the cause.",
            "ImageNotFound": _EXISTS,
            "DriverImageMissing": _EXISTS,
        },
    ),
    Rule(
        code="PullSecretMissing",
        title="A pull secret does not exist",
        severity="warning",
        cause="The pods name the pull secrets {secrets}, which do not exist in their namespace.",
        remedy="Give them in operator_pull_secrets with registry, username and password, and run playbooks/site.yml, "
        "which creates them. Or create them there with `kubectl create secret docker-registry`.",
        sources=("https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/kubelet_pods.go",),
        check=matches.of_operands(_SECRETS),
        patterns=(_SECRETS,),
        explains=frozenset({"ImageUnauthorized"}),
    ),
    Rule(
        code="RegistryCertificateUntrusted",
        title="The node does not trust the registry's certificate",
        severity="failure",
        cause="The node pulls {image}, and its container runtime does not know the authority that signed the "
        "registry's certificate.",
        remedy="Give the authority's certificate to the container runtime of the nodes (containerd: the field ca in "
        "/etc/containerd/certs.d/<registry>/hosts.toml). driver.certConfig does not help: it is for packages.",
        sources=(f"{_REGISTRY}1519",),
        check=matches.of_operands(_UNTRUSTED),
        patterns=(_UNTRUSTED,),
        explains=_PULLS,
        unlike={"CertificateNotValidNow": _TIME_OR_TRUST},
    ),
    Rule(
        code="RegistryRateLimited",
        title="The registry limits how often images are pulled",
        severity="warning",
        cause="The registry refuses {image}, because images were pulled too often from this address.",
        remedy="Wait: the kubelet tries again by itself. To avoid it, pull from a mirror (operator_registry), or log "
        "in with a pull secret (operator_pull_secrets).",
        sources=(f"{_REGISTRY}1563",),
        check=matches.of_operands(*_RATE),
        patterns=_RATE,
        explains=_PULLS,
    ),
    Rule(
        code="RegistryNameUnknown",
        title="The node cannot resolve the registry's name",
        severity="failure",
        cause="The node's resolver does not know {host}, the registry of {image}.",
        remedy="Run `getent hosts {host}` on the node. If it finds nothing, correct the node's DNS server or the name "
        "of the registry, or use a mirror that the nodes reach (operator_registry).",
        sources=("https://kubernetes.io/docs/tasks/administer-cluster/dns-debugging-resolution/",),
        check=matches.of_operands(_LOOKUP),
        patterns=(_LOOKUP,),
        explains=_PULLS,
    ),
    Rule(
        code="RegistryProxyFails",
        title="The proxy does not let the node reach the registry",
        severity="failure",
        cause="The container runtime asks a proxy for {image}, and the proxy does not answer or refuses.",
        remedy="Correct HTTPS_PROXY and NO_PROXY of the container runtime's service on the nodes (`systemctl cat "
        "containerd` or `crio` shows them), and restart the service.",
        sources=(f"{_REGISTRY}199",),
        check=matches.of_operands(*_PROXY),
        patterns=_PROXY,
        explains=_PULLS,
        unlike={
            "RegistryUnreachable": _PROXY_OR_PATH,
            "ImageUnauthorized": "Run `curl -I https://<registry>/v2/` on the node with the container runtime's "
            "HTTPS_PROXY. An answer without the header Www-Authenticate comes from the proxy: then the proxy is the "
            "cause.",
        },
    ),
    Rule(
        code="RegistryUnreachable",
        title="The node cannot reach the registry",
        severity="failure",
        cause="{address}, port {port}, does not answer when the node asks for {image}: {why}.",
        remedy="Allow the nodes to connect to {address}, port {port} (firewall, routes), or use a mirror that they "
        "reach (operator_registry).",
        sources=("https://github.com/containerd/containerd/blob/main/docs/hosts.md",),
        check=matches.of_operands(_UNREACHABLE),
        patterns=(_UNREACHABLE,),
        explains=_PULLS,
        unlike={"RegistryProxyFails": _PROXY_OR_PATH},
    ),
    Rule(
        code="ImageForOtherArchitecture",
        title="An image is built for another processor",
        severity="failure",
        cause="{image} has no variant for the processor of this node.",
        remedy="Use an image that is built for this processor. If the image comes from a mirror, copy all of its "
        "architectures, for example with `skopeo copy --all`.",
        sources=("https://github.com/containerd/containerd/issues/3238",),
        check=matches.of_operands(_ARCHITECTURE),
        patterns=(_ARCHITECTURE,),
        explains=_PULLS,
    ),
    Rule(
        code="DiskFullForImages",
        title="The node has no space for an image",
        severity="failure",
        cause="{image} cannot be unpacked: the disk of the container runtime is full.",
        remedy="Free space on the node (`crictl rmi --prune` removes images that no container uses), or enlarge the "
        "file system of the container runtime.",
        sources=("https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/",),
        check=matches.of_operands(_FULL),
        patterns=(_FULL,),
        explains=_PULLS,
    ),
)

# Certificates and clocks


def _stranger(view: View) -> t.Iterator[Sighting]:
    """Yield who does not trust a server, except for pulls of images."""
    for hit in view.hits(_STRANGER):
        if not _UNTRUSTED.regex.search(hit.line.text):
            yield matches.sighting(hit, server=hit.values.get("server") or "the server")


_CERTIFICATES = (
    Rule(
        code="CertificateUntrusted",
        title="A program does not trust the certificate of a server",
        severity="failure",
        cause="The program that wrote the evidence does not know the authority that signed the certificate of "
        "{server}.",
        remedy="Give the authority's certificate to that program: for a registry of images to the container runtime "
        "of the nodes (containerd: the field ca in /etc/containerd/certs.d/<registry>/hosts.toml), for a repository of "
        "charts to the machine that runs Helm, for a webhook to caBundle of its configuration.",
        sources=(f"{_REGISTRY}1519", "https://github.com/golang/go/blob/master/src/crypto/x509/verify.go"),
        check=_stranger,
        patterns=(_STRANGER, _UNTRUSTED),
        explains=_REFUSED | _PULLS,
        unlike={"CertificateNotValidNow": _TIME_OR_TRUST},
    ),
    Rule(
        code="CertificateNotValidNow",
        title="A certificate is not valid at the time of the machine that checks it",
        severity="failure",
        cause="The machine's clock says {now}, and that is {side} the time for which the certificate is valid.",
        remedy="Run `timedatectl` on the machine. If its time is wrong, repair its time service (chrony or "
        "systemd-timesyncd). If it is right, renew the certificate.",
        sources=("https://github.com/golang/go/blob/master/src/crypto/x509/verify.go",),
        patterns=(_EXPIRED,),
        explains=_PULLS,
        unlike=dict.fromkeys(("RegistryCertificateUntrusted", "CertificateUntrusted"), _TIME_OR_TRUST),
    ),
)

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
    r"(?:admission webhook \"(?P<policy>[\w./-]+)\" denied the request"
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

RULES = (*_IMAGES, *_CERTIFICATES, *_REFUSALS, *_REFERENCES)
