"""``python -m local.aicr``: parse, run, end with the command's exit code."""

from __future__ import annotations

import argparse
import sys

from local.aicr import AICR_VERSION
from local.aicr.errors import AicrError, Code, log
from local.aicr.wrappers import Placement


def parser() -> argparse.ArgumentParser:
    """The flags the pipeline's Jobs use, spelled as the real command's help spells them.

    No abbreviations: argparse would accept ``--pla`` for ``--plain-http``, the real command does not.
    """
    root = argparse.ArgumentParser(prog="aicr", allow_abbrev=False)
    root.add_argument("--version", "-v", action="version", version=f"aicr version {AICR_VERSION} (sample)")
    commands = root.add_subparsers(dest="command", required=True)

    snapshot = commands.add_parser("snapshot", allow_abbrev=False)
    snapshot.add_argument("--output", "-o")
    snapshot.add_argument("--kubeconfig", "-k")

    recipe = commands.add_parser("recipe", allow_abbrev=False)
    for name in ("service", "accelerator", "os", "intent", "platform"):
        recipe.add_argument(f"--{name}", *(["--gpu"] if name == "accelerator" else []))
    recipe.add_argument("--output", "-o")

    bundle = commands.add_parser("bundle", allow_abbrev=False)
    bundle.add_argument("--recipe", "-r", required=True)
    bundle.add_argument("--deployer", "-d", default="helm")
    bundle.add_argument("--output", "-o", default=".")
    bundle.add_argument("--kubeconfig", "-k")
    bundle.add_argument("--readiness-hooks", action="store_true")
    bundle.add_argument("--plain-http", action="store_true")
    for kind in ("system", "accelerated"):
        bundle.add_argument(f"--{kind}-node-selector", action="append", default=[])
        bundle.add_argument(f"--{kind}-node-toleration", action="append", default=[])
    bundle.add_argument("--set", action="append", default=[])
    bundle.add_argument("--set-json", action="append", default=[])

    validate = commands.add_parser("validate", allow_abbrev=False)
    validate.add_argument("--recipe", "-r", required=True)
    validate.add_argument("--snapshot", "-s", required=True)
    validate.add_argument("--phase", action="append", default=[])
    validate.add_argument("--namespace", "-n", default="aicr-validation")
    validate.add_argument("--emit-attestation")
    validate.add_argument("--push")
    validate.add_argument("--no-sign", action="store_true")
    validate.add_argument("--no-cleanup", action="store_true")
    validate.add_argument("--signing-key")
    validate.add_argument("--tlog-upload", choices=["true", "false"], default="true")
    validate.add_argument("--plain-http", action="store_true")
    validate.add_argument("--output", "-o")
    validate.add_argument("--kubeconfig", "-k")
    return root


def selector(items: list[str]) -> dict[str, str]:
    """``key=value`` flags as a map; raises AicrError INVALID_REQUEST."""
    found: dict[str, str] = {}
    for item in items:
        key, separator, value = item.partition("=")
        if not key or not separator:
            raise AicrError(Code.INVALID_REQUEST, f"invalid node selector {item!r}: want key=value")
        found[key] = value
    return found


def tolerations(items: list[str]) -> list[dict[str, str]]:
    """``key[=value]:Effect`` flags as tolerations; raises AicrError INVALID_REQUEST."""
    found: list[dict[str, str]] = []
    for item in items:
        taint, separator, effect = item.rpartition(":")
        key, equals, value = taint.partition("=")
        if not separator or not key or effect not in ("NoSchedule", "NoExecute", "PreferNoSchedule"):
            raise AicrError(Code.INVALID_REQUEST, f"invalid toleration {item!r}: want key[=value]:Effect")
        operator = {"operator": "Equal", "value": value} if equals else {"operator": "Exists"}
        found.append({"effect": effect, "key": key, **operator})
    return found


def run(arguments: argparse.Namespace) -> None:
    """Run one command; raises AicrError. Imports are where they are used: a Job pays only for its own."""
    if arguments.command == "snapshot":
        from local.aicr import snapshot

        snapshot.run(arguments.output, arguments.kubeconfig)
    elif arguments.command == "recipe":
        from local.aicr import profile, recipe

        recipe.run({name: getattr(arguments, name) for name in profile.CRITERIA}, arguments.output)
    elif arguments.command == "bundle":
        from local.aicr import bundle

        if arguments.deployer != "helm":
            raise AicrError(Code.INVALID_REQUEST, f"deployer {arguments.deployer!r}: the stand-in has helm")
        placement = Placement(
            selector(arguments.system_node_selector),
            tolerations(arguments.system_node_toleration) or [{"operator": "Exists"}],
            selector(arguments.accelerated_node_selector),
            tolerations(arguments.accelerated_node_toleration) or [{"operator": "Exists"}],
        )
        bundle.run(
            bundle.Settings(
                recipe=arguments.recipe,
                output=arguments.output,
                readiness_hooks=arguments.readiness_hooks,
                plain_http=arguments.plain_http,
                placement=placement,
                overrides=tuple(arguments.set_json),
                scalars=tuple(arguments.set),
                kubeconfig=arguments.kubeconfig,
            )
        )
    else:
        from local.aicr import validate

        validate.run(
            validate.Settings(
                recipe=arguments.recipe,
                snapshot=arguments.snapshot,
                phases=tuple(arguments.phase),
                namespace=arguments.namespace,
                attestation=arguments.emit_attestation,
                push=arguments.push,
                no_sign=arguments.no_sign,
                no_cleanup=arguments.no_cleanup,
                signing_key=arguments.signing_key,
                tlog_upload=arguments.tlog_upload == "true",
                plain_http=arguments.plain_http,
                output=arguments.output,
                kubeconfig=arguments.kubeconfig,
            )
        )


def main(argv: list[str]) -> int:
    """Returns the exit code; an unknown flag ends in argparse with 2, the code of an invalid request."""
    arguments = parser().parse_args(argv)
    try:
        run(arguments)
    except AicrError as error:
        log("command failed", error=f"[{error.code.name}] {error.message}", exitCode=error.code.value)
        return error.code.value
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
