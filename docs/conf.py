# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sphinx settings; scripts/docs.sh puts these pages and the generated ones together."""

project = "gpuops.nvidia"
author = "gpuops.nvidia contributors"
copyright = "2026 " + author  # noqa: A001  # the name that Sphinx reads
extensions = ["myst_parser", "sphinx_antsibull_ext"]
html_theme = "furo"
# Links to documentation of other collections and of ansible-core stand on other sites.
suppress_warnings = ["ref.ref"]
