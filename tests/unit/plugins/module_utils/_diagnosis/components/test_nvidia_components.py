# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.components.nvidia_components import (
    NVIDIA_COMPONENTS,
)


def test_its_components_are_known_by_names_and_words_that_are_expressions() -> None:
    assert {"driver", "toolkit", "device-plugin", "dra", "imex"} <= {each.key for each in NVIDIA_COMPONENTS}
    for each in NVIDIA_COMPONENTS:
        assert not re.search(each.marks, "the fan is loud") and not re.match(each.names, "grafana-0"), each.key
