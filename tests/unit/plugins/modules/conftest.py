# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs that modules start."""

from __future__ import annotations

import glob
import os
import shutil

import pytest


@pytest.fixture(scope="session")
def helm_binary() -> str:
    """Return the path of a real helm: the one on PATH, or the one that the lab has built."""
    cache = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
    found = shutil.which("helm") or next(iter(glob.glob(f"{cache}/gpuops-lab/*/bin/helm")), None)
    if found is None:
        pytest.skip("There is no helm on PATH, and the lab has not built one yet (python -m lab cluster up).")
    return found
