"""The command `hedwig-admin completion`: the script by which a shell completes the other commands."""

import sys
from typing import Final

import click
from click.shell_completion import FishComplete, ShellComplete, get_completion_class

from hedwig.cli.program import COMPLETION_VARIABLE, AdminCommand

__all__ = ["completion"]

_SHELLS: Final = ("bash", "zsh", "fish")


class _Fish(FishComplete):
    """The script for fish, which reads lines `KIND,WORD<tab>HELP`. Click's own cuts a word at its first comma."""

    source_template = FishComplete.source_template.replace("string split", "string split --max 1")


@click.command("completion", cls=AdminCommand, example="hedwig-admin completion bash")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script by which a shell completes commands, options, formats, contexts, and names of topics and hubs.

    \b
    bash, in ~/.bashrc:   eval "$(hedwig-admin completion bash)"
    zsh, in ~/.zshrc:     eval "$(hedwig-admin completion zsh)"
    fish:                 hedwig-admin completion fish > ~/.config/fish/completions/hedwig-admin.fish
    """
    completion_class: type[ShellComplete] | None = _Fish if shell == "fish" else get_completion_class(shell)
    assert completion_class is not None
    sys.stdout.write(completion_class(ctx.find_root().command, {}, "hedwig-admin", COMPLETION_VARIABLE).source())
