# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.kernel import kernel_series

GA, HWE = "6.8.0-60-generic", "6.17.0-5-generic"
EL = "5.14.0-427.13.1.el9_4.aarch64"


@pytest.mark.parametrize(
    ("release", "flavour", "series"),
    [
        (GA, "generic", "6.8"),
        ("6.8.0-1021-nvidia-64k", "nvidia-64k", "6.8"),
        ("6.8.1-1015-realtime", "realtime", "6.8"),
        ("6.14.0-1018-aws", "aws", "6.14"),
        ("6.1.0-40-cloud-amd64", "cloud-amd64", "6.1"),
        ("6.1.0-56-rt-amd64", "rt-amd64", "6.1"),
        ("6.12.9+bpo-amd64", "amd64", "6.12"),
        ("6.12.90+deb12.1-amd64", "amd64", "6.12"),
        ("6.12.95+deb12-cloud-amd64", "cloud-amd64", "6.12"),
        (EL, "", "5.14"),
        (f"{EL}+64k", "64k", "5.14"),
        ("5.14.0-427.13.1.el9_4.x86_64+rt", "rt", "5.14"),
        ("4.18.0-553.rt7.342.el8_10.x86_64", "rt", "4.18"),
        ("5.15.0-209.161.7.2.el9uek.x86_64", "uek", "5.15"),
        ("6.12.40-63.114.amzn2023.x86_64", "", "6.12"),
        ("6.9.1-1.el9.elrepo.x86_64", "elrepo", "6.9"),
        ("strange", "", ""),
    ],
)
def test_flavour_and_series(release: str, flavour: str, series: str) -> None:
    assert (kernel_series.flavour_of(release), kernel_series.series_of(release)) == (flavour, series)


@pytest.mark.parametrize(
    ("running", "followed", "others", "latest"),
    [
        pytest.param(GA, ["6.8.0-63-generic"], [GA, "6.8.0-63-generic", HWE], "6.8.0-63-generic", id="general"),
        pytest.param("6.14.0-37-generic", [HWE], [GA, HWE], HWE, id="hwe-rolls"),
        pytest.param(GA, ["6.8.0-63-generic", HWE], [GA], "6.8.0-63-generic", id="both-stays"),
        pytest.param("6.11.0-29-generic", ["6.8.0-63-generic", HWE], [], HWE, id="both-rolls"),
        pytest.param(GA, [HWE], [GA], HWE, id="hwe-was-chosen"),
        pytest.param("6.8.0-1021-aws", ["6.14.0-1018-aws", GA], [], "6.14.0-1018-aws", id="aws-rolls"),
        pytest.param(GA, [], [GA, "6.8.0-63-generic", HWE], "6.8.0-63-generic", id="no-metapackage"),
        pytest.param(GA, ["6.8.0-9-lowlatency"], [GA, "6.8.0-63-generic"], "6.8.0-63-generic", id="other-flavour"),
        pytest.param("6.8.0-63-generic", [GA], ["6.8.0-63-generic"], "6.8.0-63-generic", id="no-downgrade"),
        pytest.param("6.8.0-63-generic", [GA], [GA], GA, id="running-one-is-gone"),
        pytest.param(
            "6.12.74+deb12-amd64",
            ["6.1.0-56-amd64"],
            ["6.12.74+deb12-amd64", "6.12.95+deb12-amd64", "6.1.0-56-amd64"],
            "6.12.95+deb12-amd64",
            id="backport-by-hand",
        ),
        pytest.param("6.11.0-29-generic", [], [GA, HWE], "", id="series-ended"),
        pytest.param(f"{EL}+64k", [], [EL, f"{EL}+64k", "5.14.0-503.el9_5.aarch64"], f"{EL}+64k", id="64k"),
    ],
)
def test_a_host_follows_its_metapackage_else_its_series(
    running: str, followed: list[str], others: list[str], latest: str
) -> None:
    assert kernel_series.newest_followed(running, followed, others) == latest


@pytest.mark.parametrize(
    ("package", "found"),
    [
        (f"kernel-core-{EL}", ("kernel-core", EL)),
        (f"kernel-64k-core-{EL}", ("kernel-64k-core", f"{EL}+64k")),
        ("kernel-rt-core-5.14.0-427.el9.x86_64", ("kernel-rt-core", "5.14.0-427.el9.x86_64+rt")),
        ("kernel-rt-core-4.18.0-553.rt7.el8.x86_64", ("kernel-rt-core", "4.18.0-553.rt7.el8.x86_64")),
        ("kernel-uek-core-5.15.0-209.el9uek.x86_64", ("kernel-uek-core", "5.15.0-209.el9uek.x86_64")),
        ("kernel6.12-6.12.40-63.114.amzn2023.x86_64", ("kernel6.12", "6.12.40-63.114.amzn2023.x86_64")),
        ("kernel-6.1.1-1.amzn2023.x86_64", ("kernel", "6.1.1-1.amzn2023.x86_64")),
        (f"kernel-modules-{EL}", None),
        (f"kernel-64k-modules-core-{EL}", None),
        ("kernel", None),
    ],
)
def test_the_packages_of_the_red_hat_family_with_a_kernel(package: str, found: tuple[str, str] | None) -> None:
    assert kernel_series.red_hat_release(package) == found


@pytest.mark.parametrize(
    ("name", "variant"),
    [("kernel-64k-modules", "64k"), ("kernel-modules", ""), ("kernel-uek", "uek"), ("kernel6.12-devel", "")],
)
def test_the_variant_that_a_name_begins_with(name: str, variant: str) -> None:
    assert kernel_series.red_hat_variant(name) == variant
