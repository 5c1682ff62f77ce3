{{- define "weir.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "weir.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "weir.labels" -}}
{{ include "weir.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "weir.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* weir.config is the operator's part of weir.yaml with what the chart sets. */ -}}
{{- define "weir.config" -}}
{{- $c := deepCopy .Values.config }}
{{- $_ := mustMergeOverwrite $c (dict "admin" ":9090" "data_dir" "/var/lib/weir" "admin_token_file" "/etc/weir-secret/admin_token") }}
{{- if or $c.upstream $c.routes }}{{ $_ := set $c "listen" ":8080" }}{{ end }}
{{- with .Values.secret.keys.adminReadToken }}{{ $_ := set $c "admin_read_token_file" "/etc/weir-secret/admin_read_token" }}{{ end }}
{{- $replicas := ternary .Values.autoscaling.minReplicas .Values.replicas .Values.autoscaling.enabled }}
{{- $store := dict "replicas" (int $replicas) }}
{{- with .Values.secret.keys.redisPassword }}{{ $_ := set $store "redis" (dict "password_file" "/etc/weir-secret/redis_password") }}{{ end }}
{{- $_ := mustMergeOverwrite $c (dict "store" $store) }}
{{- toYaml $c }}
{{- end }}
