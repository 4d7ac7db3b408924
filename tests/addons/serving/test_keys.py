import hashlib
from pathlib import Path

import pytest

from crosshead.addons.serving.keys import KeysError, Rates, Usage, read_keys

HASH = hashlib.sha256("Schlüssel".encode()).hexdigest()


def test_a_file_of_keys_holds_hashes_names_and_rates(tmp_path: Path) -> None:
    other = hashlib.sha256(b"b").hexdigest()
    (tmp_path / "keys").write_text(f"# friends\n\n{HASH} anna 5\n{other} bert\n")
    keys = read_keys(tmp_path / "keys")
    found = keys.find("Schlüssel"), keys.find("b")
    assert [key and (key.name, key.per_minute) for key in found] == [("anna", 5), ("bert", None)]
    assert keys.find("schlüssel") is None and keys.find("") is None and keys.find("\ud800") is None


@pytest.mark.parametrize(
    "text", ["", "secret anna", f"{HASH}", f"{HASH} anna five", f"{HASH} a 1 2", f"{HASH[:-1]} a"]
)
def test_a_wrong_file_of_keys_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "keys").write_text(text)
    with pytest.raises(KeysError, match="keys"):
        read_keys(tmp_path / "keys")


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (f"{HASH} bert", "keys:3: an earlier line has the same key"),
        (f"{'0' * 64} anna", "keys:3: an earlier line has the same name"),
    ],
)
def test_a_key_or_a_name_twice_is_refused(tmp_path: Path, second: str, message: str) -> None:
    (tmp_path / "keys").write_text(f"{HASH} anna\n\n{second}\n")
    with pytest.raises(KeysError, match=message):
        read_keys(tmp_path / "keys")


def test_a_rate_of_0_is_no_limit_whatever_that_of_the_server(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"{HASH} anna 0\n")
    key = read_keys(tmp_path / "keys").find("Schlüssel")
    assert key is not None and key.per_minute == 0
    assert [Rates(1).wait("a", key.per_minute, now=0.0) for _ in range(3)] == [0, 0, 0]


def test_a_question_about_the_rate_counts_nothing() -> None:
    rates = Rates(1)
    assert [rates.wait("a", now=0.0, count=False) for _ in range(3)] == [0, 0, 0]
    assert rates.wait("a", now=0.0) == 0
    assert [rates.wait("a", now=30.0, count=False) for _ in range(3)] == [30, 30, 30]


def test_a_missing_file_of_keys_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeysError, match="cannot be read: No such file"):
        read_keys(tmp_path / "keys")


def test_a_bucket_fills_evenly() -> None:
    rates = Rates(6)  # one in ten seconds
    assert [rates.wait("a", now=0.0) for _ in range(6)] == [0.0] * 6
    assert rates.wait("a", now=0.0) == pytest.approx(10)
    assert rates.wait("b", now=0.0) == 0
    assert rates.wait("a", now=4.0) == pytest.approx(6)
    assert rates.wait("a", now=10.0) == 0
    assert rates.wait("a", now=1000.0) == 0


def test_a_limit_of_ones_own_and_none_at_all() -> None:
    assert [Rates(0).wait("a", now=0.0) for _ in range(3)] == [0, 0, 0]
    rates = Rates(0)
    assert rates.wait("a", 1, now=0.0) == 0 and rates.wait("a", 1, now=0.0) == pytest.approx(60)


def test_only_so_many_clients_are_remembered() -> None:
    rates = Rates(1)
    for number in range(10_001):
        rates.wait(str(number), now=0.0)
    assert rates.wait("0", now=0.0) == 0 and rates.wait("10000", now=0.0) > 0


def test_usage_counts_each_client_and_forgets_the_one_that_asked_longest_ago() -> None:
    usage = Usage()
    usage.add("a", 3)
    usage.add("b", 5)
    usage.add("a", 4)
    assert (usage.characters("a"), usage.characters("b"), usage.characters("c")) == (7, 5, 0)
    for number in range(9_999):
        usage.add(str(number), 1)
    assert (usage.characters("a"), usage.characters("b")) == (7, 0)
