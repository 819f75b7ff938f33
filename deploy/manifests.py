#!/usr/bin/env python3
"""Judges what is for Kubernetes and Compose: `deploy/manifests.py [--write]`.

All YAML is parsed. The chart is linted, rendered with several values, and every object checked against the schemas of several versions of
Kubernetes. `kubernetes/hanno.yaml` is the chart with its defaults, rendered: `--write` renews it, otherwise it must be that.

What is not there is named on standard error (`!!! NOT RUN`), and the exit code is then 3; it is 1 if something is wrong.
Needs pyyaml; helm-python-sdk renders, kubernetes-validate has the schemas.
"""

import pathlib
import re
import sys

import yaml

HERE = pathlib.Path(__file__).resolve().parent
CHART = HERE / "helm" / "hanno"
MANIFEST = HERE / "kubernetes" / "hanno.yaml"
# The oldest that the chart is for, one between, the newest that the schemas know.
KUBERNETES = ["1.25.0", "1.30.0", None]
NAMESPACE = "hanno"

HEAD = """\
# A cluster with the chart's defaults, for those who use no Helm. Made from deploy/helm/hanno by `deploy/manifests.py --write`.
#
# First a namespace and its secret, which whoever has it may act as anybody with:
#   kubectl create namespace hanno
#   kubectl -n hanno create secret generic hanno-secret --from-literal=secret="$(openssl rand -hex 32)"
"""

# Values, and what has to follow from them.
VALUES = {
    "defaults": {"secret": {"existing": "hanno-secret"}},
    "a secret of its own": {},
    "everything": {
        "namenode": {"mirror": {"enabled": True, "storageClass": "fast"}, "config": "replication = 2\naudit = false"},
        "datanode": {"disks": {"count": 3, "storageClass": "big"}, "nodeSelector": {"disks": "many"}, "replicas": 2},
        "worker": {"config": "task_processes_max = 64", "tolerations": [{"key": "jobs", "operator": "Exists"}]},
        "gateway": {"enabled": True},
        "topology": {"racks": ["eu-1a", "eu-1b"]},
        "imagePullSecrets": [{"name": "registry"}],
    },
    "no policy": {"networkPolicy": {"enabled": False}},
}

problems = []
not_run = []


def skip(what):
    not_run.append(what)
    print(f"\n!!! NOT RUN: {what}\n", file=sys.stderr)


def expect(condition, text):
    if not condition:
        problems.append(text)


def parse(path, text):
    try:
        return [document for document in yaml.safe_load_all(text) if document is not None]
    except yaml.YAMLError as error:
        problems.append(f"{path}: {error}")
        return []


def rendered(values):
    """The chart's objects as text, one file after the other."""
    from helm_python.chart import Chart

    with Chart.load(CHART) as chart:
        files = chart.render(values, name="hanno", namespace=NAMESPACE)
    texts = [text.strip() for path, text in sorted(files.items()) if path.endswith(".yaml")]
    documents = [part.strip() for text in texts for part in re.split(r"^---$", text, flags=re.M)]
    text = "\n---\n".join(document for document in documents if document) + "\n"
    return re.sub(r"^[ ]+\n", "", text, flags=re.M)


def objects(name, values):
    found = parse(f"chart with {name}", rendered(values))
    keys = [(item["kind"], item["metadata"]["name"]) for item in found]
    expect(len(keys) == len(set(keys)), f"chart with {name}: an object twice: {keys}")
    return {key: item for key, item in zip(keys, found)}


def check_schemas(name, found):
    try:
        import kubernetes_validate
    except ImportError:
        return False
    for version in KUBERNETES:
        version = version or kubernetes_validate.latest_version()
        for key, item in found.items():
            try:
                kubernetes_validate.validate(item, version, strict=True)
            except Exception as error:  # noqa: BLE001: each kind of error is a problem
                problems.append(f"chart with {name}, Kubernetes {version}, {key}: {error}")
    return True


