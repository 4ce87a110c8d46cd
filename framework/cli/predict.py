"""``paretolab predict`` and ``paretolab serve``: answer records with an exported model."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from framework.cli.results import Result, json_argument
from framework.errors import InputError, ParetolabError, first_line
from framework.files import write_whole
from framework.security import csv_text_value, say, terminal_text


class Predict:
    """Run an exported model on a table."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("model", metavar="MODEL_DIR", help="directory of an exported model")
        parser.add_argument("data", metavar="DATA", help="CSV or Parquet file")
        parser.add_argument("--out", metavar="FILE", help="CSV to write (default: to the terminal)")
        parser.add_argument(
            "--safe-csv",
            action="store_true",
            help="put ' before labels that a spreadsheet would take for formulas (=, +, -, @)",
        )
        parser.add_argument(
            "--strict",
            action="store_true",
            help="refuse a table with a value that cannot be used (default: a column says why)",
        )
        json_argument(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> Result:
        from framework.data.table_files import read_frame
        from framework.models.store import load_model

        model = load_model(args.model)
        records = read_frame(Path(args.data), model.file_options)
        try:
            answers = model.answers(records, strict=args.strict)
        except ParetolabError:
            raise
        except Exception as error:  # the model may be anyone's
            raise InputError(
                f"{args.model}: expected a model that can answer these records, found "
                f"{type(error).__name__}: {first_line(error)}"
            ) from error
        try:
            written = answers
            if args.safe_csv:
                written = answers.map(lambda x: csv_text_value(x) if isinstance(x, str) else x)
            if args.out is not None or not args.json:
                _write(written.to_csv(index=False), args.out)
        except BrokenPipeError:  # the reader of the output has ended, such as `head`
            raise
        except OSError as error:
            place = "standard output" if args.out is None else f"--out {args.out}"
            raise InputError(f"{place}: cannot be written: {error.strerror}") from error
        if "error" in answers and (count := int((answers["error"] != "").sum())):
            verb = "has" if count == 1 else "have"
            sentence = f"{count:,} of {len(records):,} records {verb} no answer"
            say(f"paretolab: {sentence}; the column error says why", sys.stderr)
        for part, count in model.failures().items():
            if count:
                sentence = f"{part} failed on {count:,} of {len(records):,} records"
                say(f"paretolab: {sentence}; what else the model has was asked", sys.stderr)
        return Result(fields={"model": args.model, "out": args.out, "answers": written})


class Serve:
    """Answer records over HTTP, whole or step by step, with an exported model."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("model", metavar="MODEL_DIR", help="directory of an exported model")
        parser.add_argument(
            "--host", default="127.0.0.1", help="address to listen on (default: this machine alone)"
        )
        parser.add_argument("--port", type=int, default=8765, help="(default: 8765; 0: a free one)")

    @staticmethod
    def run(args: argparse.Namespace) -> Result:
        from framework.models.service import Service
        from framework.models.store import load_model
        from framework.security import is_loopback

        model = load_model(args.model)
        service = Service(model, args.host, args.port)
        if not is_loopback(args.host):
            print("anyone who reaches this address can use the model: there is no password")
        page = "; its page in a browser takes one record step by step" if model.has_steps else ""
        print(f"serving at {service.address}, until Ctrl-C{page}", flush=True)
        service.run()
        return Result()


def _write(text: str, out: str | None) -> None:
    """Write a table to a file, whole or not at all, or to the terminal, a pipe or a device."""
    if out is None:
        sys.stdout.write(terminal_text(text) if sys.stdout.isatty() else text)
        return
    path = Path(out)
    if path.is_relative_to("/dev") or (path.exists() and not path.is_file()):  # a pipe, a device
        path.write_text(text, encoding="utf-8")
    else:
        write_whole(path.resolve(), text)
