{{/* Labels of everything. */}}
{{- define "hanno.labels" -}}
app.kubernetes.io/name: hanno
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end -}}

{{/* Labels that choose the pods of a component. */}}
{{- define "hanno.selector" -}}
app.kubernetes.io/name: hanno
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "hanno.secret" -}}
{{ .Values.secret.existing | default (printf "%s-secret" .Release.Name) }}
{{- end -}}

{{- define "hanno.namenode" -}}
{{ .Release.Name }}-namenode.{{ .Release.Namespace }}.svc:9870
{{- end -}}

{{- define "hanno.jobtracker" -}}
{{ .Release.Name }}-jobtracker.{{ .Release.Namespace }}.svc:8088
{{- end -}}

{{/* Names by which a service is called besides the one that it tells others. */}}
{{- define "hanno.hosts" -}}
{{- $name := printf "%s-%s" .root.Release.Name .component -}}
[{{ $name | quote }}, {{ printf "%s.%s" $name .root.Release.Namespace | quote }}, {{ printf "%s.%s.svc" $name .root.Release.Namespace | quote }}, {{ printf "%s.%s.svc.cluster.local" $name .root.Release.Namespace | quote }}]
{{- end -}}

{{/* The racks: names, or one that has none. */}}
{{- define "hanno.racks" -}}
{{- if .Values.topology.racks }}{{ toJson .Values.topology.racks }}{{ else }}[""]{{ end -}}
{{- end -}}

{{/* What every pod begins with. */}}
{{- define "hanno.pod" -}}
# The variables that Kubernetes makes of services look like settings of the daemons.
enableServiceLinks: false
automountServiceAccountToken: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 64020
  runAsGroup: 64020
  fsGroup: 64020
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What every container begins with. */}}
{{- define "hanno.container" -}}
name: {{ .component }}
image: {{ printf "%s:%s" .root.Values.image.repository (.root.Values.image.tag | default .root.Chart.AppVersion) | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
args: [{{ .component }}, --config, /etc/hanno/{{ .component }}.toml]
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
resources: {{- toYaml .values.resources | nindent 2 }}
# A start reads a log or disks, which takes as long as it takes: an hour at most.
startupProbe:
  httpGet: {path: /healthz, port: http, scheme: HTTPS}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 720
livenessProbe:
  httpGet: {path: /healthz, port: http, scheme: HTTPS}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 12
readinessProbe:
  httpGet: {path: /healthz, port: http, scheme: HTTPS}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end -}}

{{/* Variables of every container: who it is, and where commands inside it find the cluster. */}}
{{- define "hanno.variables" -}}
- {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
- {name: HANNO_NAMENODE, value: {{ printf "http://%s" (include "hanno.namenode" .) | quote }}}
- {name: HANNO_JOBTRACKER, value: {{ printf "http://%s" (include "hanno.jobtracker" .) | quote }}}
- {name: HANNO_SECRET_FILE, value: /run/secrets/hanno/secret}
{{- end -}}

{{- define "hanno.mounts" -}}
- {name: config, mountPath: /etc/hanno, readOnly: true}
- {name: secret, mountPath: /run/secrets/hanno, readOnly: true}
{{- end -}}

{{- define "hanno.volumes" -}}
- name: config
  configMap: {name: {{ .Release.Name }}-config}
- name: secret
  secret: {secretName: {{ include "hanno.secret" . }}, defaultMode: 0400}
{{- end -}}

{{/* A claim: name, size, class, labels. */}}
{{- define "hanno.claim" -}}
- metadata:
    name: {{ .name }}
  spec:
    accessModes: [ReadWriteOnce]
    {{- with .storage.storageClass }}
    storageClassName: {{ . }}
    {{- end }}
    resources:
      requests: {storage: {{ .storage.size }}}
{{- end -}}

{{/* Where the pods of a rack run. */}}
{{- define "hanno.placement" -}}
{{- if .rack }}
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
        - matchExpressions:
            - {key: {{ .root.Values.topology.key }}, operator: In, values: [{{ .rack | quote }}]}
{{- end }}
topologySpreadConstraints:
  {{- if not .rack }}
  - maxSkew: 1
    topologyKey: {{ .root.Values.topology.key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "hanno.selector" . | nindent 8 }}
  {{- end }}
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "hanno.selector" . | nindent 8 }}
{{- end -}}