def check_daemons(name, found):
    """What the daemons need of every pod, whatever the values."""
    import tomllib

    config = {file: tomllib.loads(text) for file, text in found["ConfigMap", "hanno-config"]["data"].items()}
    for (kind, key), item in found.items():
        if kind not in ("StatefulSet", "Deployment"):
            continue
        pod = item["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        place = f"chart with {name}, {key}"
        expect(pod["enableServiceLinks"] is False, f"{place}: variables of services are taken for settings")
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            expect(container[probe]["httpGet"]["path"] == "/healthz", f"{place}: {probe}")
        file = pathlib.PurePath(container["args"][2]).name
        expect(file in config, f"{place}: no {file}")
        ports = {str(port["containerPort"]) for port in container["ports"]}
        binds = {config[file][bind].rsplit(":")[-1] for bind in ("bind", "http_bind") if bind in config[file]}
        expect(ports == binds, f"{place}: ports {ports}, but it listens on {binds}")
        mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
        kept = [config[file].get(entry) for entry in ("data", "data_dir")]
        kept += config[file].get("data_directories", []) + config[file].get("log_dirs", [])
        for path in filter(None, kept):
            expect(any(path.startswith(f"{mount}/") for mount in mounts), f"{place}: {path} is on no volume")
        expect(config[file]["secret_file"].startswith("/run/secrets/hanno/"), f"{place}: the secret")
    return config


def check_values(found):
    """What the values of `everything` ask for."""
    sets = [key for kind, key in found if kind == "StatefulSet"]
    for rack in ("eu-1a", "eu-1b"):
        key = f"hanno-datanode-{rack}"
        expect(key in sets and f"hanno-worker-{rack}" in sets, f"no pods of rack {rack}")
        spec = found["StatefulSet", key]["spec"]
        claims = [claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]]
        expect(claims == ["disk-0", "disk-1", "disk-2"], f"{key}: a claim for each disk, not {claims}")
        terms = spec["template"]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        (match,) = terms["nodeSelectorTerms"][0]["matchExpressions"]
        expect(match == {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [rack]}, f"{key}: {match}")
        variables = {item["name"]: item.get("value") for item in spec["template"]["spec"]["containers"][0]["env"]}
        expect(variables["HANNO_DATANODE_RACK"] == f"/{rack}", f"{key}: {variables}")
    claims = found["StatefulSet", "hanno-namenode"]["spec"]["volumeClaimTemplates"]
    expect([claim["metadata"]["name"] for claim in claims] == ["data", "mirror"], f"namenode: {claims}")
    expect(claims[1]["spec"]["storageClassName"] == "fast", f"namenode: {claims}")
    expect(("PodDisruptionBudget", "hanno-datanode") in found, "no budget of DataNodes")
    expect(("Deployment", "hanno-gateway") in found, "no gateway")


def main():
    write = sys.argv[1:] == ["--write"]
    if sys.argv[1:] and not write:
        sys.exit(f"deploy/manifests.py: unknown arguments {sys.argv[1:]}")
    for path in [CHART / "Chart.yaml", CHART / "values.yaml", HERE / "container" / "compose.yaml"]:
        expect(len(parse(path, path.read_text())) == 1, f"{path} is one document")
    try:
        from helm_python.chart import lint
    except ImportError:
        skip("rendering and linting the Helm chart, and whether kubernetes/hanno.yaml is it: helm-python-sdk is not installed")
        parse(MANIFEST, MANIFEST.read_text())
    else:
        for name, values in VALUES.items():
            report = lint(CHART, values, strict=True, namespace=NAMESPACE)
            loud = [message for message in report["messages"] if message["severity"] >= 2]
            expect(not loud and not report["errors"], f"chart with {name}: {report}")
            found = objects(name, values)
            config = check_daemons(name, found)
            if name == "everything":
                check_values(found)
                expect(config["namenode.toml"]["replication"] == 2, "keys of values are in namenode.toml")
                expect(config["worker.toml"]["task_processes_max"] == 64, "keys of values are in worker.toml")
            expect((("NetworkPolicy", "hanno") in found) == (name != "no policy"), f"{name}: network policy")
            expect((("Secret", "hanno-secret") in found) == (name != "defaults"), f"{name}: secret")
            if not check_schemas(name, found):
                skip(f"the schemas of Kubernetes, for the chart with {name}: kubernetes-validate is not installed")
        text = HEAD + rendered(VALUES["defaults"])
        if write:
            MANIFEST.write_text(text)
        else:
            same = MANIFEST.is_file() and MANIFEST.read_text() == text
            expect(same, f"{MANIFEST} is not the chart with its defaults: run deploy/manifests.py --write")
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{len(problems)} problems, {len(not_run)} checks not run")
    sys.exit(1 if problems else 3 if not_run else 0)


main()
