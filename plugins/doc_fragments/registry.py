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
          - With V(strict), an image that could not be asked for is a failure, as one that does not exist is. With
            V(lenient), only the latter is. With V(offline), nobody is asked.
        type: str
        choices: [strict, lenient, offline]
        default: strict
      mirrors:
        description:
          - Mirrors that the nodes pull from, by registry, or by registry and folder. They are asked instead.
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
          - User of the registries that ask for one. It takes the place of the pull secrets in the cluster, which are
            read otherwise.
        type: str
      password:
        description: Password of that user.
        type: str
      ca_path:
        description: File with the certificates of the authorities that registries' certificates come from.
        type: path
      timeout:
        description: For how many seconds a registry may leave a question unanswered.
        type: int
        default: 10
"""
