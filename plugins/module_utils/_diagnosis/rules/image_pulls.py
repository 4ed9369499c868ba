# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Images that cannot be pulled: names, registries, proxies and certificates."""

from __future__ import annotations

import functools
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import NOT_READY
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import Hit, Pattern, pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View

_REFUSED = NOT_READY | {"PreflightPodSecurity", "OperatorNotAvailable", "OperatorNotUpdated", "DiscoveryNotReady"}
_REGISTRY = "https://github.com/NVIDIA/gpu-operator/issues/"

_PULLS = NOT_READY | {"OperatorNotAvailable", "OperatorNotUpdated", "DiscoveryNotReady"}

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
        "version, and this combination has no published image.",
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
        remedy="Run `getent hosts {host}` on the node. If it prints no address, correct the node's DNS server or the "
        "name of the registry, or use a mirror that the nodes reach (operator_registry).",
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

RULES = (*_IMAGES, *_CERTIFICATES)
