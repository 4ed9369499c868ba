{{- /*
SPDX-License-Identifier: GPL-3.0-or-later
SPDX-FileCopyrightText: 2026 gpuops.nvidia contributors
*/ -}}
{{- define "node-feature-discovery.fullname" -}}
{{ contains .Chart.Name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "node-feature-discovery.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "node-feature-discovery.labels" -}}
{{ include "node-feature-discovery.selectorLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- /* The pod of one of NFD's programs: the root context, its values, its name. */ -}}
{{- define "node-feature-discovery.pod" -}}
{{- $root := index . 0 }}{{ $values := index . 1 }}{{ $role := index . 2 -}}
metadata:
  labels: {{ include "node-feature-discovery.selectorLabels" $root | nindent 4 }}
    role: {{ $role }}
spec:
  serviceAccountName: {{ $values.serviceAccount.name }}
  {{- with $root.Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- range $key := list "nodeSelector" "tolerations" "affinity" }}
  {{- with get $values $key }}
  {{ $key }}: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  {{- with $root.Values.imagePullSecrets }}
  imagePullSecrets: {{ toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ $role }}
      image: {{ $root.Values.image.repository }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      command: [nfd-{{ $role }}]
{{- end -}}
