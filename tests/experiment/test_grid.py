"""The section experiment: what it makes, and what it refuses, one line per error."""

import pytest

from framework import registry
from framework.errors import InputError
from framework.experiment.grid_load import load_grid, resumed_grid
from framework.streams import repeat_seed
from tests.command import write
from tests.experiment import small

COST = [{"metric": "cost", "sense": "min"}]


def grid_of(folder, content, *overrides, **top_level):
    return load_grid(small.write(folder, content), overrides, **top_level)


def mistakes(folder, content, *overrides):
    with pytest.raises(InputError) as caught:
        grid_of(folder, content, *overrides)
    return str(caught.value).replace(f"{folder}/", "").splitlines()


def test_runs_are_all_combinations(tmp_path):
    runs = grid_of(tmp_path, small.raw()).runs()
    assert [(run.case, run.method, run.repeat) for run in runs] == [
        (case, method, repeat)
        for case in ("convex", "concave")
        for method in ("by tens", "grid*")
        for repeat in range(3)
    ]
    assert len({run.directory for run in runs}) == 12
    assert runs[-1].directory == "cells/concave/grid/002"
    last = runs[-1].config
    assert (last.problem.name, last.algorithm.batch) == ("zdt2", 15)
    assert (last.seed, last.repeats, last.workers) == (repeat_seed(0, 2), 1, "serial")


def test_a_text_is_short_for_a_method(tmp_path):
    short = grid_of(tmp_path, small.raw(methods={"a": "random"}))
    assert short.runs() == grid_of(tmp_path, small.raw(methods={"a": {"kind": "random"}})).runs()
    cases = {"other": {"methods": {"grid*": "random"}}}
    kinds = [run.config.algorithm.kind for run in grid_of(tmp_path, small.raw(cases=cases)).runs()]
    assert kinds[-1] == "random"


def test_a_product_crosses_every_case(tmp_path):
    product = {"problem.d": [3, 4], "budget.evaluations": [20, 40]}
    grid = grid_of(tmp_path, small.raw(product=product))
    assert list(grid.cases) == [
        f"{case} d={d} evaluations={n}"
        for case in ("convex", "concave")
        for d in (3, 4)
        for n in (20, 40)
    ]
    chosen = grid.cases["concave d=3 evaluations=40"]
    assert (chosen.problem.name, chosen.problem.d) == ("zdt2", 3)
    assert chosen.budget.evaluations == 40
    alone = grid_of(tmp_path, small.raw(cases={}, product={"problem.d": [3, 4]}))
    assert list(alone.cases) == ["d=3", "d=4"]
    assert list(grid_of(tmp_path, small.raw(cases={})).cases) == ["configured"]


def test_a_case_may_take_the_problem_of_another_file(tmp_path):
    """What the experiment itself says goes over it, and the case's own keys over both."""
    (tmp_path / "below").mkdir()
    other = {
        "problem": {"kind": "function", "name": "zdt2", "d": 7, "noise": 0.1},
        "objectives": [{"metric": "f2", "sense": "min"}],
    }
    small.write(tmp_path / "below", other, "other.yaml")
    content = small.raw(cases={"other": {"config": "below/other.yaml", "problem.d": 5}})
    content["problem"] = {"noise": 0.2}
    del content["objectives"]
    config = grid_of(tmp_path, content).cases["other"]
    assert dict(config.problem) == {"kind": "function", "name": "zdt2", "d": 5, "noise": 0.2}
    assert [objective.metric for objective in config.objectives] == ["f2"]


