#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 gpuops.nvidia contributors
# Take the lab and two bare container hosts to verified GPU capacity, with the same playbook as for real hosts, and say
# how to look around. On a machine that cannot run container hosts, use the lab alone.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
inventory=(--inventory examples/lab/inventory.yml)
hosts=build/demo/gpu_hosts.yml
mkdir -p "$(dirname "$hosts")"

exec 3>&1
if left_out=$($python -m lab hosts up --name demo --flavour debian --flavour rhel --gpus 8 2>&1 >&3); then
  $python -m lab hosts inventory --name demo > "$hosts"
  inventory+=(--inventory "$hosts")
  summary="The stack is deployed and verified. Two of its nodes are hosts that were prepared for it:
nouveau is disabled, the IOMMU and huge pages are enabled, and packages are held."
else
  hosts=
  left_out="The host half of site.yml is left out. $(tr '\n' ' ' <<< "${left_out#lab: }")"
  echo "$left_out"
  summary="The stack is deployed and verified. $left_out"
fi

ANSIBLE_DISPLAY_SKIPPED_HOSTS=false .venv/bin/ansible-playbook "${inventory[@]}" playbooks/site.yml "$@"

kubectl='import json, sys; print(json.load(sys.stdin)["tools"]["kubectl"])'
tools=$(dirname "$($python -m lab cluster status --json | $python -c "$kubectl")")
cat <<EOF

$summary

Look around:

  export KUBECONFIG=$($python -m lab cluster kubeconfig) PATH=$tools:\$PATH
  kubectl get nodes,clusterpolicy
  kubectl --namespace gpu-operator get pods
  kubectl describe node gpu-0000
EOF
[[ -z $hosts ]] || cat <<EOF
  .venv/bin/ansible -i $hosts gpu_hosts -m command -a "cat /proc/cmdline /etc/modprobe.d/gpuops.conf"
EOF
cat <<EOF

  make demo       run it again: nothing changes, and it is quick
  make lab-down   remove the lab and the hosts
EOF
