# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.claims import claim_objects, claim_scene
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import FakeApi, refusal
from tests.unit.fakes.claims import DraApi, claim, device, resource_slice


@pytest.mark.parametrize(
    ("served", "newest"), [(("v1", "v1beta2"), "v1"), (("v1beta2", "v1beta1"), "v1beta2"), (("v1beta1",), "v1beta1")]
)
def test_the_newest_version_that_is_served_is_used(api: FakeApi, served: tuple[str, ...], newest: str) -> None:
    DraApi(api, *served)
    assert claim_scene.read(Cluster(api.connection)).kinds.version == newest


def test_a_cluster_without_the_api_is_named_with_its_version(api: FakeApi) -> None:
    with pytest.raises(GpuOpsError) as error:
        claim_scene.read(Cluster(api.connection))
    assert error.value.reason == "KubernetesVersion"
    assert error.value.msg == wording(
        "This cluster (Kubernetes v1.36.3) serves no version of resource.k8s.io that claims need (v1, v1beta2, v1beta1). Kubernetes 1.34 serves v1. The API server of 1.33 and 1.32 needs the feature gate DynamicResourceAllocation, and v1beta2 or v1beta1 in --runtime-config."
    )
    DraApi(api, "v1alpha3")
    with pytest.raises(GpuOpsError, match="serves no version"):
        claim_scene.read(Cluster(api.connection))


def test_devices_that_are_hidden_are_not_taken_for_none(api: FakeApi) -> None:
    dra = DraApi(api)
    hidden = dra.path("resourceslices")
    api.answer = lambda method, path: (
        refusal(403, "slices", "Forbidden") if path == hidden else dra.answer(method, path)
    )
    with pytest.raises(GpuOpsError) as error:
        claim_scene.read(Cluster(api.connection))
    assert error.value.reason == "Forbidden"


def test_what_is_read_of_a_cluster(api: FakeApi) -> None:
    dra = DraApi(api)
    api.lists[dra.path("resourceslices")] = [resource_slice("a", device(0)), resource_slice("b", device(0), count=2)]
    api.lists[dra.path("resourceclaims", "research")] = [claim("held", ("a", "gpu-0"))]
    ours = claim_objects.classes(claim_objects.ClaimKinds("v1"), [{"name": "small", "type": "mig"}])[0]
    vendor = {"metadata": {"name": "gpu.nvidia.com"}, "spec": {"selectors": []}}
    theirs = {"metadata": {"name": "theirs"}, "spec": ours["spec"]}
    api.lists[dra.path("deviceclasses")] = [ours, vendor, theirs]
    scene = claim_scene.read(Cluster(api.connection))
    assert [each.name for each in scene.devices] == [("gpu.nvidia.com", "a", "gpu-0")] and scene.free == set()
    assert scene.incomplete == ["b"]
    assert scene.claims[0]["metadata"] == {"namespace": "research", "name": "held"}
    assert scene.types([{"name": "large", "type": "vfio"}]) == {"small": "mig", "large": "vfio"}
    expression = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"
    vendor["spec"]["selectors"] = [{"cel": {"expression": expression}}]
    assert claim_scene.read(Cluster(api.connection)).types([])["gpu.nvidia.com"] == "gpu"
    del ours["spec"]["selectors"]
    assert "small" not in claim_scene.read(Cluster(api.connection)).types([])
