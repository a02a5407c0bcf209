"""A whole machine whose people sign in: stopped half-way, bypassed, and nothing secret left anywhere."""

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
import yaml
from aicr_pipeline.model.rollout import ready_key, rollout_key

from local.aicr import profile
from tests.functional.approvals.signing_in import CLIENT, Got, Liar, Person, hidden, lying
from tests.workflow.leftovers import no_secret_of_signing_in_is_left
from tests.workflow.machine import ROOT, Machine, machine, runtime

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("signing-in")]

LOGIN, SESSION = "__Host-aicr-login", "__Host-aicr-session"
#: What is left of the profile: as short as validation allows.
KEPT = ("cert-manager", "nfd", "gpu-operator")
WISH = runtime(
    overrides={part.name: {"enabled": False} for part in profile.COMPONENTS if part.name not in KEPT}
)


@dataclass
class World:
    """The machine, the issuer, and what a browser and the issuer came to know."""

    running: Machine
    issuer: Liar
    proofs: dict[str, str] = field(default_factory=dict)
    pages: dict[str, str] = field(default_factory=dict)

    def keep(self, name: str, page: Got) -> Got:
        """To be searched; only a form's own nonce belongs there."""
        body = re.sub(r'name="nonce" value="[^"]*"', "", page.body)
        self.pages[name] = f"{page.headers} {body}"
        return page

    def sign_in(self, person: Person, rollout: str) -> Got:
        """From the link to the page, through the issuer."""
        away = person.get(f"/approvals/{rollout}")
        assert away.status == 302, away.body
        asked = dict(parse_qsl(urlsplit(away.location).query))
        answer = self.issuer.code_for(away.location)
        self.proofs |= {
            "login cookie": person.cookies[LOGIN],
            "state": asked["state"].rpartition(".")[2],
            "nonce of the attempt": asked["nonce"].partition(".")[2],
            "code": answer["code"],
        }
        back = person.get(f"/callback?{urlencode(answer)}")
        assert back.status == 303, back.body
        self.proofs |= {
            "session": person.cookies[SESSION],
            "id token": self.issuer.token,
            "claims": self.issuer.token.split(".")[1],
            "access token": "access-secret",
        }
        # The same code again, somebody else's state, and no session: each has a page of its own.
        other = Person(person.url)
        other.cookies = {LOGIN: self.proofs["login cookie"]}
        assert self.keep("a code used twice", other.get(f"/callback?{urlencode(answer)}")).status == 403
        nobody = Person(person.url)
        callback = nobody.get(f"/callback?{urlencode(answer)}")
        assert self.keep("another's state", callback).status == 403
        assert self.keep("no rollout", other.get(f"/login/{rollout}x")).status == 404
        form = {"reason": "x", "decision": "Approved", "nonce": "", "digest": ""}
        assert self.keep("signed out", nobody.send("POST", f"/approvals/{rollout}", form)).status == 403
        return self.keep("page", person.get(back.location))

    def answer(self, person: Person, rollout: str, page: Got, decision: str) -> Got:
        """Send the page's form."""
        self.proofs[f"form's nonce, {decision}"] = nonce = hidden(page.body, "nonce")
        form = {"nonce": nonce, "reason": f"{decision}, a test says so", "decision": decision}
        if decision != "Revoked":
            form["digest"] = hidden(page.body, "digest")
        return person.send("POST", f"/approvals/{rollout}", form)

    def deploy(self, **approvals: Any) -> None:
        """Another configuration: written, and read by new processes."""
        file = self.running.pipeline.options.workdir / "cluster" / "cluster.json"
        document = json.loads(file.read_text())
        document["approvals"] |= approvals
        file.write_text(json.dumps(document))
        aws = self.running.pipeline.aws
        for function in list(aws.functions):
            aws.set_environment(function, {"DEPLOYED": "again"})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    work = tmp_path_factory.mktemp("signing-in")
    with lying(Liar()) as issuer:
        document = yaml.safe_load((ROOT / "clusters" / "demo.yaml").read_text())
        document["approvals"]["identity"] = "signed-in"
        document["approvals"]["oidc"] = {"issuer": issuer.url, "clientId": CLIENT}
        cluster = work / "demo.yaml"
        cluster.write_text(yaml.safe_dump(document))
        with machine(work / "work", cluster=cluster) as running:
            yield World(running, issuer)


