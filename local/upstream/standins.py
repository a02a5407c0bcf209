"""Small charts that stand for the publishers' own where no archive was given.

They are real charts: helm renders them with any values, and a change of values changes what they render.
Their bytes depend on name and version only, so digests hold between runs and machines.
"""

import re

from aicr_pipeline.decide.chart_package import pack

_HELPERS = """\
{{- define "standin.name" -}}
{{- printf "%s" .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- define "standin.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name | trunc 63 | quote }}
app.kubernetes.io/instance: {{ .Release.Name | trunc 63 | quote }}
app.kubernetes.io/version: {{ .Chart.Version | replace "+" "_" | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | quote }}
{{- end -}}
"""

_SERVICE_ACCOUNT = """\
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "standin.name" . }}
  namespace: {{ .Release.Namespace }}
  labels: {{- include "standin.labels" . | nindent 4 }}
"""

_CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "standin.name" . }}-values
  namespace: {{ .Release.Namespace }}
  labels: {{- include "standin.labels" . | nindent 4 }}
data:
  chart: {{ printf "%s %s" .Chart.Name .Chart.Version | quote }}
  values.json: {{ .Values | toJson | quote }}
"""

_DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "standin.name" . }}
  namespace: {{ .Release.Namespace }}
  labels: {{- include "standin.labels" . | nindent 4 }}
spec:
  replicas: 1
  selector:
    matchLabels:
      app.kubernetes.io/instance: {{ .Release.Name | trunc 63 | quote }}
  template:
    metadata:
      annotations:
        checksum/values: {{ .Values | toJson | sha256sum }}
      labels: {{- include "standin.labels" . | nindent 8 }}
    spec:
      serviceAccountName: {{ include "standin.name" . }}
      containers:
        - name: main
          image: {{ printf "standin.invalid/%s:%s" .Chart.Name (.Chart.Version | replace "+" "_") | quote }}
"""

_VALUES = """\
# A stand-in: it takes any values and shows them in its ConfigMap.
{}
"""


def standin_chart(name: str, version: str) -> bytes:
    """A packed chart of that name and version; the same bytes every time."""
    app_version = re.sub(r"^v", "", version)
    chart = (
        f"apiVersion: v2\nname: {name}\nversion: {version}\n"
        f'appVersion: "{app_version}"\ntype: application\n'
        f"description: Stands for {name} on one machine\n"
    )
    files = {
        "Chart.yaml": chart,
        "values.yaml": _VALUES,
        "templates/_helpers.tpl": _HELPERS,
        "templates/serviceaccount.yaml": _SERVICE_ACCOUNT,
        "templates/configmap.yaml": _CONFIG_MAP,
        "templates/deployment.yaml": _DEPLOYMENT,
    }
    return pack(name, {path: text.encode() for path, text in files.items()})
