import base64
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from crosshead.inspection.saved_page import saved_page

MODELS = [{"name": "</script><b>", "shape": "s", "heads": {}, "checkpoints": []}]


def test_the_page_runs_its_own_script_and_style_alone() -> None:
    page = saved_page(MODELS, "a", [])
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    [script] = re.findall(r'<script type="module">(.*?)</script>', page, re.DOTALL)
    [style] = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    for kind, text in (("script", script), ("style", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)


def test_no_text_ends_the_data() -> None:
    page = saved_page(MODELS, "</script><script>alert(1)</script>", [])
    [data] = re.findall(r'id="recorded">(.*?)</script>', page, re.DOTALL)
    read = json.loads(data)
    assert read["models"] == MODELS and read["text"].startswith("</script>")
    assert page.count("</script>") == 2


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
def test_the_functions_of_the_page() -> None:
    file = Path(__file__).parent / "page" / "page.test.mjs"
    done = subprocess.run(["node", "--test", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
