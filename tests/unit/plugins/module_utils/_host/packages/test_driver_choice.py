# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.driver_choice import (
    PackageTarget,
    RefusedError,
    choose,
    offered_by,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.planner_types import (
    InstalledDriver,
    Layout,
    Observed,
    Package,
    Request,
)
from inline_snapshot import snapshot as wording

V100 = {"architecture": "Volta", "device_id": "10de:1db6", "name": "V100"}
SIGNED = Layout("ubuntu", "580", "open", ("utils-580",), modules=("modules-580",), signed=True)
BUILT = Layout("nvidia", "580", "open", ("dkms-580", "utils-580"))
NEWEST = Layout("nvidia", "590", "open", ("dkms", "utils"))


class Names:
    """The names of two branches. ``flavours`` are those that were asked for."""

    def __init__(self) -> None:
        self.flavours: list[str] = []

    def layouts(self, request: Request, observed: Observed, branch: str, flavour: str) -> list[Layout]:
        self.flavours.append(flavour)
        return {"580": [SIGNED, BUILT], "590": [NEWEST]}.get(branch, [])

    def removal(self, observed: Observed) -> list[str]:
        return []

    def pins(self, request: Request, version: str | None) -> dict[str, str | None]:
        return {}


def host(*offered: tuple[str, str, str], secure_boot: bool = False, mok: bool = False) -> Observed:
    packages = tuple(Package(name, version, origin) for name, version, origin in offered)
    return Observed(InstalledDriver(), offered=packages, secure_boot=secure_boot, mok=mok, kernels=("6.8.0",))


OF_NVIDIA = [(name, f"580.{patch}-1", "nvidia") for name in ("dkms-580", "utils-580") for patch in ("95.05", "105.08")]
OF_UBUNTU = [("utils-580", "580.95.05-1", "ubuntu"), ("modules-580", "6.8.0-1", "ubuntu")]
OF_590 = [("dkms", "590.48.01-1", "nvidia"), ("utils", "590.48.01-1", "nvidia")]


def test_the_first_layout_that_is_offered_as_a_whole_in_its_newest_version() -> None:
    assert choose(Request(), host(*OF_NVIDIA, *OF_UBUNTU), Names()) == PackageTarget(SIGNED, "580.95.05")
    assert choose(Request(), host(*OF_NVIDIA, OF_UBUNTU[0]), Names()) == PackageTarget(BUILT, "580.105.08")
    incomplete = [*OF_NVIDIA[:2], OF_NVIDIA[2], *OF_590]
    assert choose(Request(), host(*incomplete), Names()) == PackageTarget(BUILT, "580.95.05")


def test_the_branch_that_is_asked_for_else_580_else_the_newest() -> None:
    every = host(*OF_NVIDIA, *OF_590)
    assert choose(Request(), every, Names()) == PackageTarget(BUILT, "580.105.08")
    assert choose(Request(branch="590"), every, Names()) == PackageTarget(NEWEST, "590.48.01")
    assert choose(Request(version="580.95.05"), every, Names()) == PackageTarget(BUILT, "580.95.05")
    assert choose(Request(), host(*OF_590), Names()) == PackageTarget(NEWEST, "590.48.01")


def test_without_the_default_branch_the_newest_is_tried_first_and_versions_are_listed_so() -> None:
    class More(Names):
        def layouts(self, request: Request, observed: Observed, branch: str, flavour: str) -> list[Layout]:
            return [Layout("nvidia", branch, flavour, ("driver",))]

    observed = host(*(("driver", f"{branch}.1-1", "nvidia") for branch in (570, 590, 550, 299, 2000)))
    assert choose(Request(), observed, More()).version == "590.1"
    with pytest.raises(RefusedError) as error:
        choose(Request(branch="560"), observed, More())
    assert str(error.value) == wording(
        "The host's repositories do not offer the driver 560. They offer 590.1, 570.1, 550.1."
    )


