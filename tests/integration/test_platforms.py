# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""site.yml takes each platform to proved GPUs with its example as it is shipped, and refuses what breaks there."""

from __future__ import annotations

import contextlib
import json
import typing as t

import pytest
import yaml

from lab.cluster import Lab, Options
from tests.support.ansible import ROOT, SITE, Playbook, Run, on
from tests.support.labs import running_lab

pytestmark = pytest.mark.slow("each platform has a lab of its own, on which site.yml is checked, run and run again")

EXAMPLES = ROOT / "examples" / "platforms"
GPUS = {"rke2": 8, "k3s": 8, "gke": 2}
"""How many GPUs the fleet of a platform has, if not 16."""
EVERY_DAY = ("rke2", "talos")
OTHERS = ("k3s", "eks", "eks_gpu_image", "gke", "aks", "openshift", "flatcar", "dgx_os")


HARMLESS = ("rke2", "k3s", "dgx_os", "eks", "aks")
"""Platforms on which the values of a plain cluster are no more than a warning.

Nothing tells DGX OS before GPU Feature Discovery runs, and for EKS and AKS these values may be right.
"""


@contextlib.contextmanager
def platform(name: str) -> t.Iterator[Lab]:
    """A lab that plays a platform."""
    fleet = name.replace("_", "-")
    with running_lab(f"platform-{fleet}", Options(fleet=fleet, pods="instant", upgrade_tick=3)) as lab:
        yield lab


def site(lab: Lab, name: str, *arguments: str, **changes: t.Any) -> Run:
    """Run site.yml with an example as it is shipped, and what reaches the lab."""
    return on(lab).run(SITE, f"--inventory={EXAMPLES / name}.yml", *arguments, **changes)


def facts(ansible: Playbook) -> dict[str, t.Any]:
    run = ansible.module("gpuops.nvidia.gpu_preflight_info", skip=["permissions"])
    assert run.status == 0, run.output
    found: dict[str, t.Any] = json.loads(run.output.partition("=> ")[2])["facts"]
    return found


def test_there_is_an_example_of_each_preset_of_a_platform() -> None:
    presets = {path.stem for path in (ROOT / "roles" / "operator" / "vars" / "presets").glob("*.yml")}
    examples = {path.stem: yaml.safe_load(path.read_text())["all"]["vars"] for path in EXAMPLES.glob("*.yml")}
    assert {name: shipped["operator_preset"] for name, shipped in examples.items()} == {name: name for name in examples}
    assert set(examples) == presets - {"bare_metal", "preinstalled_driver", "immutable_os"}


@pytest.mark.parametrize("name", EVERY_DAY)
def test_a_platform_comes_to_proved_gpus(name: str) -> None:
    with platform(name) as lab:
        done = site(lab, name)
        assert done.status == 0 and "The preset is" not in done.output, done.output
        assert f"0 of {GPUS.get(name, 16)} nvidia.com/gpu" in done.output
        assert facts(on(lab))["preset"] == name


@pytest.mark.wide
@pytest.mark.parametrize("name", [*EVERY_DAY, *OTHERS])
def test_a_platform_is_checked_and_runs_again_and_another_preset_is_named(name: str) -> None:
    with platform(name) as lab:
        wrong = site(lab, name, "--check", operator_preset="bare_metal")
        assert wrong.status == (0 if name in HARMLESS else 2), wrong.output
        assert name in HARMLESS[2:] or "The preset is bare_metal" in wrong.output, wrong.output
        predicted, done, again = (site(lab, name, *how) for how in (["--check"], [], []))
        for run in (predicted, done, again):
            assert run.status == 0 and "The preset is" not in run.output, run.output
        assert (predicted.changed > 0, done.changed > 0, again.changed) == (True, True, 0), again.output
        assert f"0 of {GPUS.get(name, 16)} nvidia.com/gpu" in again.output
        assert facts(on(lab))["preset"] == name


@pytest.mark.wide
def test_a_device_plugin_in_the_image_is_refused() -> None:
    with platform("bottlerocket") as lab:
        refused = site(lab, "bottlerocket")
        assert refused.status == 2 and refused.changed == 0, refused.output
        assert "settings.kubelet-device-plugins.nvidia.enabled=false" in refused.message
        lab.kubectl("delete", "node", "own-plugin-0000")
        assert site(lab, "bottlerocket").status == 0


@pytest.mark.wide
def test_the_device_plugin_of_gke_is_refused() -> None:
    with platform("gke") as lab:
        lab.kubectl("label", "node", "gpu-0000", "gke-no-default-nvidia-gpu-device-plugin-")
        refused = site(lab, "gke")
        assert refused.status == 2 and refused.changed == 0, refused.output
        assert "gke-no-default-nvidia-gpu-device-plugin=true" in refused.message
        assert "kube-system/nvidia-gpu-device-plugin" in refused.message


@pytest.mark.wide
def test_openshift_has_the_constraint_of_the_operators_pod() -> None:
    with platform("openshift") as lab:
        done = site(lab, "openshift")
        assert done.status == 0, done.output
        assert "restricted-readonly" in lab.kubectl("get", "scc", "--output=name")
