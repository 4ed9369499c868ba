# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Output
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.kernel import kernel_choice, managers
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.kernel.kernel_choice import Seen

from tests.unit.fakes.host import recorded
from tests.unit.plugins.module_utils._host.kernel.conftest import EL_NEW, EL_OLD, NEW, NEWER, OLD, Rocky, Ubuntu


def test_what_apt_offers(ubuntu: Ubuntu) -> None:
    seen = managers.kernels_of(ubuntu, 0).seen(NEW)
    assert set(seen.releases) == {OLD, NEW, NEWER, "6.8.0-60-lowlatency"}
    assert (seen.running, seen.kernels, seen.built_for) == (OLD, (OLD,), frozenset((OLD,)))
    assert f"linux-modules-extra-{NEW}" in seen.offered and f"linux-modules-extra-{OLD}" in seen.installed


def test_a_name_that_only_dependencies_mention_is_not_offered(ubuntu: Ubuntu) -> None:
    ubuntu.offers["linux-image-6.8.0-77-generic"] = []
    assert "6.8.0-77-generic" not in managers.kernels_of(ubuntu, 0).seen(NEW).releases


def test_the_names_of_debian_end_with_the_release(ubuntu: Ubuntu) -> None:
    installed = frozenset(
        (f"linux-image-{OLD}", f"linux-headers-{OLD}", f"linux-modules-nvidia-580-{OLD}", "linux-base")
    )
    names = managers.kernels_of(ubuntu, 0).names(NEW, Seen(OLD, installed=installed))
    assert names.siblings == (f"linux-headers-{NEW}", f"linux-modules-nvidia-580-{NEW}")
    assert (names.image, names.headers) == (f"linux-image-{NEW}", f"linux-headers-{NEW}")


def test_the_names_of_the_red_hat_family_end_with_the_version(rocky: Rocky) -> None:
    kernels = managers.kernels_of(rocky, 0)
    seen = kernels.seen(EL_NEW)
    assert set(seen.releases) == {EL_OLD, EL_NEW} and seen.kernels == (EL_OLD,)
    names = kernels.names(EL_NEW, seen)
    assert (names.image, names.headers) == (f"kernel-core-{EL_NEW}", f"kernel-devel-{EL_NEW}")
    assert names.siblings == (f"kernel-modules-{EL_NEW}",)


def test_a_variant_of_the_red_hat_family_keeps_its_variant(rocky: Rocky) -> None:
    names = managers.kernels_of(rocky, 0).names(f"{EL_NEW}+64k", Seen(f"{EL_OLD}+64k"))
    assert (names.image, names.headers) == (f"kernel-64k-core-{EL_NEW}", f"kernel-64k-devel-{EL_NEW}")


def test_a_package_manager_that_does_not_answer_is_an_error(ubuntu: Ubuntu) -> None:
    ubuntu.commands["apt-cache"] = Output(error="apt-cache ended with 100")
    with pytest.raises(GpuOpsError, match="apt-cache ended with 100"):
        managers.kernels_of(ubuntu, 0).seen(NEW)


# The kernels of Debian 12 with its backports, and what `apt-cache show --no-all-versions` said with apt's own policy.
IMAGES = recorded("apt/debian-12-images.txt")


@pytest.mark.parametrize(
    ("answer", "installed", "running", "latest"),
    [
        ("apt/debian-12-show.txt", ["linux-image-amd64"], "6.1.0-40-amd64", "6.1.0-56-amd64"),
        ("apt/debian-12-backports-show.txt", ["linux-image-amd64"], "6.12.74+deb12-amd64", "6.12.95+deb12-amd64"),
        ("apt/debian-12-show.txt", ["linux-image-amd64"], "6.1.0-47-rt-amd64", "6.1.0-56-rt-amd64"),
        ("apt/debian-12-show.txt", [], "6.1.0-47-cloud-amd64", "6.1.0-56-cloud-amd64"),
    ],
)
def test_the_latest_kernel_of_debian_is_the_one_that_apt_would_install(
    ubuntu: Ubuntu, answer: str, installed: list[str], running: str, latest: str
) -> None:
    ubuntu.put("/proc/sys/kernel/osrelease", f"{running}\n")
    ubuntu.packages = dict.fromkeys((*installed, f"linux-image-{running}"), "1")
    names = IMAGES.split()

    def cache(command: list[str]) -> str:
        if command[1] == "pkgnames":
            return IMAGES
        if command[3:] == ["linux-image-amd64"]:
            return recorded(answer)
        return "".join(f"Package: {name}\nVersion: 1\n\n" for name in command[3:] if name in names)

    ubuntu.commands["apt-cache"] = cache
    seen = managers.kernels_of(ubuntu, 0).seen("latest")
    assert kernel_choice.release_of("latest", seen) == latest