def test_a_case_may_give_a_method_other_parameters(tmp_path):
    cases = {"convex": {}, "concave": {"methods": {"grid*": {"batch": 3}}}}
    grid = grid_of(tmp_path, small.raw(cases=cases, product={"problem.d": [3, 4]}))
    batches = {(c.case, c.method): c.config.algorithm.batch for c in grid.runs()}
    assert [batches[f"{case} d=4", "grid*"] for case in cases] == [15, 3]
    assert [batches[f"{case} d=3", "by tens"] for case in cases] == [10, 10]
    kept = tmp_path / "experiment.yaml"
    kept.write_text(grid.dump(), encoding="utf-8")
    assert load_grid(kept).runs() == grid.runs()
    cases["concave"]["methods"] = {"grid*": {"kind": "nsga2"}}  # another one: nothing is kept
    other = grid_of(tmp_path, small.raw(cases=cases)).runs()[-1].config.algorithm
    assert (other.kind, other.population) == ("nsga2", 300)
    cases["concave"]["methods"] = {"grid": {"batch": 3}}
    assert mistakes(tmp_path, small.raw(cases=cases)) == [
        "little.yaml: experiment.cases.concave.methods: expected one of by tens, grid*; found "
        "'grid'; did you mean 'grid*'?"
    ]


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ("evil:main", ": expected a section (keys and values), found 'evil:main'"),
        ({"grid*": [1]}, ".grid*: expected a text or a section (keys and values), found [1]"),
        (
            {"grid*": {"problem": 5}},
            ".grid*.problem: expected a section (keys and values), found 5",
        ),
    ],
)
def test_the_methods_of_a_case_are_keys(methods, message, tmp_path):
    """They were tracebacks."""
    cases = {"convex": {}, "concave": {"methods": methods}}
    wanted = f"little.yaml: experiment.cases.concave.methods{message}"
    assert mistakes(tmp_path, small.raw(cases=cases)) == [wanted]


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (
            {"config": None},
            "little.yaml: experiment.cases.a.config: expected a text, found nothing",
        ),
        ({"config": "no.yaml"}, "no.yaml: cannot read the configuration: no such file or directo"),
        ({"config": "empty.yaml"}, "empty.yaml: expected keys and values, found nothing"),
        ({"config": "null.yaml"}, "null.yaml: problem.None: expected a text as key, found nothing"),
        (
            {"problem": {"kind": "function", "name": "zdt1", None: 3}},
            "little.yaml: experiment.cases.a: problem.None: expected a text as key, found nothing",
        ),
    ],
)
def test_keys_and_files_that_are_null(case, message, tmp_path):
    (tmp_path / "empty.yaml").touch()
    write(tmp_path / "null.yaml", {"problem": {None: 3}})
    (found,) = mistakes(tmp_path, small.raw(cases={"a": case}))
    assert found.startswith(message)


def test_a_reference_is_a_run_of_its_own(tmp_path):
    reference = {"algorithm": {"kind": "grid"}, "budget": {"evaluations": 9}}
    first, second, *_ = grid_of(tmp_path, small.raw(reference=reference)).runs()
    assert (first.method, first.directory) == (None, "references/convex")
    assert first.config.algorithm.kind == "grid"
    assert (first.config.budget.evaluations, second.config.budget.evaluations) == (9, 60)


def test_what_is_kept_makes_the_same_runs_anywhere(tmp_path):
    grid = grid_of(tmp_path, small.raw(product={"problem.d": [3, 4]}), repeats=2, seed=5)
    (tmp_path / "kept").mkdir()
    kept = tmp_path / "kept" / "experiment.yaml"
    kept.write_text(grid.dump(), encoding="utf-8")
    assert load_grid(kept).runs() == grid.runs()
    assert len(resumed_grid(kept, ["experiment.repeats=3"]).runs()) == 3 * len(grid.runs()) / 2
    with pytest.raises(InputError, match="expected a key of the section experiment"):
        resumed_grid(kept, ["budget.evaluations=3"])


