"""Checks the files in `deploy/` with validators: `check.py DEPLOY`. `promtool` and `openssl` must be on the path."""

import subprocess
import sys
import tempfile
from pathlib import Path

import crossplane
import kubernetes_validate
import yaml

# The oldest version of Kubernetes whose pods can sleep before they stop without a feature gate, and the newest version.
KUBERNETES = ["1.30", kubernetes_validate.latest_version()]

deploy = Path(sys.argv[1])
passed, failed = 0, 0


def report(name, problem):
    """Counts a check. `problem` is empty if the check passed."""
    global passed, failed
    print(f"{'failed' if problem else 'ok'}: {name}")
    if problem:
        print(problem)
        failed += 1
    else:
        passed += 1


def run(name, *command):
    """Runs a validator that exits with an error if a file is not valid."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except FileNotFoundError:
        sys.exit(f"`{command[0]}` was not found; install it (on Debian: `apt-get install openssl prometheus`)")
    report(name, done.stdout.strip() or "no output" if done.returncode else "")


def kubernetes(path):
    """Validates a manifest strictly: an unknown field is an error."""
    for version in KUBERNETES:
        problem = ""
        try:
            for manifest in yaml.safe_load_all(path.read_text()):
                kubernetes_validate.validate(manifest, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            problem = f"{'.'.join(map(str, error.path))}: {error.message}"
        except (kubernetes_validate.SchemaNotFoundError, yaml.YAMLError, KeyError) as error:
            problem = getattr(error, "message", repr(error))
        report(f"{path.name}, Kubernetes {version}", problem)


for manifest in sorted(deploy.glob("kubernetes/*.yaml")):
    # Kustomize reads this file, not Kubernetes.
    if manifest.name != "kustomization.yaml":
        kubernetes(manifest)

compose = ["-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
run("compose.yaml", sys.executable, *compose, str(deploy / "compose.yaml"))

parsed = crossplane.parse(str(deploy / "nginx.conf"), strict=True, check_ctx=True, check_args=True)
report("nginx.conf", "\n".join(error["error"] for error in parsed["errors"]))

with tempfile.TemporaryDirectory() as folder:
    run("certificates.sh", "sh", str(deploy / "certificates.sh"), folder, "postgres")
    authority, certificate = f"{folder}/authority/ca.pem", f"{folder}/postgres/certificate.pem"
    verify = ["openssl", "verify", "-x509_strict", "-verify_hostname", "postgres"]
    run("certificate of postgres", *verify, "-CAfile", authority, certificate)

prometheus = deploy / "prometheus"
run("prometheus.yml", "promtool", "check", "config", str(prometheus / "prometheus.yml"))
run("alerts.test.yml", "promtool", "test", "rules", str(prometheus / "alerts.test.yml"))

print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
