# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The option of the modules that ask registries for images."""

    DOCUMENTATION = r"""
options:
  registry:
    description: How registries are asked whether images exist.
    type: dict
    default: {}
    suboptions:
      mode:
        description:
          - V(strict) asks, and fails for an image that does not exist or could not be asked for. V(lenient) asks, and
            fails for an image that does not exist. V(offline) asks no registry.
        type: str
        choices: [strict, lenient, offline]
        default: strict
      mirrors:
        description:
          - Mirrors that the nodes pull from, by registry, or by registry and folder. The module asks these mirrors
            instead.
          - "For example V({nvcr.io/nvidia: registry.example.com/mirror})."
        type: dict
        default: {}
      insecure:
        description: Registries without a trusted certificate, or without encryption.
        type: list
        elements: str
        default: []
      username:
        description:
          - User of the registries that ask for one. Without it, the module reads the pull secrets in the cluster.
        type: str
      password:
        description: Password of that user.
        type: str
      ca_path:
        description: File with the certificates of the authorities that have issued the registries' certificates.
        type: path
      timeout:
        description: Seconds that a registry may take to answer.
        type: int
        default: 10
"""
