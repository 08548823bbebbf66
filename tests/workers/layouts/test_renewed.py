import pytest

from gpu_runner.contracts import SourceFile
from tests.workers.layouts.designs import reglu
from tests.workers.layouts.miniature import DATA
from tests.workers.layouts.standing import LIGER, PLAIN, liger, plain, with_file

DATA_PATH = "benchmark/data/all_benchmark_data.csv"
OLD = 'reglu,liger,forward,speed,ms,BT,total tokens,1024,0.5,0.4,0.6,"{""bsz"": 1}",Some GPU,2026-02-03 04:05:06,9.9.1\r\n'
OTHER_GPU = OLD.replace("Some GPU", "Another GPU")
NEW = OLD.replace("0.5,0.4,0.6", "0.25,0.2,0.3").replace("02-03", "03-04")
LAST = DATA.splitlines(keepends=True)[-1].replace("geglu", "softmax")


def _data(written: str, before: str = DATA + OLD + OTHER_GPU + LAST) -> str | None:
    tree = with_file(liger(), DATA_PATH, before)
    changes = LIGER.existing_data(LIGER.locate("reglu", tree), (SourceFile(DATA_PATH, written),), tree)
    return changes[0].text if changes else None


def test_a_row_of_the_kernel_and_gpu_is_replaced_where_it_stands() -> None:
    assert _data(DATA + NEW) == DATA + NEW + OTHER_GPU + LAST


def test_a_row_at_another_size_is_added_at_the_end() -> None:
    more = NEW.replace(",1024,", ",2048,")
    assert _data(DATA + NEW + more) == DATA + NEW + OTHER_GPU + LAST + more


def test_every_other_byte_stays_as_it_was() -> None:
    odd = 'geglu,liger,full,speed,ms,T,"to\nkens",1,1.50,1,1,{},X,now,1\n'
    before = (DATA + OLD).replace("\r\n", "\n") + odd + "broken line\n" + OTHER_GPU.replace("\r\n", "\n").rstrip("\n")
    text = _data((DATA + NEW + NEW.replace(",1024,", ",64,")).replace("\r\n", "\n"), before)
    new = NEW.replace("\r\n", "\n")
    assert text == before.replace(OLD.replace("\r\n", "\n"), new) + "\n" + new.replace(",1024,", ",64,")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("reglu,", "geglu,"),
        ("reglu,liger,", "reglu,miracle,"),
        (",forward,", ",sideways,"),
        (",0.25,", ",nan,"),
        (",0.25,", ",=1+1,"),
        (",ms,", ",MB,"),
        (",9.9.1", ""),
    ],
)
def test_a_row_that_the_script_cannot_have_written_is_left_out(old: str, new: str) -> None:
    assert _data(DATA + NEW.replace(old, new, 1)) is None


def test_rows_of_more_than_one_gpu_are_from_no_run() -> None:
    assert _data(DATA + NEW + NEW.replace("Some GPU", "Another GPU")) is None


def test_nothing_new_is_no_change() -> None:
    assert _data(DATA + OLD) is None
    tree = liger()
    assert LIGER.existing_data(LIGER.locate("reglu", tree), (), tree) == ()
    assert LIGER.existing_data(LIGER.locate("rms_norm", tree), (SourceFile(DATA_PATH, DATA + NEW),), tree) == ()


def test_providers_that_the_script_names_are_its_own() -> None:
    script = "benchmark/scripts/benchmark_reglu.py"
    tree = with_file(liger(), script, (liger().read(script) or "") + 'MORE = ["huggingface"]\n')
    row = NEW.replace(",liger,", ",huggingface,")
    changes = LIGER.existing_data(LIGER.locate("reglu", tree), (SourceFile(DATA_PATH, DATA + row),), tree)
    assert changes[0].text == DATA + row


def test_a_kernel_is_known_by_what_its_script_calls_it() -> None:
    script = "benchmark/scripts/benchmark_reglu.py"
    text = (liger().read(script) or "").replace('kernel_name="reglu"', 'kernel_name="gate"')
    tree = with_file(liger(), script, text)
    row = NEW.replace("reglu,", "gate,")
    changes = LIGER.existing_data(LIGER.locate("reglu", tree), (SourceFile(DATA_PATH, DATA + row + NEW),), tree)
    assert changes[0].text == DATA + row


def test_a_small_library_keeps_no_data() -> None:
    tree = plain(reglu())
    assert PLAIN.existing_data(PLAIN.locate("reglu", tree), (SourceFile(DATA_PATH, DATA + NEW),), tree) == ()
