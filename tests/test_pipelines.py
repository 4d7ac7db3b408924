import subprocess
import sys

from crosshead import pipelines


def test_pipelines_of_add_ons_are_imported_at_their_first_use() -> None:
    code = (
        "import sys; from crosshead import pipelines; "
        "assert not any('addons.series' in name for name in sys.modules); "
        "print(pipelines.SeriesForecaster.__module__)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "crosshead.addons.series.forecaster"
    assert pipelines.Translator.does == "translates"
