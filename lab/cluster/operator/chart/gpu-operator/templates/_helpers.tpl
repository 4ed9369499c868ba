{{- /*
SPDX-License-Identifier: GPL-3.0-or-later
SPDX-FileCopyrightText: 2026 gpuops.nvidia contributors
*/ -}}
{{- define "gpu-operator.name" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "gpu-operator.chart" -}}
{{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "gpu-operator.labels" -}}
app.kubernetes.io/component: gpu-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/name: {{ include "gpu-operator.name" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ include "gpu-operator.chart" . }}
{{- with .Values.operator.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "gpu-operator.fullimage" -}}
{{ .Values.operator.repository }}/{{ .Values.operator.image }}:{{ .Values.operator.version | default .Chart.AppVersion }}
{{- end -}}

{{- define "gpu-operator.gpucluster-name" -}}
gpu-cluster
{{- end -}}

{{- /* A component's values that are set: the values that all components have, and some that only this component has. */ -}}
{{- define "gpu-operator.component" -}}
{{- $values := first . -}}
{{- $set := dict -}}
{{- range $key := concat (list "repository" "image" "version" "imagePullPolicy" "imagePullSecrets" "resources" "env" "args" "hostNetwork") (rest .) -}}
{{- with get $values $key }}{{ $_ := set $set $key (eq $key "version" | ternary (toString .) .) }}{{ end -}}
{{- end -}}
{{- if hasKey $values "enabled" }}{{ $_ := set $set "enabled" $values.enabled }}{{ end -}}
{{ toYaml $set }}
{{- end -}}

{{- /* The pod of a hook, which runs one command of the operator's image. */ -}}
{{- define "gpu-operator.hook-pod" -}}
{{- with .Values.operator.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.operator.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
nodeSelector: {{ toYaml .Values.operator.nodeSelector | nindent 2 }}
restartPolicy: OnFailure
{{- end -}}

{{- define "gpu-operator.crd-files" -}}
- --filepath=/opt/gpu-operator/nvidia.com_clusterpolicies.yaml
- --filepath=/opt/gpu-operator/nvidia.com_nvidiadrivers.yaml
- --filepath=/opt/gpu-operator/nvidia.com_gpuclusters.yaml
{{- if .Values.nfd.enabled }}
- --filepath=/opt/gpu-operator/nfd-api-crds.yaml
{{- end }}
{{- end -}}

{{- /* The values name podDeletion gpuPodDeletion. */ -}}
{{- define "gpu-operator.upgrade-policy" -}}
autoUpgrade: {{ .autoUpgrade | default false }}
maxParallelUpgrades: {{ .maxParallelUpgrades | default 0 }}
maxUnavailable: {{ .maxUnavailable | default "25%" }}
waitForCompletion:
  timeoutSeconds: {{ .waitForCompletion.timeoutSeconds }}
  {{- with .waitForCompletion.podSelector }}
  podSelector: {{ . }}
  {{- end }}
podDeletion:
  force: {{ .gpuPodDeletion.force | default false }}
  timeoutSeconds: {{ .gpuPodDeletion.timeoutSeconds }}
  deleteEmptyDir: {{ .gpuPodDeletion.deleteEmptyDir | default false }}
drain:
  enable: {{ .drain.enable | default false }}
  force: {{ .drain.force | default false }}
  {{- with .drain.podSelector }}
  podSelector: {{ . }}
  {{- end }}
  timeoutSeconds: {{ .drain.timeoutSeconds }}
  deleteEmptyDir: {{ .drain.deleteEmptyDir | default false }}
{{- end -}}

{{- define "gpu-operator.upgrade-hook" -}}
annotations:
  helm.sh/hook: pre-upgrade
  helm.sh/hook-delete-policy: hook-succeeded,before-hook-creation
  helm.sh/hook-weight: {{ . | quote }}
{{- end -}}
