# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.kernel import kernel_choice
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.kernel.kernel_choice import KernelNames, Seen
from inline_snapshot import snapshot as wording

OLD, NEW = "6.8.0-51-generic", "6.8.0-60-generic"
NAMES = KernelNames(
    f"linux-image-{NEW}", f"linux-headers-{NEW}", (f"linux-modules-nvidia-580-{NEW}", f"linux-tools-{NEW}")
)
DRIVER, TOOLS = NAMES.siblings


def seen(offered: tuple[str, ...] = (), **more: object) -> Seen:
    return Seen(OLD, (OLD,), (OLD, NEW), frozenset(offered), **more)  # type: ignore[arg-type]


def test_the_latest_is_of_the_same_flavour() -> None:
    host = Seen(OLD, (OLD,), (NEW, "6.9.0-1-lowlatency"))
    assert (kernel_choice.release_of("latest", host), kernel_choice.release_of("x", host)) == (NEW, "x")
    assert kernel_choice.release_of("latest", Seen("6.1.0-1-rt")) == ""


def test_why_no_kernel_is_the_latest() -> None:
    assert kernel_choice.nothing_fits(Seen("6.11.0-29-generic", releases=(NEW, "6.14.0-37-generic"))) == wording(
        "The host runs 6.11.0-29-generic, and no kernel of the series 6.11 and the flavour generic is installed or offered. The repositories offer 6.14.0-37-generic, 6.8.0-60-generic. Name the one to change to."
    )
    assert kernel_choice.nothing_fits(Seen("5.14.0-1.el9.x86_64")) == wording(
        "The host runs 5.14.0-1.el9.x86_64, and no kernel of the series 5.14 is installed or offered. The repositories offer no kernel at all. Name the one to change to."
    )


def test_what_is_installed() -> None:
    chosen = kernel_choice.choose(NEW, NAMES, seen((NAMES.image, NAMES.headers, DRIVER, TOOLS)), "installed")
    assert (chosen.refused, chosen.headers) == ("", "offered")
    assert chosen.install == (NAMES.image, DRIVER, TOOLS, NAMES.headers)
    only = kernel_choice.choose(NEW, NAMES, seen((NAMES.image, NAMES.headers, DRIVER)), "offered")
    assert only.install == (NAMES.image, DRIVER) and only.refused == ""


@pytest.mark.parametrize(
    ("offered", "headers", "said"),
    [
        ((), "installed", f"No enabled repository offers the kernel {NEW}"),
        ((NAMES.image, DRIVER), "installed", f"No enabled repository offers {NAMES.headers}"),
        ((NAMES.image, DRIVER), "offered", f"No enabled repository offers {NAMES.headers}"),
        ((NAMES.image, DRIVER), "ignored", ""),
        ((NAMES.image, NAMES.headers, TOOLS), "installed", f"No enabled repository offers {DRIVER}, the driver's"),
    ],
)
def test_refusals(offered: tuple[str, ...], headers: str, said: str) -> None:
    refused = kernel_choice.choose(NEW, NAMES, seen(offered), headers).refused
    assert refused.startswith(said) and bool(refused) == bool(said)


def test_a_repository_without_kernels_is_named() -> None:
    refused = kernel_choice.choose(NEW, NAMES, Seen(OLD, (OLD,)), "installed").refused
    assert refused.endswith("no kernel at all.")


def test_a_kernel_that_is_there_needs_no_repository() -> None:
    host = Seen(OLD, (OLD, NEW), built_for=frozenset((NEW,)), installed=frozenset((DRIVER,)))
    chosen = kernel_choice.choose(NEW, NAMES, host, "installed")
    assert (chosen.install, chosen.refused, chosen.headers) == ((), "", "installed")


@pytest.mark.parametrize(
    ("host", "release", "kept"),
    [(Seen(OLD, (OLD,)), NEW, OLD), (Seen(OLD, (OLD,)), OLD, None), (Seen(OLD, (NEW,)), NEW, None)],
)
def test_the_way_back_is_the_kernel_that_runs(host: Seen, release: str, kept: str | None) -> None:
    assert kernel_choice.kept(host, release) == kept
