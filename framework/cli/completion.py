"""The command ``completion``: a script with which a shell completes commands and options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping

from framework.cli import main

_BASH = """\
_paretolab() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{commands}"
    else
        case "${{COMP_WORDS[1]}}" in
{cases}
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    if [ "$COMP_CWORD" -gt 1 ] && [[ "$current" != -* ]]; then
        COMPREPLY+=($(compgen -f -- "$current"))
    fi
}}
complete -o filenames -F _paretolab paretolab
"""
_ZSH = "autoload -U +X compinit bashcompinit\ncompinit\nbashcompinit\n"


class Completion:
    """Print a script that completes commands and options: eval "$(paretolab completion bash)"."""

    help = "print the script with which your shell completes commands and options"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("shell", choices=["bash", "zsh", "fish"])

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        options = _options()
        if args.shell == "fish":
            sys.stdout.write(_fish(options))
            return 0
        cases = "\n".join(
            f'            {name}) words="{" ".join(words)}";;' for name, words in options.items()
        )
        script = _BASH.format(commands=" ".join(options), cases=cases)
        sys.stdout.write((_ZSH if args.shell == "zsh" else "") + script)
        return 0


def _options() -> dict[str, list[str]]:
    """Return the options and fixed words of each command, as its parser has them."""
    found = {}
    for name, command in main.commands().items():
        parser = argparse.ArgumentParser()
        command.add_arguments(parser)
        words: list[str] = []
        for action in parser._actions:
            if action.help == argparse.SUPPRESS:
                continue
            words += action.option_strings or map(str, action.choices or ())
        found[name] = [word for word in words if not word.startswith("-") or word[:2] == "--"]
    return found


def _fish(options: Mapping[str, list[str]]) -> str:
    lines = [f'complete -c paretolab -n __fish_use_subcommand -f -a "{" ".join(options)}"']
    for name, words in options.items():
        condition = f'-n "__fish_seen_subcommand_from {name}"'
        for word in words:
            given = f"-l {word[2:]}" if word.startswith("--") else f"-a {word}"
            lines.append(f"complete -c paretolab {condition} {given}")
    return "\n".join(lines) + "\n"
