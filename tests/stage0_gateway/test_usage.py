from stage0_gateway import Usage


def test_usages_add_up_number_by_number():
    assert Usage(1, 2, 3, 4, 5) + Usage(10, 20, 30, 40, 50) == Usage(11, 22, 33, 44, 55)


def test_what_only_one_report_knows_is_kept_and_what_none_knows_stays_unknown():
    assert Usage(input_tokens=5) + Usage(output_tokens=2) == Usage(5, 2, None, None, None)
    assert Usage(cache_write_tokens=5) + Usage() == Usage(cache_write_tokens=5)


def test_zero_is_a_number_and_not_unknown():
    assert Usage(0) + Usage(3) == Usage(3)
    assert (Usage(0) + Usage()).input_tokens == 0