def test_who_signed_in_approves_and_stops_it(world: World) -> None:
    running = world.running
    aws = running.pipeline.aws
    assert running.resolve(WISH).status == "SUCCEEDED"

    def asked() -> list[str]:
        texts = "\n".join(message.message for message in aws.messages)
        return re.findall(r"^http\S+/approvals/\S+$", texts, re.MULTILINE)

    running.wait(lambda: asked(), 60, "a message with a link")
    (link,) = asked()
    rollout = str(aws.executions(running.pipeline.machine("rollout"))[-1].name)
    assert link == f"{aws.api_url}/approvals/{rollout}"
    alex = Person(aws.api_url)
    page = world.sign_in(alex, rollout)
    done = world.answer(alex, rollout, page, "Approved")
    assert done.status == 303, done.body
    page = world.keep("approved", alex.get(done.location))
    assert 'data-state="approved"' in page.body
    running.wait(lambda: running.pipeline.ledger(ready_key(rollout, 1)) is not None, 40, "a ready release")
    done = world.answer(alex, rollout, page, "Revoked")
    assert done.status == 303, done.body
    ended = running.rollout()
    outcome = running.outcome(rollout)
    assert (ended.name, ended.error, outcome["outcome"]) == (rollout, "RolloutRevoked", "Revoked")
    assert outcome["installed"] and outcome["notInstalled"]
    page = world.keep("revoked", alex.get(done.location))
    assert 'data-state="revoked"' in page.body and "a test says so" in page.body
    for document, who in (("decision", "principals"), ("revocation", "principal")):
        record = json.loads(running.pipeline.ledger(rollout_key(rollout, document)) or b"{}")
        assert (record["identity"], record["issuer"]) == ("signed-in", world.issuer.url)
        assert "sub-alex" in record[who]


def test_a_bypassed_rollout_says_so_everywhere_and_never_qualifies(world: World) -> None:
    running = world.running
    aws = running.pipeline.aws
    world.deploy(bypass=True)
    seen = len(aws.messages)
    assert running.resolve(WISH + b"# again\n").status == "SUCCEEDED"
    ended = running.rollout(seen=1)
    assert ended.status == "SUCCEEDED", ended.cause
    assert running.pipeline.ledger(rollout_key(ended.name, "decision")) is None
    texts = [message.message for message in aws.messages[seen:]]
    assert not [text for text in texts if "/approvals/" in text], "nobody was asked"
    assert "Approval was bypassed: nobody was asked" in texts[-1]
    alex = Person(aws.api_url)
    page = world.sign_in(alex, ended.name)
    assert "Approval was bypassed: nobody was asked, and the evidence never qualifies." in page.body
    s3, bucket = aws.client("s3"), aws.outputs["LedgerBucket"]
    (kept,) = s3.list_objects_v2(Bucket=bucket, Prefix=f"evidence/demo/{ended.name}/")["Contents"]
    envelope = json.loads(running.pipeline.ledger(kept["Key"]) or b"{}")
    predicate = json.loads(base64.b64decode(envelope["payload"]))["predicate"]
    assert predicate["qualifying"] is False
    assert "approval was bypassed: nobody was asked" in predicate["notQualifyingBecause"]
    assert predicate["approval"]["identity"] == "bypass"


def test_nothing_secret_is_left(world: World) -> None:
    assert {"session", "id token", "code", "form's nonce, Revoked"} <= set(world.proofs)
    no_secret_of_signing_in_is_left(world.running, world.proofs, world.pages)
    assert world.running.pipeline.aws.problems == []
