"""What holds for every executor."""

from __future__ import annotations

import pytest

from fedstep.execute import Cohort, Executor, Local, Processes, Sequential


class Closing(Sequential):
    """An executor that notes when it is closed."""

    closed = 0

    def close(self) -> None:
        type(self).closed += 1


def test_an_executor_is_closed_at_the_end_of_its_with_block():
    with Closing() as executor:
        assert executor.closed == 0
    assert executor.closed == 1


def test_an_executor_is_closed_when_its_with_block_raises():
    before = Closing.closed
    with pytest.raises(KeyError), Closing():
        raise KeyError
    assert Closing.closed == before + 1


@pytest.mark.parametrize("kind", [Executor, Local])
def test_a_class_that_does_not_say_how_clients_run_is_no_executor(kind):
    class Unfinished(kind):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Unfinished()


@pytest.mark.parametrize("inner", [Sequential(), Cohort(4), Cohort(4, dual=False)], ids=repr)
def test_the_cut_does_not_depend_on_the_number_of_workers(inner):
    assert Processes(inner, 2).cut == Processes(inner, 3).cut == inner.cut


def test_executors_that_cut_otherwise_say_so():
    cuts = {executor.cut for executor in (Sequential(), Cohort(4), Cohort(8))}
    assert len(cuts) == 3
