# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Output
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.kernel import managers
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.kernel.choice import Seen

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