def test_a_metapackage_may_lead_to_another_one(ubuntu: Ubuntu) -> None:
    depends = {
        "linux-image-nvidia": "linux-image-nvidia-hwe-24.04",
        "linux-image-nvidia-hwe-24.04": f"linux-firmware, linux-image-{NEW} (= 1), linux-modules-extra-{NEW}",
    }
    ubuntu.packages |= {"linux-image-nvidia": "1", "linux-image-unsigned-6.8.0-1-generic": "1"}
    ubuntu.commands["apt-cache"] = lambda command: f"Package: x\nDepends: {depends.get(command[-1], '')}\n"
    assert managers.kernels_of(ubuntu, 0).followed() == [NEW]
    ubuntu.commands["apt-cache"] = "Package: x\n"
    assert managers.kernels_of(ubuntu, 0).followed() == []


ARM = "5.14.0-427.13.1.el9_4.aarch64"
GRACE = [f"{name}-{ARM}" for name in ("kernel-core", "kernel-modules", "kernel-64k-core", "kernel-64k-modules")]
UEK = "5.15.0-209.161.7.2.el9uek.x86_64"


def test_a_grace_stays_with_pages_of_64_kilobytes(rocky: Rocky, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocky, "machine", lambda: "aarch64")
    newer = "5.14.0-503.11.1.el9_5.aarch64"
    rocky.packages = GRACE
    rocky.offers = [name.replace(ARM, newer) for name in [*GRACE, f"kernel-64k-devel-{ARM}"]]
    rocky.put("/proc/sys/kernel/osrelease", f"{ARM}+64k\n")
    kernels = managers.kernels_of(rocky, 0)
    seen = kernels.seen("latest")
    assert set(seen.releases) == {newer, f"{newer}+64k"}
    assert kernel_choice.release_of("latest", seen) == f"{newer}+64k"
    names = kernels.names(f"{newer}+64k", seen)
    assert (names.image, names.headers) == (f"kernel-64k-core-{newer}", f"kernel-64k-devel-{newer}")
    assert names.siblings == (f"kernel-64k-modules-{newer}",)


@pytest.mark.parametrize(
    ("packages", "running", "newer"),
    [
        (["kernel-uek", "kernel-uek-core", "kernel-uek-modules"], UEK, "5.15.0-310.184.5.2.el9uek.x86_64"),
        (["kernel6.12"], "6.12.40-63.114.amzn2023.x86_64", "6.12.53-69.119.amzn2023.x86_64"),
        (["kernel"], "6.1.150-174.273.amzn2023.x86_64", "6.1.156-177.286.amzn2023.x86_64"),
    ],
)
def test_the_kernels_of_oracle_and_amazon(rocky: Rocky, packages: list[str], running: str, newer: str) -> None:
    rocky.packages = [f"{name}-{running}" for name in packages]
    rocky.offers = [f"{name}-{newer}" for name in packages] + ["kernel-core-5.14.0-999.el9.x86_64"]
    rocky.put("/proc/sys/kernel/osrelease", f"{running}\n")
    kernels = managers.kernels_of(rocky, 0)
    seen = kernels.seen("latest")
    assert kernel_choice.release_of("latest", seen) == newer
    names = kernels.names(newer, seen)
    image = next(name for name in packages if name.endswith("-core") or len(packages) == 1)
    assert names.image == f"{image}-{newer}" and names.headers == f"{packages[0]}-devel-{newer}"
    assert kernel_choice.choose(newer, names, seen, "ignored").refused == ""
