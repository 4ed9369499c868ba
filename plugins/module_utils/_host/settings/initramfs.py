# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The host's initramfs images, and the tool that builds them: initramfs-tools or dracut."""

from __future__ import annotations

import dataclasses

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host, Output
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.initramfs_image import file_in_image
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_BUILD_TIMEOUT_S = 3600.0
_TOOLS = {"initramfs-tools": "update-initramfs", "dracut": "dracut"}
_NO_SPACE = "No space left on device"
_GROWTH = 1.1
"""A new image may be a little larger than the old one."""


@dataclasses.dataclass(frozen=True)
class Image:
    """One initramfs image and the version of its kernel."""

    path: str
    kernel: str


class Initramfs:
    """The images of the host. ``tool`` is None if the host has no images and no tool."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.images = images(host)
        self.tool = next((tool for tool, command in _TOOLS.items() if host.which(command)), None)
        if self.images and not self.tool:
            raise GpuOpsError(
                "The host has initramfs images, but neither update-initramfs nor dracut to rebuild them. "
                "Install initramfs-tools or dracut.",
                reason="Unsupported",
            )

    def summary(self, rebuilt: bool) -> Json:
        """Return the part of a module's result that describes the images."""
        return {"tool": self.tool, "rebuilt": rebuilt, "images": [image.path for image in self.images]}

    def older_than(self, path: str) -> bool:
        """Return whether an image is older than a file."""
        return any(self.host.changed_at(image.path) < self.host.changed_at(path) for image in self.images)

    def assert_room(self) -> None:
        """Raise if there is no space for a new image. Call this before the first change."""
        if not self.images:
            return
        self.host.assert_writable("/boot", "kernel modules")
        needed = _GROWTH * max(self.host.size(image.path) for image in self.images)
        free = self.host.free_bytes("/boot")
        if free < needed:
            raise GpuOpsError(
                f"/boot has {free / 2**20:.0f} MiB free, and rebuilding an initramfs needs {needed / 2**20:.0f} MiB. "
                "Nothing was changed. Remove kernels that are no longer used.",
                reason="NoSpace",
            )

    def rebuild(self, path: str, text: str | None) -> None:
        """Rebuild every image, and verify that ``path`` has this text in it, or is not in it if ``text`` is None.

        An image that cannot be built does not replace the old one.
        """
        if self.tool == "dracut":
            for image in self.images:
                self._dracut(image, path, text)
            return
        output = self.host.run(["update-initramfs", "-u", "-k", "all"], _BUILD_TIMEOUT_S)
        if not output.ok:
            raise _not_built("The initramfs", output)
        for image in self.images:
            self._verify(image, image.path, path, text)

    def _dracut(self, image: Image, path: str, text: str | None) -> None:
        # dracut removes an image that it cannot write. Therefore the image has another name until it is verified.
        draft = f"{image.path}.gpuops"
        try:
            output = self.host.run(["dracut", "--force", draft, image.kernel], _BUILD_TIMEOUT_S)
            if not output.ok:
                raise _not_built(f"The initramfs for {image.kernel}", output)
            self._verify(image, draft, path, text)
            self.host.move(draft, image.path)
        finally:
            self.host.remove(draft)

    def _verify(self, image: Image, built: str, path: str, text: str | None) -> None:
        found = file_in_image(self.host, built, path)
        if found == text:
            return
        if text is None:
            problem = f"still contains {path}"
        elif found is None:
            problem = f"does not contain {path}"
        else:
            problem = f"contains a different version of {path} from the host's"
        raise GpuOpsError(f"The new initramfs for {image.kernel} {problem}.", reason="Initramfs")


def _not_built(subject: str, output: Output) -> GpuOpsError:
    # The tools report a full disk long before the last line of their output.
    if _NO_SPACE in output.stdout + output.stderr:
        remedy = f"{_NO_SPACE}. Remove kernels that are no longer used, or free space in /var/tmp, and run this again"
        return GpuOpsError(f"{subject} could not be built, and the old one is kept: {remedy}.", reason="NoSpace")
    return GpuOpsError(f"{subject} could not be built, and the old one is kept: {output.error}.", reason="Initramfs")


def images(host: Host) -> list[Image]:
    """Return the images of installed kernels, without images of removed kernels, rescue images and crash images."""
    found = []
    for path in (*host.glob("/boot/initrd.img-*"), *host.glob("/boot/initramfs-*.img")):
        kernel = path.split("-", 1)[1]
        kernel = kernel[: -len(".img")] if kernel.endswith(".img") else kernel
        if host.exists(f"/lib/modules/{kernel}"):
            found.append(Image(path, kernel))
    return found
