from stage2_output import ExtractionError, InvalidSchema, OutputError


def test_errors_of_the_model_and_errors_of_the_developer_have_different_base_classes():
    assert issubclass(ExtractionError, OutputError)
    assert issubclass(OutputError, ValueError)
    assert issubclass(InvalidSchema, ValueError)
    assert not issubclass(InvalidSchema, OutputError)


def test_an_extraction_error_has_its_position_if_there_is_one():
    assert ExtractionError("wrong", 7).position == 7
    assert ExtractionError("nothing").position is None
    assert str(ExtractionError("wrong", 7)) == "wrong"
