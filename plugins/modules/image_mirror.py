#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: image_mirror
short_description: Keep container images in a mirror, or carry them there in a folder, with their digests
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Copies images with C(skopeo), all architectures of each, and compares digests. An image that the target has with the
    digest of its source is left alone, so a further run copies only what is missing or has changed.
  - One image that fails does not end the others. The module then fails with the cause of each.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would change.
    support: full
    details: Check mode asks both sides for the digests, and copies nothing.
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: none
  idempotent:
    description: A second run with the same options reports no change.
    support: full
extends_documentation_fragment:
  - gpuops.nvidia.progress
options:
  images:
    description: Names of the images at their publishers.
    type: list
    elements: str
    required: true
  state:
    description:
      - V(mirrored) copies from the publishers to O(mirror), V(exported) from the publishers to O(folder), and
        V(imported) from O(folder) to O(mirror).
    type: str
    choices: [mirrored, exported, imported]
    default: mirrored
  mirror:
    description:
      - Registry and folder of the mirror, such as V(registry.example.com/mirror). It gets each image under its own
        path, C(nvcr.io/nvidia/driver) as C(registry.example.com/mirror/nvidia/driver).
    type: str
  folder:
    description:
      - Folder for the images, each in a subfolder of its own, in skopeo's form C(dir:), which keeps digests.
      - An image appears under its name when it is complete.
    type: path
  logins:
    description:
      - Users of registries. Without this option, skopeo uses what C(skopeo login) or C(podman login) has left for its
        user. With it, it uses these alone.
    type: list
    elements: dict
    default: []
    suboptions:
      registry:
        description: The registry, such as V(nvcr.io), or a folder of it.
        type: str
        required: true
      username:
        description: Name of the user, for example V($oauthtoken) for NGC.
        type: str
        required: true
      password:
        description: Password or API key. It is kept off the command line.
        type: str
        required: true
  ca_path:
    description: File with the certificates of the authorities that have issued the registries' certificates.
    type: path
  insecure:
    description: Registries without a trusted certificate, or without encryption.
    type: list
    elements: str
    default: []
  binary_path:
    description: Path of the C(skopeo) executable. The default is the one on E(PATH).
    type: path
requirements:
  - skopeo >= 1.9
seealso:
  - module: gpuops.nvidia.operator_images_info
"""

EXAMPLES = r"""
- name: Copy images to a mirror
  gpuops.nvidia.image_mirror:
    images: "{{ listed.images | map(attribute='image') }}"
    mirror: registry.example.com/mirror
    logins:
      - registry: registry.example.com
        username: robot
        password: "{{ vault_mirror_password }}"

- name: Save images for a network without the internet
  gpuops.nvidia.image_mirror:
    images: [nvcr.io/nvidia/gpu-operator:v26.7.0]
    state: exported
    folder: /media/transfer/images

- name: Copy them to the mirror inside
  gpuops.nvidia.image_mirror:
    images: [nvcr.io/nvidia/gpu-operator:v26.7.0]
    state: imported
    folder: /media/transfer/images
    mirror: registry.example.com/mirror
"""

RETURN = r"""
images:
  description: What was done with each image, or would be (check mode). Also returned if some have failed.
  returned: success
  type: list
  elements: dict
  contains:
    image:
      description: Name of the image at its publisher.
      type: str
      sample: nvcr.io/nvidia/gpu-operator:v26.7.0
    target:
      description: Its name in the mirror, or its folder.
      type: str
      sample: registry.example.com/mirror/nvidia/gpu-operator:v26.7.0
    digest:
      description: Digest of the source, or an empty string if it is not known.
      type: str
      sample: sha256:3f1d8c2a5b1a54d1d1e7bd6bd2ddfc40b2b1a5a4bb1a1f6f9f0f3a0b54c7d5e1
    result:
      description: V(present), V(copied) or V(failed).
      type: str
      sample: copied
    message:
      description: Why it has failed, or an empty string.
      type: str
      sample: ""
digests:
  description: The digests of the sources, by the names of the images.
  returned: success
  type: dict
  sample:
    nvcr.io/nvidia/gpu-operator:v26.7.0: sha256:3f1d8c2a5b1a54d1d1e7bd6bd2ddfc40b2b1a5a4bb1a1f6f9f0f3a0b54c7d5e1
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.images.image_copies import keep
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.images.skopeo import Skopeo
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.waiting import PROGRESS
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import GOES_ON, run

_LOGIN = ArgumentSpec(
    {
        "registry": {"type": "str", "required": True},
        "username": {"type": "str", "required": True},
        "password": {"type": "str", "required": True, "no_log": True},
    }
)
SPEC = ArgumentSpec(
    {
        "images": {"type": "list", "elements": "str", "required": True},
        "state": {"type": "str", "choices": ["mirrored", "exported", "imported"], "default": "mirrored"},
        "mirror": {"type": "str"},
        "folder": {"type": "path"},
        "logins": _LOGIN.as_list(default=[]),
        "ca_path": {"type": "path"},
        "insecure": {"type": "list", "elements": "str", "default": []},
        "binary_path": {"type": "path"},
    },
    required_if=[
        ("state", "mirrored", ["mirror"]),
        ("state", "exported", ["folder"]),
        ("state", "imported", ["folder", "mirror"]),
    ],
).including(PROGRESS)


def main() -> t.NoReturn:
    run(SPEC, lambda module: keep(Skopeo(module, module.params), module.params, module.check_mode), interrupted=GOES_ON)


if __name__ == "__main__":
    main()
