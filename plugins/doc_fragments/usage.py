# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options of modules that say how much GPUs are used; specs in _cluster/gpu_metrics/metrics_request.py."""

    DOCUMENTATION = r"""
options:
  idle_below:
    description: The utilisation in percent up to which a GPU is idle.
    type: float
    default: 1.0
  price_per_gpu_hour:
    description:
      - What one GPU costs for an hour, in any currency. The result then says what idle GPUs cost.
      - An instance of MIG costs as much of it as it has of the GPU's compute slices.
    type: float
  prometheus:
    description: The Prometheus to ask instead of the exporters.
    type: dict
    suboptions:
      url:
        description: Its address, without C(/api/v1). It contains no credentials.
        type: str
        required: true
      range:
        description:
          - How far to look back, as a number with V(m), V(h), V(d) or V(w), from V(5m) to V(52w).
          - The utilisation counts in sixty steps, of at least five minutes each.
        type: str
        default: 24h
      match:
        description: Labels that the series must have, such as the cluster's name where a Prometheus has several.
        type: dict
        default: {}
      token:
        description: Bearer token.
        type: str
      username:
        description: User of basic authentication.
        type: str
      password:
        description: Password of O(prometheus.username).
        type: str
      headers:
        description: More headers of each request, such as C(X-Scope-OrgID).
        type: dict
        default: {}
      secret_headers:
        description: More headers whose values are secret. They are hidden wherever they stand in the result.
        type: dict
        default: {}
      ca_cert:
        description: File with the certificates of the authority that has signed the server's certificate.
        type: path
      validate_certs:
        description: Whether to check the server's certificate.
        type: bool
        default: true
      timeout:
        description: Seconds that one query may take.
        type: int
        default: 60
"""
