"""Chunks: the same numbers as one pass of NumPy, in threads where arrays are large."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from segcertify import chunks
from segcertify.chunks import LEAST, THREADS, by_chunks, copied, handed_over


@pytest.fixture(params=[1, 2, 3, 64])
def cores(request, monkeypatch):
    """A machine with so many cores."""
    monkeypatch.setattr(chunks, "cores", lambda: request.param)
    return request.param


@pytest.mark.parametrize("size", [1, LEAST - 1, LEAST, LEAST + 1, LEAST + 5, 3 * LEAST])
def test_chunks_are_the_array_in_order_and_threads_have_one_each(cores, size):
    array = np.arange(size)
    found = by_chunks(lambda a, b: (a, b, threading.current_thread()), array, array[::-1])
    np.testing.assert_array_equal(np.concatenate([a for a, _, _ in found]), array)
    np.testing.assert_array_equal(np.concatenate([b for _, b, _ in found]), array[::-1])
    expected = min(cores, THREADS) if size >= LEAST else 1
    assert len(found) == expected
    assert all((thread is threading.current_thread()) == (expected == 1) for _, _, thread in found)


@pytest.mark.parametrize("shape", [(), 0, (3, 0), (5, 7), LEAST + 3, (2, LEAST // 2 + 1)])
@pytest.mark.parametrize("kind", [np.uint8, np.int16, ">i4", np.int64, np.uint64])
@pytest.mark.parametrize("view", ["whole", "transposed", "strided", "broadcast"])
def test_a_copy_and_its_ends(cores, shape, kind, view):
    array = np.random.default_rng(1).integers(0, 100, shape).astype(kind)
    if view == "transposed":
        array = array.T
    if view == "strided":
        array = np.repeat(array, 2, -1)[..., ::2] if array.ndim else array
    if view == "broadcast":
        array = np.broadcast_to(array, (2, *array.shape))
    copy, least, largest = copied(array, np.int32)
    np.testing.assert_array_equal(copy, array)
    assert copy.dtype == np.int32
    assert copy.flags.c_contiguous
    assert not np.shares_memory(copy, array)
    assert (least, largest) == ((array.min(), array.max()) if array.size else (0, 0))


@pytest.mark.parametrize("where", [0, LEAST, 2 * LEAST - 1])
def test_the_ends_of_a_copy_come_from_all_chunks_and_before_it_is_cut(cores, where):
    array = np.full(2 * LEAST, 5)
    array[where] = -(2**40)
    assert copied(array, np.int32)[1:] == (-(2**40), 5)
    assert copied(-array, np.int32)[1:] == (-5, 2**40)


def test_what_a_chunk_writes_is_kept_or_refused(cores):
    def double(chunk):
        chunk *= 2

    array = np.ones((2, LEAST), np.int32)
    by_chunks(double, array)
    assert (array == 2).all()
    with pytest.raises(ValueError, match="read-only"):
        by_chunks(double, array.T)
    assert (array == 2).all()
    assert array.T.flags.writeable


def test_what_a_chunk_raises_reaches_the_caller_and_the_threads_go_on(cores):
    def refuse(chunk):
        if chunk[-1]:
            raise ArithmeticError("the last one")

    array = np.zeros(LEAST)
    array[-1] = 1
    with pytest.raises(ArithmeticError, match="the last one"):
        by_chunks(refuse, array)
    assert sum(by_chunks(np.sum, array)) == 1


def test_many_callers_share_the_threads(cores):
    found, array = [], np.ones(LEAST, np.int64)
    callers = [threading.Thread(target=lambda: found.append(sum(by_chunks(np.sum, array)))) for _ in range(12)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert found == [LEAST] * 12


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_has_threads_of_its_own():
    """Its parent's are not there, and would be waited for without end."""
    code = """
import os, signal, threading, warnings
import numpy as np
from segcertify import chunks
warnings.simplefilter("ignore")
chunks.cores = lambda: 4
array, together = np.ones(chunks.LEAST, np.int64), threading.Barrier(4)
chunks.by_chunks(lambda chunk: together.wait(20), array)  # all four threads are there
total = lambda: sum(chunks.by_chunks(np.sum, array))
child = os.fork()
if not child:
    signal.alarm(20)
    os._exit(0 if total() == chunks.LEAST else 1)
assert os.waitpid(child, 0)[1] == 0 and total() == chunks.LEAST
print("the same")
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == "the same\n"


def test_cores_are_those_that_the_process_may_use():
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    code += "from segcertify.chunks import cores; print(cores())"
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("this system does not pin processes")
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "1\n"


def test_only_what_was_handed_over_is_not_copied():
    """Neither an array that was made read-only, of which a view may be writable, nor one of another type."""
    numbers = np.arange(6, dtype=np.int32)
    view = numbers[:]
    numbers.flags.writeable = False
    kept, least, largest = copied(numbers, np.int32)
    view[0] = 9
    assert (kept[0], least, largest) == (0, 0, 5)
    given = handed_over(np.arange(6, dtype=np.int32))
    kept, least, largest = copied(given, np.int32)
    assert np.shares_memory(kept, given)
    assert (type(kept), least, largest) == (np.ndarray, 0, 5)
    assert not np.shares_memory(copied(given, np.int64)[0], given)