def test_a_directory_keeps_what_cases_take_from_files_and_does_not_grow_with_them(tmp_path):
    """A product of 3,200 cases made a file of 44 MB, which no command could read."""
    (tmp_path / "below").mkdir()
    dataset = {"path": "table.csv", "target": "y"}
    other = {"problem": {"kind": "multistage", "dataset": dataset}, "objectives": COST}
    small.write(tmp_path / "below", other, "other.yaml")
    cases = {"other": {"config": "below/other.yaml"}}
    content = small.raw(cases=cases, folds={"seed": [1]}, methods={"a": "random"})
    del content["problem"], content["objectives"]
    grid = grid_of(tmp_path, content)
    assert grid.base.problem.dataset.path == tmp_path / "below" / "table.csv"
    content["experiment"]["folds"] = {"seed": [*range(200)]}
    many = grid_of(tmp_path, content)
    (tmp_path / "below" / "other.yaml").unlink()
    (tmp_path / "kept").mkdir()
    kept = tmp_path / "kept" / "experiment.yaml"
    for written in (grid, many):
        kept.write_text(written.dump(), encoding="utf-8")
        assert load_grid(kept).runs() == written.runs()
        assert load_grid(kept).dump() == written.dump()
    assert len(many.dump()) - len(grid.dump()) < 200 * len("    - 1999\n")


def test_a_directory_has_what_cases_take_from_files_under_the_names_of_these(tmp_path):
    """They were absolute paths, which no user writes and MLflow got."""
    other = {"problem": {"kind": "function", "name": "zdt2"}}
    content = small.raw(cases={"a": {"config": "other.yaml"}}, files={"other.yaml": other})
    grid = grid_of(tmp_path, content)
    assert grid.base.problem.name == "zdt1"  # the file's own keys count more
    assert grid.section.files == {"other.yaml": other}


def test_cases_with_the_same_name_are_refused(tmp_path):
    """The second one took the place of the first."""
    (line,) = mistakes(tmp_path, small.raw(product={"problem.d": [3, "3"]}))
    wanted = "experiment: expected cases that differ, found 'convex d=3' twice"
    assert line == f"little.yaml: {wanted}"


def test_more_cases_than_memory_has_room_for_are_refused(tmp_path):
    product = {"problem.d": [*range(2, 400)], "seed": [*range(400)]}
    (line,) = mistakes(tmp_path, small.raw(product=product))
    assert line == "little.yaml: experiment: expected at most 100,000 cases, found 318,400"


def test_an_experiment_is_not_begun_whose_directory_could_not_be_read(tmp_path):
    bounds = [{"metric": "f1", "at_most": 0.5}] * 15_000
    for name in ("a.yaml", "b.yaml"):
        write(tmp_path / name, {"constraints": bounds})
    cases = {name: {"config": f"{name}.yaml"} for name in "ab"}
    grid = grid_of(tmp_path, small.raw(cases=cases))
    with pytest.raises(InputError, match="that can be read again together with the files"):
        grid.dump()


@pytest.mark.parametrize("changes", [{"folder": "a\0b"}, {"cases": {"a": {"config": "a\0b"}}}])
def test_a_path_with_a_null_byte_is_refused(changes, tmp_path):
    cases = {"cases": {"a": {"config": "other.yaml"}}}
    (line,) = mistakes(tmp_path, small.raw(**cases | changes))
    assert "config: expected the path of a file, found " in line
    assert "(embedded null byte)" in line


def test_mistakes_are_said_all_at_once_each_where_it_is(tmp_path):
    content = small.raw(
        cases={"good": {}, "bad": {"problem.nam": "zdt1"}, "worse": {"problem.d": "many"}}
    )
    assert mistakes(tmp_path, content) == [
        "little.yaml: experiment.cases.bad: problem.nam: unknown key; expected one of name, d, "
        "noise; found 'nam'; did you mean 'name'?",
        "little.yaml: experiment.cases.worse: problem.d: expected a whole number, found 'many'",
    ]
    content = small.raw(methods={"one": {"kind": "randm"}, "two": {"kind": "random", "bach": 3}})
    first, second = mistakes(tmp_path, content)
    assert first.startswith("little.yaml: experiment.methods.one.kind: expected one of ")
    assert first.endswith("found 'randm'; did you mean 'random'?")
    assert second.startswith("little.yaml: experiment.methods.two.bach: unknown key; ")


