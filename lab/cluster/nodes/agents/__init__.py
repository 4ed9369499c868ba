# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 gpuops.nvidia contributors
"""What runs inside the simulated pods: drivers that load, GPUs that appear, labels that are written."""
