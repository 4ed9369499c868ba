# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names are judged by their words, and harmless ones by the whole name."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils import _secret_names


@pytest.mark.parametrize(
    ("name", "words"),
    [("HF_hubPw", ("hf", "hub", "pw")), ("HTTPAuth", ("http", "auth")), ("x-api.key2", ("x", "api", "key")), ("7", ())],
)
def test_a_name_is_taken_apart_at_separators_and_case(name: str, words: tuple[str, ...]) -> None:
    assert _secret_names.words(name) == words


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("DRIVER_AUTH", True), ("registrypassword", True), ("privatekey", True), ("apiKeys", True), ("keyOfIt", True),
        ("key", False), ("keys", False), ("secretName", False), ("tokenPath", False), ("imagePullSecrets", False),
        ("topologyKey", False), ("PASS_DEVICE_SPECS", False), ("compass", False), ("monkey", False), ("path", False),
        ("patch", False), ("author", False), ("name", False), ("", False),
    ],
)  # fmt: skip
def test_which_names_belong_to_secrets(name: str, is_secret: bool) -> None:
    assert _secret_names.is_secret(name) is is_secret


def test_passwords_are_those_that_stand_alone_in_prose() -> None:
    assert _secret_names.is_password("db_pw") and _secret_names.is_password("myPassword")
    assert not _secret_names.is_password("token")


def test_exact_names_are_harmless_and_what_begins_like_them_is_not() -> None:
    assert _secret_names.is_plain_variable("NVIDIA_VISIBLE_DEVICES")
    assert not _secret_names.is_plain_variable("NVIDIA_VISIBLE_DEVICES_X")
    assert _secret_names.is_plain_argument("--mig-strategy") and not _secret_names.is_plain_argument("mig-strategy")
    assert _secret_names.is_plain_argument("iommu") and not _secret_names.is_plain_argument("--iommu")
    assert not _secret_names.is_plain_argument("inst.rootpw")


def test_labels_are_known_by_their_whole_domain() -> None:
    assert _secret_names.is_known_label("nvidia.com/gpu.count") and _secret_names.is_known_label("app")
    assert not _secret_names.is_known_label("ex.nvidia.com/x") and not _secret_names.is_known_label("team")
    assert _secret_names.last_part("ex.com/pw") == "pw"


def test_no_list_of_harmless_names_has_a_secret_one() -> None:
    names = _secret_names._VARIABLES | _secret_names._ARGUMENTS | _secret_names._KERNEL
    assert {name for name in names if _secret_names.is_secret(name)} == set()
