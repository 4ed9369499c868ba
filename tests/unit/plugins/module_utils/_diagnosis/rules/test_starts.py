# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import image_pulls, starts

from tests.unit import diagnosed

RULES = (*image_pulls.RULES, *starts.RULES)

DRIVER = "nvcr.io/nvidia/driver:515.65.01-buildroot2021.02.12"
IMAGE = "nvcr.io/nvidia/cloud-native/dcgm:4.2.3-1-ubuntu22.04"


def pull(end: str, image: str = IMAGE) -> str:
    """Return the kubelet's words about an image that containerd could not pull."""
    return (
        f'Failed to pull image "{image}": rpc error: code = Unknown desc = failed to pull and unpack image "{image}": '
        f'failed to resolve reference "{image}": {end}'
    )


PUBLISHED = {
    # https://github.com/NVIDIA/gpu-operator/issues/418
    "DriverImageMissing": pull(f"{DRIVER}: not found", DRIVER),
    # https://github.com/NVIDIA/gpu-operator/issues/388
    "ImageNotFound": pull(f"{IMAGE}: not found"),
    "ImageNameInvalid": 'Failed to apply default image tag "nvcr.io/nvidia/cloud-native/DCGM:": couldn\'t parse image '
    'name "nvcr.io/nvidia/cloud-native/DCGM:": invalid reference format',
    "ImageIncomplete": "Failed to reconcile state-dcgm: invalid image specification: repository, image and version "
    "must all be set (repository=nvcr.io/nvidia, image=dcgm, version=)",
    # https://github.com/NVIDIA/gpu-operator/issues/1020
    "ImageUnauthorized": pull(
        "unexpected status from HEAD request to https://nvcr.io/v2/nvidia/gpu-operator/manifests/v24.6.2: 403 Forbidden"
    ),
    "PullSecretMissing": "Unable to retrieve some image pull secrets (ngc-secret); attempting to pull the image may "
    "not succeed.",
    # https://github.com/CrunchyData/postgres-operator/issues/3634
    "RegistryCertificateUntrusted": pull(
        'failed to do request: Head "https://harbor.example.com/v2/nvidia/dcgm/manifests/4": tls: failed to verify '
        "certificate: x509: certificate signed by unknown authority"
    ),
    # https://github.com/NVIDIA/gpu-operator/issues/1519
    "CertificateUntrusted": "At helm install: `tls: failed to verify certificate: x509: certificate signed by unknown "
    "authority`",
    "CertificateNotValidNow": pull(
        'failed to do request: Head "https://nvcr.io/v2/": tls: failed to verify certificate: x509: certificate has '
        "expired or is not yet valid: current time 2020-01-01T00:03:12Z is before 2026-05-02T00:00:00Z"
    ),
    "RegistryRateLimited": pull("unexpected status from HEAD request to https://nvcr.io/v2/: 429 Too Many Requests"),
    "RegistryNameUnknown": pull(
        'failed to do request: Head "https://nvcr.io/v2/": dial tcp: lookup nvcr.io on 10.96.0.10:53: no such host'
    ),
    "RegistryProxyFails": pull(
        'failed to do request: Head "https://nvcr.io/v2/": proxyconnect tcp: dial tcp: lookup proxy.corp: no such host'
    ),
    "RegistryUnreachable": pull(
        'failed to do request: Head "https://nvcr.io/v2/": dial tcp 34.214.72.161:443: i/o timeout'
    ),
    "ImageForOtherArchitecture": pull("no match for platform in manifest sha256:1f2d: not found"),
    "DiskFullForImages": f'failed to pull and unpack image "{IMAGE}": failed to extract layer sha256:77: write '
    "/var/lib/containerd/x: no space left on device: unknown",
    # https://github.com/adyanth/cloudflare-operator/issues/110
    "PodSecurityRefuses": 'Error creating: pods "nvidia-dcgm-" is forbidden: violates PodSecurity "restricted:latest": '
    'privileged (container "nvidia-dcgm-ctr" must not set securityContext.privileged=true)',
    # https://github.com/NVIDIA/gpu-operator/issues/185
    "PodSecurityPolicyRefuses": 'Error creating: pods "nvidia-driver-daemonset-" is forbidden: PodSecurityPolicy: '
    "unable to admit pod: [spec.securityContext.hostPID: Invalid value: true: Host PID is not allowed to be used]",
    # https://github.com/uoe-eidf-cluster-users/eidf-epcc-cluster/issues/26
    "QuotaRefuses": 'Error creating: pods "train-7w6fz" is forbidden: exceeded quota: informatics-compute-resources, '
    "requested: requests.nvidia.com/gpu=2, used: requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=8",
    # https://github.com/NVIDIA/aicr/issues/915
    "PriorityClassRefused": "Error creating: insufficient quota to match these scopes: [{PriorityClass In "
    "[system-node-critical system-cluster-critical]}]",
    "PriorityClassMissing": 'Error creating: pods "nvidia-dcgm-" is forbidden: no PriorityClass with name gpu-high was '
    "found",
    # https://github.com/openshift/instaslice-operator/issues/137
    "WebhookDown": 'Error creating: Internal error occurred: failed calling webhook "instaslice.codeflare.dev": failed '
    'to call webhook: Post "https://instaslice-operator-webhook-service.instaslice-operator-system.svc:443/'
    'mutate-v1-pod?timeout=10s": dial tcp 10.96.62.91:443: connect: connection refused',
    # https://github.com/uoe-eidf-cluster-users/eidf-epcc-cluster/issues/26
    "PolicyRefuses": 'admission webhook "validation.gatekeeper.sh" denied the request: [userpodlimits] container '
    "<cudasample> has no cpu limit",
    # https://github.com/NVIDIA/gpu-operator/issues/48
    "ContextConstraintsRefuse": 'Error creating: pods "gpu-operator-1585286165-node-feature-discovery-worker-" is '
    "forbidden: unable to validate against any security context constraint: [provider restricted: "
    ".spec.securityContext.hostNetwork: Invalid value: true: Host network is not allowed to be used",
    "ServiceAccountMissing": 'Error creating: pods "nvidia-dcgm-" is forbidden: error looking up service account '
    'gpu-operator/nvidia-dcgm: serviceaccount "nvidia-dcgm" not found',
    # https://github.com/NVIDIA/gpu-operator/issues/2641, in the words of the kubelet
    "ConfigMissing": 'MountVolume.SetUp failed for volume "plugin-config" : configmap "plugin-config" not found',
    "RuntimeClassMissing": 'Error creating: pods "nvidia-dcgm-" is forbidden: pod rejected: RuntimeClass "nvidia" not '
    "found",
}

