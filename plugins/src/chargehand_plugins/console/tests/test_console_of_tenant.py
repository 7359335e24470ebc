"""A console of one tenant: its token cannot act for another, nor read what is another's."""

import hashlib
from pathlib import Path

from temporalio.client import Client

from chargehand.contracts import SessionRequest
from chargehand_plugins.console.tests.conftest import open_console
from tests.scripted_model import Script, topics


async def test_the_token_of_a_tenant_is_good_for_that_tenant_only(client: Client, tmp_path: Path) -> None:
    """What is started runs for the console's tenant, whatever keys others have used, and a request for another is
    refused; sessions of others are neither listed, nor counted, nor found by their id, to be read or to be stopped."""
    async with open_console(client, tmp_path, Script().plan(*topics(1)), tenant="initech") as console:
        taken = f"key-{hashlib.sha256(b'k').hexdigest()[:32]}"  # by the same key, at a console of all tenants
        others = await console.environment.chargehand.start(
            SessionRequest(goal="What is theirs?", tenant="other"), session_id=taken
        )
        await others.result()
        started = await console.api.post(
            "/api/v1/sessions", json={"goal": "What is ours?"}, headers={"Idempotency-Key": "k"}
        )
        again = await console.api.post(
            "/api/v1/sessions", json={"goal": "What is ours?"}, headers={"Idempotency-Key": "k"}
        )
        forged = await console.api.post("/api/v1/sessions", json={"goal": "What is theirs?", "tenant": "other"})
        path = f"/api/v1/sessions/{started.json()['session']}"
        own = await console.api.get(f"{path}/result?wait=60")
        listed = await console.api.get("/api/v1/sessions", params={"tenant": "other", "limit": 1_000})
        spent = await console.api.get("/api/v1/spend")
        hidden = [
            (await console.api.get(f"/api/v1/sessions/{others.id}{part}")).status_code
            for part in ("/status", "/plan", "/result", "/trace", "/events", "/artifacts")
        ]
        stopped = await console.api.post(f"/api/v1/sessions/{others.id}/cancel")
        page = await console.api.get(f"/sessions/{others.id}")
        request = await console.environment.chargehand.session(started.json()["session"]).request()

    assert (started.status_code, again.json(), own.status_code) == (201, started.json(), 200)
    assert request.tenant == "initech"
    assert (forged.status_code, "'initech' only" in forged.text) == (422, True)
    assert {each["tenant"] for each in listed.json()["sessions"]} == {"initech"}
    assert {each["tenant"] for each in spent.json()["rows"]} == {"initech"}
    assert hidden == [404] * len(hidden)
    assert stopped.status_code == 404
    assert "What is theirs" not in page.text
