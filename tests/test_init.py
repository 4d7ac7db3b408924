import subprocess
import sys


def test_load_is_listed_before_anything_imports_pytorch() -> None:
    code = "import crosshead, sys; print('load' in dir(crosshead), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]