NEAR_MISSES = (
    'Successfully pulled image "nvcr.io/nvidia/driver:595.91.07-ubuntu24.04" in 3.1s',
    'Back-off pulling image "nvcr.io/nvidia/driver:595.91.07-ubuntu24.04"',
    "Error: ErrImagePull",
    'configmap "kube-root-ca.crt" was found',
    "Warning: would violate PodSecurity \"restricted:v1.24\": allowPrivilegeEscalation != false",
    'E0901 14:06:18.039362 1 nfd-master.go:782] failed to update node "i-X": nodes "i-X" not found',
    'dial tcp: lookup gpu-operator-node-feature-discovery-master on 10.43.0.10:53: no such host',
    "time=2025 level=ERROR msg=\"dial tcp 10.0.0.1:5555: connect: connection refused\"",
    'Failed calling webhook, failing open vgpu.hami.io: request canceled',
    "x509: certificate is valid for 10.0.0.1, not 10.0.0.2",
    "write /tmp/x: no space left on device",
)  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        # https://github.com/NVIDIA/gpu-operator/issues/219
        "Invalid values for building container image path provided, please update the ClusterPolicy instance",
        # internal/image/image.go of NVIDIA/gpu-operator
        "failed to construct image path for driver: empty image path provided through both CR and ENV DRIVER_IMAGE",
    ],
)
def test_an_incomplete_image_in_the_words_of_each_release(text: str) -> None:
    assert list(diagnosed.found(RULES, text)) == ["ImageIncomplete"]


@pytest.mark.parametrize("code", PUBLISHED)
def test_published_words_give_the_code_and_nothing_else(code: str) -> None:
    assert list(diagnosed.found(RULES, diagnosed.event(PUBLISHED[code]))) == [code]
    assert list(diagnosed.found(RULES, PUBLISHED[code])) == [code]


