"""A password and a token are found nowhere: in no log, answer, export, list of processes, traceback or record."""

import gzip
import subprocess
from pathlib import Path

from hedwig.exit_codes import ExitCode
from tests.cli.support.admin import Admin
from tests.hub.support.admin_client import AdminClient
from tests.hub.support.running import RunningHub

CANARIES = ("canary-of-a-password", "canary-of-a-token")


def test_no_canary_is_found(admin: Admin, tmp_path: Path) -> None:
    password, token, audit = tmp_path / "password", tmp_path / "token", tmp_path / "audit.jsonl"
    password.write_text(f"{CANARIES[0]}\n")
    token.write_text(f"{CANARIES[1]}\n")
    as_ann = ("--user", "ann", "--password-file", str(password), "--debug")
    settings = (
        "access.mode=rules",
        "access.anonymous=",
        "access.mechanisms=SCRAM-SHA-256",
        "access.refresh_s=0.05",
        f"access.audit_file={audit}",
        f"admin_token_file={token}",
        f"metadata={admin.url}",
    )
    seen: dict[str, str] = {}

    def see(*words: str, code: int = ExitCode.DONE) -> None:
        ran = admin.run_apart(*words)
        assert ran.code == code, ran
        seen[" ".join(words[:3])] = ran.out + ran.err

    see("access", "user", "add", "ann", "--password-file", str(password))
    see("access", "allow", "user:ann", "publish,create,view", "*")
    with RunningHub(tmp_path / "hub", *settings, arguments=("--log-level", "debug")) as hub:
        at_hub, at_admin = ("--hub", hub.address), ("--admin", hub.admin)
        see("publish", "news", "m", *at_hub, *as_ann)
        see("publish", "news", "m", *at_hub, "--user", "bob", *as_ann[2:], code=ExitCode.FAILED)
        see("subscribe", "news", "reader", *at_hub, *as_ann, code=ExitCode.FAILED)
        see("hub", "show", *at_admin, *as_ann)
        see("hub", "load", *at_admin, "--admin-token-file", str(token), "--debug")
        see("topic", "release", "news", *at_admin, *as_ann, code=ExitCode.FAILED)
        see("hub", "load", *at_admin, "--admin-token-file", str(password), "--debug", code=ExitCode.FAILED)
        see("access", "status", *at_admin, "--admin-token-file", str(token))
        shown = {"Authorization": f"Bearer {CANARIES[1]}"}
        for path in ("/options", "/metrics", "/access", "/health", "/none"):
            seen[path] = AdminClient(hub.admin).ask("GET", path, shown).text
        seen["processes"] = subprocess.run(
            ["ps", "auxeww"], check=True, capture_output=True, text=True, timeout=60
        ).stdout
        hub.stop()
        seen["log"] = hub.log
    see("publish", "news", "m", *at_hub, *as_ann, "--timeout", "1", code=ExitCode.UNAVAILABLE)
    see("hub", "show", *at_admin, *as_ann, code=ExitCode.UNAVAILABLE)
    see("config", "context", "save", "mine", *as_ann, "--admin-token-file", str(token))
    see("config", "show", "--context", "mine")
    see("access", "user", "list", "-o", "json")
    see("access", "export")
    see("metadata", "export", str(tmp_path / "export.gz"))
    seen["export"] = gzip.decompress((tmp_path / "export.gz").read_bytes()).decode(errors="replace")
    for kept in (audit, *tmp_path.glob("store.db*"), *(tmp_path / "config").rglob("*"), *hub.data.rglob("*")):
        if kept.is_file():
            seen[str(kept)] = kept.read_bytes().decode(errors="replace")
    assert "operator" in seen[str(audit)] or "refused" in seen[str(audit)]
    assert "DEBUG" in seen["log"]
    assert [where for where, text in seen.items() if any(canary in text for canary in CANARIES)] == []
