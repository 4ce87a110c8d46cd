"""What the tests of the command share."""

METRICS = [
    *("coverage", "accuracy", "cost", "stages", "inconclusive_rate", "balanced_accuracy"),
    *("worst_recall", "false_positive_rate", "false_negative_rate", "recall", "f1"),
]

EXPERIMENT = {
    "cases": {"four": {}, "five": {"problem.max_stages": 5}},
    "methods": {"emsco": {"kind": "emsco", "population": 10}, "random": {"kind": "random"}},
    "repeats": 2,
}
BUILD = {
    "name": "little",
    "dataset": {"synthetic": {"samples": 120, "features": 5, "informative": 3, "seed": 1}},
    "models": 4,
}
SWEEP = {
    "search_space": {"algorithm.population": {"low": 10, "high": 30}},
    "directions": [{"metric": "hypervolume", "sense": "max"}],
    "trials": 2,
}


def front_of(directory):
    return (directory / "front.csv").read_bytes()


def best_of(frame, metric):
    """Return the best values of a metric, the other objectives deciding ties in their order."""
    order = [metric, "coverage", "accuracy", "cost"]
    return frame.sort_values(order, ascending=[name == "cost" for name in order]).index[0]