def test_every_rule_has_published_words() -> None:
    assert {rule.code for rule in RULES} == set(PUBLISHED)


@pytest.mark.parametrize("text", NEAR_MISSES)
def test_similar_words_give_nothing(text: str) -> None:
    assert diagnosed.found(RULES, diagnosed.event(text)) == {}


def test_an_image_that_is_missing_on_many_nodes_is_one_finding_with_all_nodes() -> None:
    lines = [diagnosed.event(PUBLISHED["ImageNotFound"], node=f"gpu-{number}") for number in range(3)]
    assert diagnosed.found(RULES, *lines)["ImageNotFound"].nodes == ("gpu-0", "gpu-1", "gpu-2")


def test_a_driver_without_an_image_explains_what_waits_for_it_and_nothing_else() -> None:
    waiting = {"driver": "ImagePullBackOff", "container-toolkit": "Init:0/1", "dcgm": "CrashLoopBackOff"}
    line = diagnosed.event(PUBLISHED["DriverImageMissing"], "nvidia-driver-daemonset-x7k2p")
    found = diagnosed.found(RULES, line, stack=diagnosed.stack(diagnosed.row(waiting_for=waiting)))
    assert found["DriverImageMissing"].consequences[0].code == "OperandWaiting"
    assert "dcgm is CrashLoopBackOff" in found["OperandWaiting"].cause


def test_a_refusal_of_one_operand_leaves_the_others_alone() -> None:
    rows = diagnosed.row(waiting_for={"dcgm-exporter": "CrashLoopBackOff"})
    message = f"dcgm: 0 of 1 nodes ready; the API server refuses to create pods: {PUBLISHED['PodSecurityRefuses']}."
    refusal = diagnosed.reason("PodsRefused", message, operand="dcgm")
    found = diagnosed.found(RULES, stack=diagnosed.stack(rows, reasons=[refusal]))
    assert set(found) == {"PodSecurityRefuses", "OperandWaiting"}


def test_what_a_container_says_in_its_status_is_read() -> None:
    waiting = {"reason": "ImagePullBackOff", "message": f"Back-off pulling image: ErrImagePull: {pull('x: not found')}"}
    status = {"containerStatuses": [{"name": "nvidia-dcgm-ctr", "state": {"waiting": waiting}}]}
    pod = {
        "metadata": {"name": "nvidia-dcgm-x7k2p", "namespace": "gpu-operator"},
        "spec": {"nodeName": "gpu-0001"},
        "status": status,
    }
    found = diagnosed.found(RULES, pods=[pod])["ImageNotFound"]
    assert found.nodes == ("gpu-0001",)
    assert found.quotes[0].source == "status of pod gpu-operator/nvidia-dcgm-x7k2p, container nvidia-dcgm-ctr"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ImageUnauthorized", "RegistryProxyFails"),
        ("ImageUnauthorized", "ImageNotFound"),
        ("ImageUnauthorized", "DriverImageMissing"),
    ],
)
def test_causes_with_similar_evidence_say_how_to_tell_them_apart(one: str, other: str) -> None:
    both = diagnosed.found(RULES, diagnosed.event(PUBLISHED[one]), diagnosed.event(PUBLISHED[other]))
    unlike = {rule.code: rule.unlike for rule in RULES}
    assert both[one].tell_apart == (unlike[one][other],)
    assert both[other].tell_apart == (unlike[other][one],)


def test_a_proxy_that_wants_a_login_is_not_the_registry() -> None:
    assert list(diagnosed.found(RULES, diagnosed.event(pull("Proxy Authentication Required")))) == [
        "RegistryProxyFails"
    ]


def test_a_server_whose_certificate_is_not_trusted_is_named() -> None:
    text = (
        'Internal error occurred: failed calling webhook "mutate.example.com": failed to call webhook: Post '
        '"https://hook.policies.svc:443/mutate?timeout=10s": tls: failed to verify certificate: x509: certificate '
        "signed by unknown authority"
    )
    (finding,) = diagnosed.found(RULES, diagnosed.event(text)).values()
    assert finding.code == "CertificateUntrusted" and "certificate of hook.policies.svc:443." in finding.cause
    assert diagnosed.found(RULES, diagnosed.log(text, "x", "y", "unit")) == {}
