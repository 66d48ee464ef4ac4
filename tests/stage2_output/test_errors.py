from stage2_output import ExtractionError, InvalidSchema, OutputError


def test_a_models_error_and_a_developers_error_are_told_apart():
    assert issubclass(ExtractionError, OutputError)
    assert issubclass(OutputError, ValueError)
    assert issubclass(InvalidSchema, ValueError)
    assert not issubclass(InvalidSchema, OutputError)


def test_an_extraction_error_knows_its_position_if_there_is_one():
    assert ExtractionError("wrong", 7).position == 7
    assert ExtractionError("nothing").position is None
    assert str(ExtractionError("wrong", 7)) == "wrong"
