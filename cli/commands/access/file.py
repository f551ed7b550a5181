"""The commands `hedwig-admin access export` and `import`: all rules as a text, for review beside other files."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import click

from hedwig.access import Limit, Rule, parse_rule
from hedwig.cli.arguments.confirmation import confirm
from hedwig.cli.arguments.input_file import InputFile
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.errors import InvalidArgumentError, OperationError
from hedwig.exit_codes import ExitCode
from hedwig.human_units import counted
from hedwig.metadata import MetadataStore
from hedwig.metadata.access.rule_records import KeptRules, RuleRecords
from hedwig.operations.deployment.store import with_store, with_store_to_write

__all__ = ["export_rules", "import_rules"]

_COLUMNS: Final = ("change", "rule")
_Wanted: TypeAlias = Mapping[str, tuple[Rule | Limit, ...]]


@click.command("export", cls=AdminCommand, example="hedwig-admin access export")
@pass_settings
def export_rules(settings: Settings) -> None:
    """Write all rules to standard output, one a line, as `access import` reads them."""

    async def read(store: MetadataStore) -> None:
        kept = await RuleRecords(store.named_records).read()
        for who in sorted(kept):
            for rule in kept[who].value:
                click.echo(str(rule))

    with_store(settings.deployment, read)


@click.command("import", cls=AdminCommand, example="hedwig-admin access import rules.txt --dry-run")
@click.argument("file", type=InputFile(path_type=Path, allow_dash=True))
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask before rules are removed.")
@pass_settings
def import_rules(settings: Settings, file: Path, dry_run: bool, yes: bool) -> None:
    """Make the rules those of FILE, or of standard input if FILE is -. Rules that it does not have are removed.

    A line has one rule, as `access list` and `access export` spell them. Empty lines and those that begin with # do not
    count. The whole file is checked first. An import that was ended is completed by giving the command again.
    """
    output = settings.writer()
    wanted = _rules_of(settings, file)

    async def look(store: MetadataStore) -> Mapping[str, KeptRules]:
        return await RuleRecords(store.named_records).read()

    present = with_store(settings.deployment, look, makes=not dry_run)
    changes = _changes(present, wanted)
    removed = sum(change == "removed" for change, _ in changes)
    if changes and not dry_run:
        if removed and not yes:
            confirm(f"This removes {counted(removed, 'rule')} and adds {len(changes) - removed}")

        async def write(store: MetadataStore) -> None:
            records = RuleRecords(store.named_records)
            for who in sorted({rule.who for _, rule in changes}):
                rules = wanted.get(who, ())
                await records.replace(who, rules, expected=present[who].version if who in present else 0)

        with_store_to_write(settings.deployment, write)
    words = {"added": "would add", "removed": "would remove"} if dry_run else {}
    rows = [{"change": words.get(change, change), "rule": str(rule)} for change, rule in changes]
    output.listing("changes", rows, _COLUMNS)


def _rules_of(settings: Settings, file: Path) -> _Wanted:
    """Read a file of rules. Raises: OperationError - a line is none, and which."""
    try:
        with click.open_file(str(file), "rb") as opened:
            text = opened.read().decode()
    except UnicodeDecodeError as exc:
        raise OperationError(f"{settings.command}: {file} is no text in UTF-8: {exc}", ExitCode.USAGE) from exc
    found: dict[str, dict[Rule | Limit, None]] = defaultdict(dict)
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            rule = parse_rule(line)
        except InvalidArgumentError as exc:
            raise OperationError(
                f"{settings.command}: line {number} of {file}: {exc}; nothing was changed", ExitCode.USAGE
            ) from exc
        found[rule.who][rule] = None
    return {who: tuple(rules) for who, rules in found.items()}


def _changes(present: Mapping[str, KeptRules], wanted: _Wanted) -> Sequence[tuple[str, Rule | Limit]]:
    """Return what an import changes, in the order of whom the rules are for."""
    changes: list[tuple[str, Rule | Limit]] = []
    for who in sorted(present.keys() | wanted.keys()):
        before, after = present[who].value if who in present else (), wanted.get(who, ())
        changes += [("removed", rule) for rule in before if rule not in after]
        changes += [("added", rule) for rule in after if rule not in before]
    return changes
