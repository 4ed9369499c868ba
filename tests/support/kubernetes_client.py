# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the installed Kubernetes client can do, for tests that also run with the oldest one."""

from __future__ import annotations

import inspect

import pytest
from kubernetes.config import kube_config

reads_proxy_url = pytest.mark.skipif(
    "proxy-url" not in inspect.getsource(kube_config), reason="This Kubernetes client ignores proxy-url in kubeconfigs."
)