def test_what_is_wrong_with_every_case_is_said_once(tmp_path):
    assert mistakes(tmp_path, small.raw(), "budget.evaluations=none") == [
        "little.yaml: budget.evaluations: expected a whole number, found 'none'"
    ]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"repeats": 0}, "repeats: expected a number of at least 1, found 0"),
        ({"judge": "all"}, "judge: expected 'front' or 'returned', found 'all'"),
        (
            {"indicators": ["hypervolum"]},
            f"indicators.0: expected one of {', '.join(registry.names('indicators'))}, f1, f2, f3; "
            "found 'hypervolum'; did you mean 'hypervolume'?",
        ),
        (
            {"paper": {"convx": {"by tens": {"share": 1}}}},
            "paper: expected one of convex, concave; found 'convx'; did you mean 'convex'?",
        ),
        (
            {"paper": {"convex": {"by ten": {"share": 1}}}},
            "paper.convex: expected one of by tens, grid*; found 'by ten'; did you mean 'by tens'?",
        ),
        ({"product": {"problem.d": [3, 3]}}, "product: expected different values for problem.d, "),
        ({"cases": {"a b": {}, "a-b": {}}}, "cases: expected names that differ in letters or digi"),
        ({"pages": ["none"]}, "pages: expected one of"),
        (
            {"claims": [{"says": "a", "indicator": "share", "method": "x", "at_least": 1}]},
            "claims.0: expected one of by tens, grid*; found 'x'",
        ),
        (
            {"claims": [{"says": "a", "indicator": "share", "method": "grid*"}]},
            "claims.0: expected one of better_than, at_least, at_most; found none",
        ),
        ({"reference": {"budget": None}}, "reference: expected either algorithm or points"),
        ({"folds": {"problem.d": [3, 3]}}, "folds: expected different values for problem.d"),
        ({"folds": {"repeats": [3, 4]}}, "folds: expected keys of problem"),
    ],
)
def test_mistakes_of_the_section(tmp_path, changes, line):
    (found,) = mistakes(tmp_path, small.raw(**changes))
    assert found.startswith(f"little.yaml: experiment.{line}")


def test_metrics_that_a_class_does_not_list_are_checked_by_the_problem(tmp_path):
    grid = grid_of(tmp_path, small.raw(indicators=["hypervolume", "unheard", "f1:one"]))
    assert grid.section.indicators == ["hypervolume", "unheard", "f1:one"]


def test_methods_and_repeats_have_their_place(tmp_path):
    content = small.raw() | {"algorithm": {"kind": "random"}}
    assert mistakes(tmp_path, content) == [
        "little.yaml: algorithm: expected in experiment.methods, found beside it"
    ]
    content = small.raw()
    del content["experiment"]
    (line,) = mistakes(tmp_path, content)
    assert line.startswith("little.yaml: expected an experiment, found a run; use `paretolab run ")
    (line,) = mistakes(tmp_path, content | {"experiment": 3})
    assert line == "little.yaml: experiment: expected keys and values, found 3"
    write(tmp_path / "experiment.yaml", small.raw())
    with pytest.raises(InputError, match="found a file of its directory; use `paretolab resume "):
        load_grid(write(tmp_path / "config.yaml", content))


def test_mistakes_name_the_file_that_has_them(tmp_path):
    one = {"problem": small.raw()["problem"] | {"noise": "much"}}
    write(tmp_path / "one.yaml", one | {"objectives": small.raw()["objectives"]})
    cases = {"a": {"config": "one.yaml"}, "b": {"config": "one.yaml", "problem.noise": -1}}
    content = small.raw(cases=cases, product={"problem.nam": ["zdt1", "zdt2"]}) | {"workers": "ten"}
    del content["problem"], content["objectives"]
    places = [line.partition(": expected")[0] for line in mistakes(tmp_path, content)]
    assert sorted(places) == [
        "little.yaml: experiment.cases.a nam=zdt1: one.yaml: problem.noise",
        "little.yaml: experiment.cases.a nam=zdt2: one.yaml: problem.noise",
        "little.yaml: experiment.cases.b: problem.noise",
        "little.yaml: experiment.product: problem.nam: unknown key; expected one of name, d, "
        "noise; found 'nam'; did you mean 'name'?",
        "little.yaml: workers",
    ]
