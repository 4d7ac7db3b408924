"""The verbs on series: train, forecast, evaluate."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import crosshead
from crosshead.addons.series.verbs import _picture
from crosshead.cli import run
from tests.cli.tools import BUNDLE, Refused, output_of
from tests.parameters import mostly_slow
from tests.text.written import write, write_series


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a series and a forecaster with quantiles."""
    folder = tmp_path_factory.mktemp("forecast")
    wave = write_series(folder / "wave.csv", rows=400)
    settings = ["--context", "48", "--horizon", "8", "--threads", "1", "--max-updates", "60"]
    settings += ["--set", "model.quantiles=[0.1, 0.5, 0.9]", "--set", "learning_rate=0.01"]
    out = str(folder / "run")
    code = run(["train", "--series", str(wave), "--model", "dlinear", "--out", out, *settings])
    assert code == 0
    return folder


def test_the_forecast_is_csv(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = output_of(["forecast", folder / "run", "--series", folder / "wave.csv"], capfd)
    head, *rows = csv.reader(text.splitlines())
    assert head == ["time", "load", "load 0.1", "load 0.9", "price", "price 0.1", "price 0.9"]
    assert [row[0] for row in rows][:2] == ["2024-01-17 16:00:00", "2024-01-17 17:00:00"]
    assert len(rows) == 8
    for row in rows:
        load, low, high = map(float, row[1:4])
        assert low <= load <= high and 5 < load < 20


def test_the_forecast_is_json_lines_or_a_file_or_a_picture(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    typed = ["forecast", folder / "run", "--series", folder / "wave.csv"]
    start = ["--start", "2024-01-15 06:00"]
    lines = output_of([*typed, *start, "--jsonl"], capfd).splitlines()
    assert json.loads(lines[0])["time"] == "2024-01-15 06:00:00" and len(lines) == 8
    picture, file = tmp_path / "forecast.png", tmp_path / "forecast.csv"
    assert output_of([*typed, *start, "--plot", picture, "--output", file], capfd) == ""
    assert picture.read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader(file.read_text().splitlines()))
    assert float(rows[0]["load"]) == pytest.approx(json.loads(lines[0])["load"], rel=1e-5)
    forecast = crosshead.load(folder / "run")(folder / "wave.csv", "2024-01-15 06:00")
    panels = _picture([forecast]).axes
    drawn = {line.get_label(): line.get_xydata() for line in panels[0].lines}
    for label in ("forecast", "later values"):  # both lines continue the history
        assert drawn[label][0].tolist() == drawn["history"][-1].tolist() and len(drawn[label]) == 9
    assert panels[-1].get_xlabel().endswith(" to 2024-01-15 13:00:00")


def test_no_output_replaces_a_file_that_is_read_or_is_left_by_a_failure(
    folder: Path, tmp_path: Path, refused: Refused
) -> None:
    wave, picture = folder / "wave.csv", tmp_path / "f.png"
    whole = wave.read_bytes()
    typed = ["forecast", folder / "run", "--series", wave]
    assert "is the input file" in refused(*typed, "--output", wave)
    weights = folder / "run" / "model.safetensors"
    assert "is a file of the model" in refused(*typed, "--output", weights)
    assert "give two files" in refused(*typed, "--output", picture, "--plot", picture)
    refused(*typed, "--output", tmp_path / "no" / "x.csv", "--plot", picture)
    assert wave.read_bytes() == whole and not picture.exists()


def test_a_forecast_of_one_step_is_drawn_too(folder: Path, tmp_path: Path) -> None:
    settings = ["--context", "9", "--horizon", "1", "--threads", "1", "--max-updates", "2"]
    settings += ["--model", "dlinear", "--set", "model.quantiles=[0.2, 0.5, 0.8]"]
    wave, out, picture = folder / "wave.csv", tmp_path / "one", tmp_path / "one.svg"
    assert run(["train", "--series", str(wave), "--out", str(out), *settings]) == 0
    assert run(["forecast", str(out), "--series", str(wave), "--plot", str(picture)]) == 0
    assert "60 % interval" in picture.read_text()


def test_what_rules_changed_is_told(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = (folder / "wave.csv").read_text().splitlines()
    path = write(tmp_path / "gaps.csv", "\n".join([*lines[:100], *lines[103:]]))
    assert run(["forecast", str(folder / "run"), "--series", str(path)]) == 0
    assert "gaps.csv: 3 missing rows added and filled" in capfd.readouterr().err
    write(path, "\n".join([*lines[:-20], *(f"{each.partition(',')[0]},," for each in lines[-20:])]))
    assert run(["forecast", str(folder / "run"), "--series", str(path)]) == 0
    assert "the last 20 rows have no value of a column to forecast" in capfd.readouterr().err


def test_forecasts_are_scored_beside_baselines(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("crosshead.cli.terminal._QUIET", 0.0)
    typed = ["evaluate", folder / "run", "--series", folder / "wave.csv", "--start", "2024-01-14"]
    assert run([str(each) for each in typed]) == 0
    shown = capfd.readouterr()
    assert "100%  81 of 81 windows" in shown.err
    head, *rows = shown.out.splitlines()
    assert head.split()[:4] == ["forecast", "MSE", "MAE", "MASE"]
    methods = ["model", "last value", "seasonal naive (24)"]
    assert [row.split("  ")[0] for row in rows[:3]] == methods
    assert rows[-1].startswith("windows:81|steps:8|columns:2|units:deviations")
    found = output_of([*typed, "--original", "--jsonl"], capfd).splitlines()
    scores = [json.loads(line) for line in found]
    assert {each["method"] for each in scores} == set(methods)
    assert "units:original" in scores[0]["signature"]


def test_a_season_longer_than_the_context_is_scored_where_the_series_has_one(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = ["--context", "9", "--horizon", "2", "--threads", "1", "--max-updates", "1"]
    wave, out = folder / "wave.csv", tmp_path / "run"
    train = ["train", "--series", str(wave), "--model", "dlinear", "--out", str(out), *settings]
    assert run(train) == 0
    assert "of the untrained forecast seasonal naive (24)" in capfd.readouterr().out
    assert run(["evaluate", str(out), "--series", str(wave)]) == 0
    shown = capfd.readouterr()
    assert "seasonal" not in shown.out and "the first forecast has 9 rows before" in shown.err
    assert run(["evaluate", str(out), "--series", str(wave), "--start", "2024-01-02"]) == 0
    shown = capfd.readouterr()
    assert "seasonal naive (24)" in shown.out and "seasonal" not in shown.err


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["forecast", "RUN", "--series", "no.csv"], "no.csv: no such file"),
        (["forecast", "RUN", "--series", "WAVE", "--start", "soon"], "expected a time such as"),
        (["forecast", "RUN", "--series", "WAVE", "--start", "1999-01-01"], "no row at 1999"),
        (
            ["evaluate", "RUN", "--series", "WAVE", "--start", "2030"],
            "value in its 8 steps from 2030 on",
        ),
        (
            ["evaluate", "RUN", "--series", "WAVE", "--start", "2024-01-17 09:00"],
            "give more rows, or an earlier start",
        ),
        (
            ["forecast", "RUN", "--series", "WAVE", "--plot", "f.txt"],
            "to end in .png, .svg or .pdf",
        ),
        (["forecast", "RUN"], "Missing option '--series'"),
        (["forecast", "TEXT", "--series", "WAVE"], "a model that translates"),
        (
            ["translate", "RUN", "WAVE"],
            "a model that forecasts a time series; forecast with: crosshead fore",
        ),
        (["attention", "RUN", "a", "--out", "a.png"], "this model has no attention"),
        (["evaluate", "RUN", "--series", "WAVE", "--text", "WAVE"], "--text is not for --series"),
        (["evaluate", "RUN", "--text", "WAVE", "--start", "2024"], "--start is not for --text"),
        (["evaluate", "RUN", "--text", "WAVE"], "forecasts a time series"),
        (
            ["evaluate", "RUN", "--source", "WAVE", "--reference", "WAVE"],
            "a model that forecasts a time series; forecast with: crosshead forecast",
        ),
        (
            ["score", "RUN", "--source", "WAVE", "--target", "WAVE"],
            "forecast with: crosshead forecast",
        ),
        (["evaluate", "TEXT", "--series", "WAVE"], "a model that translates"),
    ],
)
def test_mistakes_are_named(typed: list[str], words: str, folder: Path, refused: Refused) -> None:
    places = {"RUN": str(folder / "run"), "WAVE": str(folder / "wave.csv"), "TEXT": str(BUNDLE)}
    assert words in refused(*[places.get(each, each) for each in typed])


def test_a_column_with_a_comma_in_its_name_is_trained_forecast_and_tuned(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = (write_series(tmp_path / "wave.csv", rows=200)).read_text().splitlines()[1:]
    wave = write(tmp_path / "comma.csv", "\n".join(['date,"a, b",c', *rows]))
    settings = ["--threads", "1", "--max-updates", "2", "--series", str(wave)]
    sizes = ["--context", "9", "--horizon", "2", "--model", "dlinear"]
    assert run(["train", "--out", str(tmp_path / "run"), *settings, *sizes]) == 0
    start = ["--from", str(tmp_path / "run"), "--out", str(tmp_path / "tuned")]
    assert run(["train", *start, *settings]) == 0
    capfd.readouterr()
    text = output_of(["forecast", tmp_path / "tuned", "--series", wave], capfd)
    assert next(csv.reader(text.splitlines())) == ["time", "a, b", "c"]


def test_a_forecast_shows_all_digits_of_large_values(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = [f"2024-01-{day:02},{12_345_678 + day % 7}" for day in range(1, 32)]
    large = write(tmp_path / "large.csv", "\n".join(["date,a", *lines]))
    settings = ["--threads", "1", "--max-updates", "1", "--model", "dlinear"]
    settings += ["--context", "4", "--horizon", "1", "--series", str(large)]
    assert run(["train", "--out", str(tmp_path / "run"), *settings]) == 0
    capfd.readouterr()
    typed = ["forecast", tmp_path / "run", "--series", large]
    [row] = csv.DictReader(output_of(typed, capfd).splitlines())
    exact = json.loads(output_of([*typed, "--jsonl"], capfd))["a"]
    assert float(row["a"]) == pytest.approx(exact, abs=0.01)


SMALL = ["--threads", "1", "--max-updates", "2", "--model", "dlinear", "--context", "6"]
MODELS = ["series-recurrent", "series-transformer"]
FORMS = {
    "quarters": ("quarter,a", [f"{1990 + n // 4}-Q{n % 4 + 1}" for n in range(60)],
                 ["2005-01-01", "2005-04-01", "2005-07-01"]),
    "whole numbers": ("t,a", [str(10 + 5 * n) for n in range(60)], ["310", "315", "320"]),
    "business days": ("date,a", [str(np.busday_offset("2024-01-01", n)) for n in range(60)],
                      ["2024-03-25", "2024-03-26", "2024-03-27"]),
    "a week of six days": (
        "date,a",
        [str(np.busday_offset("2024-01-01", n, weekmask="1111110")) for n in range(59)],
        ["2024-03-09", "2024-03-11", "2024-03-12"],
    ),
    "a comment": ("# a logger\n# of mine\ndate;a", [f"{n + 1:02}.01.2024" for n in range(31)],
                  ["2024-02-01", "2024-02-02", "2024-02-03"]),
    "seconds": ("timestamp,a", [str(1704067200 + 3600 * n) for n in range(60)],
                ["2024-01-03 12:00:00", "2024-01-03 13:00:00", "2024-01-03 14:00:00"]),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_times_of_every_form_are_continued_on_their_own_calendar(
    form: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    head, times, expected = FORMS[form]
    between = head[-2]
    rows = [f"{time}{between}{place % 7}.5" for place, time in enumerate(times)]
    given = write(tmp_path / "form.csv", "\n".join([head, *rows]))
    out = tmp_path / "run"
    typed = ["train", "--series", str(given), "--out", str(out), *SMALL, "--horizon", "3"]
    assert run([*typed, "--set", "data.season=1"]) == 0
    said = capfd.readouterr().err
    assert f"{len(times)} rows, one every " in said and "added and filled" not in said
    assert ("comments above the columns are left out: '# a logger # of mine'" in said) == (
        form == "a comment"
    )
    text = output_of(["forecast", out, "--series", given], capfd)
    assert [row["time"] for row in csv.DictReader(text.splitlines())] == expected
    # Another beginning, and fewer rows than a week, show the same calendar.
    start = ["--start", times[20], "--jsonl"]
    found = output_of(["forecast", out, "--series", given, *start], capfd).splitlines()
    assert json.loads(found[0])["time"] == {
        "quarters": "1995-01-01", "seconds": "2024-01-01 20:00:00", "a comment": "2024-01-21",
    }.get(form, times[20])  # fmt: skip
    short = write(tmp_path / "short.csv", "\n".join([head, *rows[-6:]]))
    assert output_of(["forecast", out, "--series", short], capfd) == text


def test_a_long_table_is_forecast_and_scored(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = (write_series(tmp_path / "wave.csv", rows=120)).read_text().splitlines()[1:]
    cells = [line.split(",") for line in lines]
    for place, cell in enumerate(cells):  # the season alone would have no error
        cell[2] = f"{float(cell[2]) + 0.1 * (place % 7):.3f}"
    rows = [
        f"{key},{time},{value}"
        for time, *both in cells
        for key, value in zip("pq", both, strict=True)
    ]
    given = write(tmp_path / "long.csv", "\n".join(["unique_id,ds,y", *rows]))
    out, settings = tmp_path / "run", [*SMALL, "--horizon", "2"]
    quantiles = ["--set", "model.quantiles=[0.1,0.5]"]
    assert run(["train", "--series", str(given), "--out", str(out), *settings, *quantiles]) == 0
    capfd.readouterr()
    picture = tmp_path / "f.svg"
    text = output_of(["forecast", out, "--series", given, "--plot", picture], capfd)
    head, *found = csv.reader(text.splitlines())
    assert head == ["unique_id", "ds", "y", "y 0.1"]
    times = ["2024-01-06 00:00:00", "2024-01-06 01:00:00"]
    assert [row[:2] for row in found] == [[key, time] for key in "pq" for time in times]
    assert "p y" in picture.read_text() and "q y" in picture.read_text()
    # Each series is forecast as if it were alone, and in its own units.
    alone = write(tmp_path / "q.csv", "\n".join(["unique_id,ds,y", *rows[1::2]]))
    assert output_of(["forecast", out, "--series", alone], capfd).splitlines()[1:] == [
        ",".join(row) for row in found[2:]
    ]
    assert all(3 < float(row[2]) < 7 for row in found[2:])
    assert all(7 < float(row[2]) < 15 for row in found[:2])
    typed = ["evaluate", out, "--series", given, "--jsonl"]
    both = [json.loads(line) for line in output_of(typed, capfd).splitlines()]
    [first, second] = (
        [json.loads(line) for line in output_of([*typed[:3], part, "--jsonl"], capfd).splitlines()]
        for part in (write(tmp_path / "p.csv", "\n".join(["unique_id,ds,y", *rows[::2]])), alone)
    )
    assert "windows:226|steps:2|columns:1|series:2|" in both[0]["signature"]
    for whole, *parts in zip(both, first, second, strict=True):
        assert whole["value"] == pytest.approx(sum(each["value"] for each in parts) / 2)
    # A new series is scaled by its own rows; a series that cannot be forecast is named.
    more = [
        *rows,
        *(f"new,{time},{10 * float(load)}" for time, load, _ in cells),
        "short,2024-01-01,1",
    ]
    write(given, "\n".join(["unique_id,ds,y", *more]))
    assert run(["forecast", str(out), "--series", str(given)]) == 0
    shown = capfd.readouterr()
    assert "series short left out: the series has 1 rows before the forecast" in shown.err
    assert [line.split(",")[0] for line in shown.out.splitlines()[1:]] == [*"ppqq", "new", "new"]
    assert 70 < float(shown.out.splitlines()[-1].split(",")[2]) < 150


@pytest.mark.parametrize("model", mostly_slow(MODELS, ["series-recurrent"]))
def test_a_column_that_is_known_ahead_tells_what_comes(
    model: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """`load` follows `promo`, which is drawn at random: only its future tells that of `load`."""
    generator = np.random.default_rng(1)
    promo = generator.integers(0, 2, 400)
    load = 5 + 3 * promo + 0.1 * generator.normal(size=400)
    times = np.datetime64("2024-01-01") + np.arange(400)
    rows = list(map("{},{:.4f},{}".format, times, load, promo))
    ahead = [f"{time},,{value}" for time, value in zip(times[-4:] + 4, (0, 1, 1, 0), strict=True)]
    head = "date,load,promo"
    given = write(tmp_path / "s.csv", "\n".join([head, *rows]))
    settings = ["--threads", "1", "--max-updates", "40", "--model", model, "--target", "load"]
    settings += ["--context", "4", "--horizon", "4", "--set", "train.batch_tokens=256"]
    for setting in ("model.d_model=16", "model.dropout=0", "model.normalize=none"):
        settings += ["--set", setting]
    settings += ["--set", "learning_rate=0.04", "--set", "train.precision=float32"]
    if model == "series-transformer":
        settings += ["--set", "model.d_ff=32", "--set", "model.heads=2"]
    errors = {}
    for option in ("--inputs", "--future"):
        out = tmp_path / option
        typed = ["train", "--series", str(given), "--out", str(out), option, "promo", *settings]
        assert run(typed) == 0
        end = json.loads((out / "log.jsonl").read_text().splitlines()[-1])
        errors[option] = end["mae"]
    assert errors["--future"] < 0.25 < 0.6 < errors["--inputs"]
    capfd.readouterr()
    out = tmp_path / "--future"
    assert run(["forecast", str(out), "--series", str(given)]) == 2
    said = capfd.readouterr().err
    assert "a value of promo is missing" in said and "from 2025-02-04 to 2025-02-07" in said
    write(given, "\n".join([head, *rows, *ahead]))
    found = csv.DictReader(output_of(["forecast", out, "--series", given], capfd).splitlines())
    assert [float(row["load"]) > 6.5 for row in found] == [False, True, True, False]
    assert ["known ahead", "promo"] in crosshead.load(out).facts()
