"""The Kubernetes manifests: compared with the compose file, and rendered if kubectl is available."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from jsonschema import Draft202012Validator

from chargehand.environment import PREFIX, SETTINGS
from tests.containers.engine import service
from worker import shutdown
from worker.settings import Settings

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "deploy" / "kubernetes"
OVERLAYS = sorted(folder.name for folder in (FOLDER / "overlays").iterdir())

SCHEMAS = [json.loads(file.read_text("utf-8")) for file in (Path(__file__).parent / "manifest_schemas").iterdir()]
KINDS: dict[str, str] = {kind: name for each in SCHEMAS for kind, name in each["kinds"].items()}
DEFINITIONS = {name: schema for each in SCHEMAS for name, schema in each["$defs"].items()}

Manifest = dict[str, Any]


@cache
def read(file: Path) -> Manifest:
    return cast("Manifest", yaml.safe_load(file.read_text("utf-8")))


def pod_of(name: str) -> Manifest:
    return read(FOLDER / name / "deployment.yaml")["spec"]["template"]["spec"]


def only(pod: Manifest) -> Manifest:
    [container] = pod["containers"]
    return container


def environment(container: Manifest) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container["env"]}


def references(container: Manifest, kind: str) -> set[str]:
    return {each[kind]["name"] for each in container["envFrom"] if kind in each}


def test_the_kubernetes_worker_has_the_limits_of_the_compose_worker() -> None:
    pod, composed = pod_of("worker"), service("worker")
    container, limits = only(pod), composed["deploy"]["resources"]["limits"]
    dockerfile = (ROOT / "Dockerfile").read_text("utf-8").splitlines()

    assert f"USER {pod['securityContext']['runAsUser']}" in dockerfile
    assert container["securityContext"]["readOnlyRootFilesystem"] is composed["read_only"] is True
    assert container["securityContext"]["capabilities"]["drop"] == composed["cap_drop"]
    assert container["resources"]["limits"] == {"cpu": limits["cpus"], "memory": limits["memory"].replace("g", "Gi")}
    volumes = {volume["name"]: volume["emptyDir"] for volume in pod["volumes"]}
    assert f"size={volumes['tmp']['sizeLimit'].removesuffix('Mi')}m" in composed["tmpfs"][0]
    assert f"{pod['terminationGracePeriodSeconds'] // 60}m" == composed["stop_grace_period"]
    assert pod["terminationGracePeriodSeconds"] > shutdown.GRACEFUL_SHUTDOWN_TIMEOUT.total_seconds()
    assert pod["shareProcessNamespace"] is composed["init"] is True
    probes = [container[f"{name}Probe"]["exec"]["command"] for name in ("startup", "readiness", "liveness")]
    assert probes == [["sh", "-c", composed["healthcheck"]["test"][1]]] * 3
    for name in ("CHARGEHAND_STATE_DIR", "CHARGEHAND_HEALTH_FILE"):
        assert environment(container)[name] == composed["environment"][name]


@pytest.mark.parametrize("name", ["worker", "console"])
def test_pods_are_unprivileged(name: str) -> None:
    pod = pod_of(name)
    security, own = pod["securityContext"], only(pod)["securityContext"]

    assert (security["runAsNonRoot"], security["seccompProfile"]) == (True, {"type": "RuntimeDefault"})
    assert (own["allowPrivilegeEscalation"], own["readOnlyRootFilesystem"]) == (False, True)
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False)
    assert only(pod)["resources"]["limits"].keys() == {"cpu", "memory"}


def test_only_worker_pods_have_model_provider_keys() -> None:
    worker, console = only(pod_of("worker")), only(pod_of("console"))

    for kind in ("configMapRef", "secretRef"):
        assert references(worker, kind) == {"chargehand-shared", "chargehand-worker"}
        assert references(console, kind) == {"chargehand-shared", "chargehand-console"}


def test_manifests_use_only_known_setting_names() -> None:
    """A misspelled setting would have no effect. No manifest contains a Secret."""
    written = "\n".join(file.read_text("utf-8") for file in FOLDER.rglob("*.yaml"))

    assert {name for name in re.findall(rf"\b{PREFIX}\w+", written) if not name.endswith("_SERVICE_HOST")} <= SETTINGS
    assert "kind: Secret\n" not in written


def test_manifest_ports_match_what_containers_listen_on() -> None:
    worker, console = only(pod_of("worker")), only(pod_of("console"))
    listens = {
        "worker": environment(worker)["CHARGEHAND_METRICS_ADDRESS"].rpartition(":")[2],
        "console": next(each.partition("=")[2] for each in console["args"] if each.startswith("--port=")),
    }

    for name, container in (("worker", worker), ("console", console)):
        [ingress] = read(FOLDER / name / "network-policy.yaml")["spec"]["ingress"]
        assert [str(port["containerPort"]) for port in container["ports"]] == [listens[name]]
        assert [str(port["port"]) for port in ingress["ports"]] == [listens[name]]
    assert read(FOLDER / "console" / "service.yaml")["spec"]["ports"][0]["targetPort"] == console["ports"][0]["name"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_overlays_render_manifests_whose_references_resolve(overlay: str) -> None:
    manifests = render(overlay)
    there = {(each["kind"], each["metadata"]["name"]) for each in manifests}
    workloads = [each for each in manifests if each["kind"] in {"Deployment", "WorkerDeployment"}]

    assert {each["metadata"].get("namespace") for each in manifests} == {"chargehand"}
    assert workloads
    for each in workloads:
        pod = each["spec"]["template"]["spec"]
        assert {("ConfigMap", name) for name in references(only(pod), "configMapRef")} <= there
        assert ("ServiceAccount", pod["serviceAccountName"]) in there
        assert only(pod)["image"].startswith("registry.example.com/")
    labels = [each["spec"]["template"]["metadata"]["labels"] for each in workloads]
    for selector in selectors(manifests):
        assert any(selector.items() <= each.items() for each in labels), selector
    for each in manifests:
        target = each.get("spec", {}).get("scaleTargetRef")
        assert target is None or (target.get("kind", "Deployment"), target["name"]) in there


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_manifests_match_the_schemas_of_their_kinds(overlay: str) -> None:
    manifests = render(overlay)
    unknown = {"notAField": 1}
    spoilt = [each | unknown for each in manifests]
    spoilt += [each | {"spec": each["spec"] | unknown} for each in manifests if "spec" in each]

    assert [problem for each in manifests for problem in problems(each)] == []
    assert [each for each in spoilt if not problems(each)] == []


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_deployments_survive_disruptions_and_rollouts(overlay: str) -> None:
    """Each has a disruption budget and a rolling update; replicas are set in one place: there, or by a scaler."""
    manifests = render(overlay)
    scaled = {each["spec"]["scaleTargetRef"]["name"] for each in manifests if "scaleTargetRef" in each.get("spec", {})}
    budgets = [each["spec"]["selector"]["matchLabels"] for each in manifests if each["kind"] == "PodDisruptionBudget"]

    for each in (each for each in manifests if each["kind"] == "Deployment"):
        spec = each["spec"]
        assert ("replicas" in spec) is not (each["metadata"]["name"] in scaled)
        assert spec.get("replicas", 2) >= 2
        assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
        assert any(budget.items() <= spec["template"]["metadata"]["labels"].items() for budget in budgets)


def test_network_policies_allow_spans_and_cloud_credentials() -> None:
    """With `cloud-identity`, pods can fetch their credentials, but sandboxes never can."""
    templates = {name: spec["template"] for name, spec in specs("separate", "Deployment").items()}
    accounts = {name: template["spec"]["serviceAccountName"] for name, template in templates.items()}
    known_to_azure = [
        spec["template"]["metadata"]["labels"].get("azure.workload.identity/use")
        for spec in specs("production", "Deployment").values()
    ]
    policies = specs("production", "NetworkPolicy")
    ports = {
        name: {port["port"] for rule in spec["egress"] for port in rule["ports"]} for name, spec in policies.items()
    }
    [component] = [
        each["values"]
        for each in policies["chargehand-cloud-identity"]["podSelector"]["matchExpressions"]
        if each["key"].endswith("component")
    ]

    assert {4317, 4318} <= ports["chargehand-worker"]
    assert {80, 988} == ports["chargehand-cloud-identity"]
    assert component == ["worker", "console"]
    assert accounts == {"chargehand-worker": "chargehand", "chargehand-sandboxes": "chargehand-sandboxes"}
    assert known_to_azure == ["true", "true"]


def test_sandbox_pods_have_no_model_provider_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    data = {each["metadata"]["name"]: each["data"] for each in render("separate") if each["kind"] == "ConfigMap"}
    containers = {name: only(spec["template"]["spec"]) for name, spec in specs("separate", "Deployment").items()}
    read_as: dict[str, Settings] = {}
    for name, container in containers.items():
        given = {key: value for source in references(container, "configMapRef") for key, value in data[source].items()}
        with monkeypatch.context() as patch:
            for key, value in (given | environment(container)).items():
                patch.setenv(key, value)
            read_as[name] = Settings()

    assert references(containers["chargehand-sandboxes"], "secretRef") == {"chargehand-shared", "chargehand-sandboxes"}
    assert {name: sorted(settings.roles) for name, settings in read_as.items()} == {
        "chargehand-sandboxes": ["sandboxes"],
        "chargehand-worker": ["models", "sessions", "tools"],
    }
    assert all(settings.queues.keys() == {"sandboxes"} for settings in read_as.values())


@cache
def render(overlay: str) -> list[Manifest]:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    command = ["kubectl", "kustomize", str(FOLDER / "overlays" / overlay)]
    rendered = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    return [cast("Manifest", each) for each in yaml.load_all(rendered, yaml.CSafeLoader)]


def specs(overlay: str, kind: str) -> dict[str, Any]:
    return {each["metadata"]["name"]: each["spec"] for each in render(overlay) if each["kind"] == kind}


def problems(manifest: Manifest) -> list[str]:
    name = KINDS[f"{manifest['apiVersion']} {manifest['kind']}"]
    validator = Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": DEFINITIONS})
    found = validator.iter_errors(manifest)  # pyright: ignore[reportUnknownMemberType]  # as its stub has it
    return [f"{name}{error.json_path[1:]}: {error.message}" for error in found]


def selectors(manifests: list[Manifest]) -> Iterator[dict[str, str]]:
    for each in manifests:
        spec = each.get("spec", {})
        match each["kind"]:
            case "Deployment" | "PodDisruptionBudget":
                yield spec["selector"]["matchLabels"]
            case "NetworkPolicy" if "matchLabels" in spec["podSelector"]:
                yield spec["podSelector"]["matchLabels"]
            case "Service":
                yield spec["selector"]
            case _:
                pass
