"""Seventeen charts as publishers make them: 10 KB to 2 MB, 4.4 MB together, the same bytes everywhere."""

import gzip
import io
import random
import tarfile

#: Names and versions as charts really have them, and the archive's kilobytes, roughly.
SIZES = {
    ("cert-manager", "v1.20.2"): 90, ("gpu-operator", "v26.3.3"): 60, ("network-operator", "26.4.0"): 130,
    ("kube-prometheus-stack", "84.4.0"): 620, ("prometheus-adapter", "5.3.0"): 12,
    ("node-feature-discovery", "0.19.0"): 20, ("nvsentinel", "v1.9.0"): 240,
    ("aws-ebs-csi-driver", "2.59.0"): 28, ("aws-efa-k8s-device-plugin", "v0.5.29"): 10,
    ("kai-scheduler", "v0.14.1"): 80, ("dra-driver-nvidia-gpu", "0.4.1"): 16,
    ("kubeflow-trainer", "2.2.0"): 330,
    ("nodewright", "v0.17.1"): 30,
    ("dynamo-platform", "1.2.1+build.7"): 500, ("grove-charts", "v0.1.0-alpha.8"): 110,
    ("k8s-ephemeral-storage-metrics", "1.19.2"): 14, ("ack-crds", "01.2"): 1750,
}  # fmt: skip
#: The chart with this many custom resource definitions.
DEFINITIONS = 446


def generated(name: str, version: str) -> bytes:
    """The archive of one of the charts, as ``helm package`` writes it: compressed, with times and a user."""
    source = random.Random(f"{name} {version}")
    budget = SIZES[name, version] * 1024
    files = {
        "Chart.yaml": f"apiVersion: v2\nname: {name}\nversion: {version}\ndescription: für Tests\n".encode(),
        "values.yaml": b"replicas: 1\n",
        "templates/config.yaml": b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\n",
        "charts/sub/Chart.yaml": b"apiVersion: v2\nname: sub\nversion: 9.9.9\n",
    }
    folder = "crds" if name == "ack-crds" else "files"
    count = DEFINITIONS if name == "ack-crds" else 4
    for number in range(count):
        # Definitions are text: half of it is gone once compressed.
        noise = source.randbytes(budget // count)
        files[f"{folder}/part-{number:03}.yaml"] = noise.hex().encode() if folder == "crds" else noise
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size, entry.mtime, entry.uname = len(content), 1_760_000_000, "builder"
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), 6, mtime=1_760_000_000)