def test_secure_boot_takes_signed_modules_or_an_enrolled_key() -> None:
    with pytest.raises(RefusedError) as error:
        choose(Request(), host(*OF_NVIDIA, secure_boot=True), Names())
    assert str(error.value) == wording(
        "Secure boot is on, and the repositories offer no signed modules of the branch 580 for the kernel 6.8.0. Enrol the key of DKMS with mokutil, or use a kernel that Ubuntu signs modules for."
    )
    assert choose(Request(), host(*OF_NVIDIA, secure_boot=True, mok=True), Names()).layout == BUILT
    assert choose(Request(), host(*OF_NVIDIA, *OF_UBUNTU, secure_boot=True), Names()).layout == SIGNED


def test_secure_boot_is_no_reason_where_nothing_is_offered() -> None:
    with pytest.raises(RefusedError) as error:
        choose(Request(), host(OF_NVIDIA[0], secure_boot=True), Names())
    assert str(error.value) == wording(
        "The host's repositories do not offer the driver. Name one in host_driver_repositories."
    )


def test_gpus_that_a_branch_does_not_know_are_named_if_the_branch_is_asked_for() -> None:
    observed = dataclasses.replace(host(*OF_NVIDIA, *OF_590), gpus=(V100,))
    with pytest.raises(RefusedError, match="branch 590 does not support V100"):
        choose(Request(branch="590"), observed, Names())
    with pytest.raises(RefusedError, match="does not support V100"):
        choose(Request(), dataclasses.replace(host(*OF_590), gpus=(V100,)), Names())


def test_named_packages_come_in_their_newest_version_with_companions_for_the_gpus() -> None:
    mine = [("mine", "r2", "unknown"), ("mine", "r10", "unknown")]
    assert choose(Request(packages=("mine",)), host(*mine), Names()).version == "r10"
    names = Names()
    observed = dataclasses.replace(host(("mine", "580.1-1", "unknown")), gpus=(V100,))
    assert choose(Request(packages=("mine",)), observed, names).layout.required == ("mine",)
    assert names.flavours == ["proprietary"]


def test_what_is_offered_instead_is_named() -> None:
    with pytest.raises(RefusedError) as error:
        choose(Request(branch="570"), host(*OF_590), Names())
    assert str(error.value) == wording("The host's repositories do not offer the driver 570. They offer 590.48.01.")
    with pytest.raises(RefusedError, match=r"Name one in host_driver_repositories\.$"):
        choose(Request(), host(), Names())
    with pytest.raises(RefusedError) as error:
        choose(Request(packages=("dkms",), branch="595"), host(*OF_590), Names())
    assert str(error.value) == wording(
        "The host's repositories do not offer dkms in version 595. They offer dkms 590.48.01."
    )


def test_two_origins_may_use_one_name() -> None:
    observed = host(*OF_NVIDIA, *OF_UBUNTU)
    assert [package.origin for package in offered_by(observed, SIGNED, "utils-580")] == ["ubuntu"]
    assert [package.origin for package in offered_by(observed, BUILT, "utils-580")] == ["nvidia", "nvidia"]


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [({}, "535.309.01"), ({"version": "535.320.02"}, "535.320.02"), ({"branch": "535"}, "535.309.01")],
)
def test_the_candidate_of_the_package_manager_comes_before_a_newer_backport(
    wanted: dict[str, str], chosen: str
) -> None:
    versions = {"535.309.01-0+deb12u1": True, "535.320.02-1~bpo12+1": False, "535.261.03-1": False}
    offered = tuple(
        Package(name, version, "debian", candidate=versions[version]) for name in ("a", "b") for version in versions
    )
    observed = Observed(InstalledDriver(), offered=offered)
    layout = Layout("debian", "535", "open", ("a", "b"))

    class OneLayout(Names):
        def layouts(self, request: Request, observed: Observed, branch: str, flavour: str) -> list[Layout]:
            return [layout]

    assert choose(Request(**wanted), observed, OneLayout()).version == chosen
    assert [package.upstream for package in observed.versions("a")] == ["535.309.01", "535.320.02", "535.261.03"]
