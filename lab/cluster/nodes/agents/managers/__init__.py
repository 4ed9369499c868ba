# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 gpuops.nvidia contributors
"""The agents that change a node when somebody edits its labels: NVIDIA's mig-manager and config-manager."""
