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
_ELSEWHERE = (
    *(
        f"{folder}/{pattern}"
        for folder in ("/boot", "/boot/efi", "/efi")
        for pattern in ("EFI/Linux/*.efi", "*/*/initrd")
    ),
)
"""Where kernel-install puts unified kernel images and the images of systemd-boot."""
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
        self.tool = _tool(host)
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

    def assert_possible(self) -> None:
        """Raise if the images cannot be rebuilt. Call this before the first change."""
        self._assert_known_place()
        if self.images:
            self._assert_room()

    def _assert_known_place(self) -> None:
        """Raise if the images are in a place that this module does not know how to rebuild."""
        found = [] if self.images else [path for pattern in _ELSEWHERE for path in self.host.glob(pattern)]
        if found:
            raise GpuOpsError(
                f"This host boots with {found[0]}, which this module cannot rebuild, so the host was not changed. "
                "Blacklist the modules with the kernel argument modprobe.blacklist.",
                reason="Unsupported",
            )

    def _assert_room(self) -> None:
        self.host.assert_writable("/boot", "kernel modules")
        needed = _GROWTH * max(self.host.size(image.path) for image in self.images)
        free = self.host.free_bytes("/boot")
        if free < needed:
            raise GpuOpsError(
                f"/boot has {free / 2**20:.0f} MiB free, and rebuilding an initramfs needs {needed / 2**20:.0f} MiB. "
                "The host was not changed. Remove kernels that are no longer used.",
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


def _tool(host: Host) -> str | None:
    """Return the tool that builds the host's images.

    dracut of Debian and Ubuntu has an update-initramfs of its own, so the package that owns the command decides.
    """
    dracut = host.which("dracut") is not None
    if host.which("update-initramfs") and not (dracut and _belongs_to_dracut(host)):
        return "initramfs-tools"
    return "dracut" if dracut else None


def _belongs_to_dracut(host: Host) -> bool:
    # /sbin may be a link, so the path that dpkg knows is not always the one in PATH.
    found = host.run(["dpkg", "--search", "*/sbin/update-initramfs"], 60.0).stdout
    owners = [line.partition(":")[0] for line in found.splitlines() if "diversion" not in line]
    if owners:
        return owners[0].startswith("dracut")
    # Only initramfs-tools has mkinitramfs.
    return host.which("mkinitramfs") is None


def _not_built(subject: str, output: Output) -> GpuOpsError:
    # The tools report a full disk long before the last line of their output.
    if _NO_SPACE in output.stdout + output.stderr:
        remedy = f"{_NO_SPACE}. Remove kernels that are no longer used, or free space in /var/tmp, and run this again"
        return GpuOpsError(f"{subject} could not be built, and the old one is kept: {remedy}.", reason="NoSpace")
    return GpuOpsError(f"{subject} could not be built, and the old one is kept: {output.error}.", reason="Initramfs")


def images(host: Host) -> list[Image]:
    """Return the images of installed kernels, without images of removed kernels, rescue images and crash images."""
    found = []
    # The patterns of Debian, of the Red Hat family and of SUSE.
    for path in (*host.glob("/boot/initrd.img-*"), *host.glob("/boot/initramfs-*.img"), *host.glob("/boot/initrd-*")):
        kernel = path.split("-", 1)[1]
        kernel = kernel[: -len(".img")] if kernel.endswith(".img") else kernel
        if host.exists(f"/lib/modules/{kernel}"):
            found.append(Image(path, kernel))
    return found
