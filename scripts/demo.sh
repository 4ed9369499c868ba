#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 gpuops.nvidia contributors
# Deploy the GPU stack on the lab with the same playbook as on a real cluster, and say how to look around.
set -euo pipefail
cd "$(dirname "$0")/.."
ANSIBLE_DISPLAY_SKIPPED_HOSTS=false .venv/bin/ansible-playbook -i examples/lab/inventory.yml playbooks/site.yml "$@"
tools=$(dirname "$(.venv/bin/python -m tests.lab status --json | .venv/bin/python -c 'import json, sys; print(json.load(sys.stdin)["tools"]["kubectl"])')")
cat <<EOF

The stack is deployed and verified. Look around:

  export KUBECONFIG=$(.venv/bin/python -m tests.lab kubeconfig) PATH=$tools:\$PATH
  kubectl get nodes,clusterpolicy
  kubectl --namespace gpu-operator get pods
  kubectl describe node gpu-0000

  make demo       again: nothing changes, and it is quick
  make lab-down   takes it all away
EOF
