"""The experiment of the HAPEns paper on its own data: every data set of a TabRepo context.

    python scripts/tabrepo.py CONTEXT --costs costs.csv --configs configs.json --out tabrepo
    paretolab experiment tabrepo/ensembling.yaml --set experiment.protocol=paper

CONTEXT is a folder in TabRepo's layout, such as D244_F3_C1530_100: the paper uses the 83 data sets
for classification among its 100. Each is imported as a library and becomes a case of EXP1 to EXP4
with the paper's budget: 3 evaluations per model, or 100 steps of greedy searches. The only costs in
TabRepo are times of inference. The paper's other costs are read from a table with the columns
``id``, ``memory`` and ``disk``, and the configurations by which QDO-ES compares models from
TabRepo's JSON of hyperparameters by model.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import yaml

from framework.errors import InputError
from framework.libraries.config import ImportConfig, TabRepoConfig
from framework.libraries.importing import import_library
from framework.libraries.library import Library, load_library

SHIPPED = Path(__file__).resolve().parents[1] / "configs" / "experiments" / "ensembling.yaml"
PER_MODEL, STEPS = 3, 100  # evaluations of a search per model, and steps of a greedy one


def libraries_of(
    context: Path, out: Path, fold: int, costs: Path, configs: Path
) -> dict[str, tuple[Path, Library]]:
    """Return the libraries of a context's classification data, imported unless they exist."""
    by_name = {}
    for place in sorted(context.glob(f"model_predictions/*/{fold}")):
        name = place.parent.name
        folder = out / "libraries" / name
        if folder.is_dir():
            by_name[name] = folder, load_library(folder)
            continue
        source = TabRepoConfig(
            folder=context, dataset=name, fold=fold, costs=costs, configs=configs
        )
        try:
            library, messages = import_library(ImportConfig(name=name, tabrepo=source), folder)
        except InputError as error:
            print(f"{name}: left out: {error}", file=sys.stderr)
            continue
        print(*(f"{name}: {message}" for message in messages), sep="\n", end="")
        by_name[name] = folder, library
    return {name: pair for name, pair in by_name.items() if pair[1].classes is not None}


def experiment(libraries: dict[str, tuple[Path, Library]]) -> dict[str, object]:
    """Return the shipped experiment, with the libraries as its cases."""
    raw: dict[str, object] = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))
    models = max(len(library.ids) for _, library in libraries.values())
    section = raw["experiment"]
    assert isinstance(section, dict)
    methods = {
        name: keys | {"budget": {"evaluations": STEPS * models}} if "budget" in keys else keys
        for name, keys in section["methods"].items()
    }
    cases = {
        name: {"problem.library": {"path": str(folder.resolve())}}
        for name, (folder, _) in libraries.items()
    }
    return raw | {
        "name": "ensembling-tabrepo",
        "budget": {"evaluations": PER_MODEL * models},
        "tracking": {"experiment": "ensembling-tabrepo"},
        "experiment": section | {"cases": cases, "methods": methods},
    }


def main() -> None:
    """Read the command line, import, and write the experiment."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("context", type=Path, help="folder in TabRepo's layout")
    parser.add_argument("--out", type=Path, default=Path("tabrepo"))
    parser.add_argument("--fold", type=int, default=0)
    parser.add_argument("--costs", type=Path, required=True, help="table: id, memory, disk")
    parser.add_argument(
        "--configs", type=Path, required=True, help="JSON: hyperparameters by model"
    )
    args = parser.parse_args()
    libraries = libraries_of(args.context, args.out, args.fold, args.costs, args.configs)
    if not libraries:
        sys.exit(f"{args.context}: expected data sets for classification, found none")
    file = args.out / SHIPPED.name
    file.write_text(yaml.safe_dump(experiment(libraries), sort_keys=False), encoding="utf-8")
    print(f"{len(libraries)} data sets: paretolab experiment {file}")


if __name__ == "__main__":
    main()
