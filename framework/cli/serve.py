"""The command ``serve``: a model behind HTTP on this machine."""

from __future__ import annotations

import argparse


class Serve:
    """Answer records over HTTP, whole or step by step, with an exported model."""

    help = "answer records over HTTP with an exported model"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("model", metavar="MODEL_DIR", help="directory of an exported model")
        parser.add_argument(
            "--host", default="127.0.0.1", help="address to listen at (default: this machine alone)"
        )
        parser.add_argument("--port", type=int, default=8765, help="(default: 8765; 0: a free one)")

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        from framework.models.service import Service, is_loopback
        from framework.models.store import load_model

        with Service(load_model(args.model), args.host, args.port) as service:
            if not is_loopback(args.host):
                print("whoever reaches this address may ask the model: there is no password")
            print(f"serving at {service.address}, until Ctrl-C", flush=True)
            service.serve_forever()
        return 0
